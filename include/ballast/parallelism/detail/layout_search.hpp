// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LAYOUT_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_LAYOUT_SEARCH_HPP

#include <ballast/core/detail/insert_ordered.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/parallel_degree.hpp>
#include <ballast/parallelism/detail/dealt_times.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/detail/layout_enumeration.hpp>
#include <ballast/parallelism/detail/layout_list.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/step_bounds.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/simulated_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Finds the layouts with the shortest simulated steps, each with its best number of microbatches
/// and of virtual stages.
///
/// Layouts come in the order of the bound of layout_enumeration, first each with its cheapest
/// number of microbatches, so that there is a step to beat, then with all others. Each pair passes
/// the bounds of step_bounds, each only where the one before is below the worst step that is kept,
/// and is then simulated; so does each with virtual stages, for which the same bounds hold: all the
/// work of a stage is on its GPU, between the first forward and the last backward of the step.
///
/// A pair fits where the microbatches that the problem draws do, and those into which the batches
/// are dealt.
///
/// Ensures     (1) where is_proven(), what simulating all pairs that fit would find
///             (2) else no step is below least_step()
class layout_search {
 public:
  layout_search(layout_problem const& problem, std::span<tokens const> batches,
                layout_prices& prices, std::size_t wanted,
                std::span<std::uint32_t const> virtual_stages, std::uint64_t most_work)
      : profiles_(problem.modules),
        memory_bytes_(problem.memory_bytes),
        times_(problem, batches),
        bounds_(problem, times_),
        all_(problem, times_, prices.memory),
        prices_(prices),
        modules_(problem.modules.size()),
        wanted_(wanted),
        virtual_stages_(virtual_stages),
        budget_(most_work),
        layouts_(problem.modules.size())
  {}

  /// Expects     some layout fits.
  void run(bool cheapest_counts_only)
  {
    bool const is_whole = list_layouts();
    if (layouts_.size() > 0) { least_step_ = std::min(layouts_[0].bound, best_step()); }
    if (!is_whole || cheapest_counts_only) { return; }
    for (std::size_t at = 0; at < layouts_.size() && layouts_[at].bound <= limit(); ++at) {
      least_step_ = std::min(layouts_[at].bound, best_step());
      layouts_.read(at, chosen_);
      layout_list::entry const layout = layouts_[at];
      for (std::uint32_t count = layout.least; count <= layout.most; ++count) {
        if (count != layout.cheapest && fits(layout, count) && !attempt_all(count)) { return; }
      }
    }
    is_proven_ = true;
    least_step_ = best_step();
  }

  /// Best first.
  [[nodiscard]] std::vector<simulated_layout>& best() noexcept { return best_; }

  [[nodiscard]] std::uint64_t layouts() const noexcept { return layouts_.size(); }
  [[nodiscard]] std::uint64_t bounded() const noexcept { return bounded_; }
  [[nodiscard]] std::uint64_t simulated() const noexcept { return simulated_; }
  [[nodiscard]] bool is_proven() const noexcept { return is_proven_; }
  [[nodiscard]] time_units least_step() const noexcept { return least_step_; }
  /// The bound of layout_enumeration.
  [[nodiscard]] time_units bound_of(model_layout const& layout)
  {
    for (std::size_t module = 0; module < modules_; ++module) {
      module_profile const& profile = profiles_[module];
      auto const at =
          find_degree(profile, degree_of(layout.modules[module])) - profile.degrees.data();
      chosen_[module] = {static_cast<std::size_t>(at), layout.modules[module]};
    }
    return all_.bound_of(chosen_);
  }

  /// Whether batches, as they are dealt, did not fit with some layout that was tried.
  [[nodiscard]] bool has_overrun() const noexcept { return has_overrun_; }
  [[nodiscard]] bool is_spent() const noexcept { return budget_.spent(); }

 private:
  [[nodiscard]] time_units limit() const noexcept
  {
    return best_.size() < wanted_ ? no_cost - 1 : best_.back().simulated;
  }

  [[nodiscard]] time_units best_step() const noexcept
  {
    return best_.empty() ? no_cost : best_.front().simulated;
  }

  /// Lists all layouts with a bound up to the best step, in the order of their bounds, and tries
  /// each with its cheapest number of microbatches. Returns whether these are all.
  [[nodiscard]] bool list_layouts()
  {
    time_units const least = all_.least_step();
    least_step_ = least;
    time_units before = -1;  // all up to it are listed
    time_units beyond = least / 8 + 1;
    while (before < limit()) {
      // Far above the bound there are not as many layouts as wanted: then take all.
      bool const is_last = beyond / 1024 >= least || beyond >= (no_cost - 1 - least) / 2;
      time_units const next = is_last ? no_cost - 1 : least + beyond;
      beyond = is_last ? beyond : 2 * beyond;
      time_units upto = std::min(std::max(next, before + 1), limit());
      while (!layouts_.append(all_, before, upto, budget_)) {
        // Too many at once: fewer first, if there is room for them and the budget is not spent.
        if (budget_.spent() || layouts_.is_half_full() || upto - before <= 1) { return false; }
        upto = before + (upto - before) / 2;
      }
      for (std::size_t at = tried_; at < layouts_.size() && layouts_[at].bound <= limit(); ++at) {
        layouts_.read(at, chosen_);
        layouts_[at].cheapest = cheapest_of(layouts_[at]);
        if (layouts_[at].cheapest != 0 && !attempt_all(layouts_[at].cheapest)) { return false; }
      }
      tried_ = layouts_.size();
      before = upto;
      if (layouts_.size() == 0) { least_step_ = std::max(least_step_, before); }
    }
    return true;
  }

  /// Whether the chosen layout fits. With fewer microbatches than are on their way stages keep no
  /// more than there are.
  [[nodiscard]] bool fits(layout_list::entry const& layout, std::uint32_t count)
  {
    if (count >= layout.steady) { return true; }
    std::uint64_t stages = 0;
    for (chosen_layout const& each : chosen_) { stages += each.layout.pp; }
    return count < stages && prices_.bytes(chosen_, count) <= memory_bytes_;
  }

  [[nodiscard]] std::uint32_t cheapest_of(layout_list::entry const& layout)
  {
    time_units least = no_cost;
    std::uint32_t cheapest = 0;
    for (std::uint32_t count = layout.least; count <= layout.most; ++count) {
      if (!fits(layout, count)) { continue; }
      time_units const step = prices_.step(chosen_, count);
      if (step < least) {
        least = step;
        cheapest = count;
      }
    }
    constexpr std::uint64_t pricing = 32;  // as much work as so many tasks
    budget_.spend((std::uint64_t{layout.most} - layout.least + 1) * modules_ *
                  prices_.times.samples() * pricing);
    return cheapest;
  }

  /// Whether a pair whose steps take so long, or longer, is not among the best.
  [[nodiscard]] bool is_beaten(std::vector<time_units> const& steps, std::uint32_t count,
                               std::uint32_t virtual_stages)
  {
    uint128 total = 0;
    for (time_units const each : steps) { total += static_cast<uint128>(each); }
    candidate_.simulated = static_cast<time_units>(divided_up(total, steps.size()));
    if (candidate_.simulated != limit()) { return candidate_.simulated > limit(); }
    describe(count, virtual_stages);
    return !simulates_before(candidate_, best_.back());
  }

  void describe(std::uint32_t count, std::uint32_t virtual_stages)
  {
    candidate_.layout.modules.clear();
    for (chosen_layout const& each : chosen_) { candidate_.layout.modules.push_back(each.layout); }
    candidate_.layout.microbatches = count;
    candidate_.layout.virtual_stages = virtual_stages;
    candidate_.layout.step = prices_.step(chosen_, count);
  }

  /// Attempts the chosen layout, which fits, with all numbers of virtual stages with which it fits:
  /// they only take more memory. Returns whether the budget lasts.
  [[nodiscard]] bool attempt_all(std::uint32_t count)
  {
    if (!attempt(count, 1)) { return false; }
    for (std::uint32_t const each : virtual_stages_) {
      if (!has_virtual_stages(profiles_.back(), chosen_.back().layout, each)) { continue; }
      if (prices_.bytes(chosen_, count, each) > memory_bytes_) { continue; }
      if (!attempt(count, each)) { return false; }
    }
    return true;
  }

  /// Simulates the chosen layout with so many microbatches where no bound keeps it from being the
  /// best. Returns whether the budget lasts.
  [[nodiscard]] bool attempt(std::uint32_t count, std::uint32_t virtual_stages)
  {
    if (budget_.spent()) { return false; }
    std::uint64_t const work = times_.work();
    bool const is_sound = bounds_.take(chosen_, count, virtual_stages);
    ++bounded_;
    budget_.spend(times_.work() - work + times_.batches() * modules_);
    if (!is_sound) { return true; }
    std::uint64_t const bytes = prices_.bytes_of(
        chosen_, count, virtual_stages, [this](std::size_t at) { return bounds_.largest(at); });
    if (bytes > memory_bytes_) {
      has_overrun_ = true;
      return true;
    }
    std::size_t const batches = times_.batches();
    steps_.resize(batches);
    longest_.resize(batches);
    for (std::size_t batch = 0; batch < batches; ++batch) {
      auto const [time, module] = bounds_.fullest_replicas(batch);
      steps_[batch] = time;
      longest_[batch] = module;
    }
    if (is_beaten(steps_, count, virtual_stages)) { return true; }
    for (std::size_t turn = 0; turn < modules_; ++turn) {
      for (std::size_t batch = 0; batch < batches; ++batch) {
        raise(batch, bounds_.chain(batch, (longest_[batch] + turn) % modules_));
        budget_.spend(bounds_.tasks(false));
        if (is_beaten(steps_, count, virtual_stages)) { return true; }
      }
    }
    for (std::size_t batch = 0; batch < batches; ++batch) {
      for (std::uint32_t group = 0; group < bounds_.groups(); ++group) {
        raise(batch, bounds_.simulated(batch, group));
        budget_.spend(bounds_.tasks(true));
        if (is_beaten(steps_, count, virtual_stages)) { return true; }
      }
    }
    describe(count, virtual_stages);
    keep(bytes);
    return true;
  }

  void keep(std::uint64_t bytes)
  {
    ++simulated_;
    if (candidate_.layout.step == no_cost) { return; }
    auto const same = std::find_if(best_.begin(), best_.end(), [this](auto const& each) {
      return each.layout.modules == candidate_.layout.modules;
    });
    if (same != best_.end()) {
      if (!simulates_before(candidate_, *same)) { return; }
      best_.erase(same);
    }
    candidate_.layout.memory_bytes = std::max(
        bytes,
        prices_.bytes(chosen_, candidate_.layout.microbatches, candidate_.layout.virtual_stages));
    insert_ordered(best_, candidate_, simulates_before);
    if (best_.size() > wanted_) { best_.pop_back(); }
  }

  void raise(std::size_t batch, time_units time) { steps_[batch] = std::max(steps_[batch], time); }

  std::span<module_profile const> profiles_;
  std::uint64_t memory_bytes_;
  dealt_times times_;
  step_bounds bounds_;
  layout_enumeration all_;
  layout_prices& prices_;
  std::size_t modules_;
  std::size_t wanted_;
  std::span<std::uint32_t const> virtual_stages_;  // beside 1
  work_budget budget_;
  layout_list layouts_;
  std::size_t tried_ = 0;  // of layouts_, with their cheapest numbers of microbatches
  std::vector<chosen_layout> chosen_;
  std::vector<time_units> steps_;     // of each batch, at least
  std::vector<std::size_t> longest_;  // of each batch, the module of the fullest replica
  simulated_layout candidate_;
  std::vector<simulated_layout> best_;
  time_units least_step_ = 0;
  bool is_proven_ = false;
  bool has_overrun_ = false;
  std::uint64_t bounded_ = 0;
  std::uint64_t simulated_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LAYOUT_SEARCH_HPP
