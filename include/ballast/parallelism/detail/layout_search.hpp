// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LAYOUT_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_LAYOUT_SEARCH_HPP

#include <ballast/core/detail/insert_ordered.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/detail/fits_nodes.hpp>
#include <ballast/parallelism/detail/gpu_time_bounds.hpp>
#include <ballast/parallelism/detail/joined_unit.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/stage_choices.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Finds the best layouts of a problem by branch and bound.
///
/// Numbers of microbatches are tried from the lowest bound on. For each, modules are placed from
/// the last to the first, since what a stage holds depends on the stages after it; the first module
/// takes the GPUs that are left. A module gets no fewer GPUs than its least GPU time needs within
/// the limit, and no more than leave the others theirs. The limit is the time of the worst layout
/// that is kept; while there are fewer than asked for it begins a little above the lowest bound and
/// doubles its distance from it.
///
/// Ensures     (1) the best layouts of all, each with its best number of microbatches, ordered by
///                 step, then modules, then microbatches: what trying all would find
class layout_search {
 public:
  /// Expects     prices are those of the problem, and outlive the search.
  layout_search(layout_problem const& problem, std::size_t wanted, layout_prices& prices)
      : problem_(problem),
        wanted_(wanted),
        prices_(prices),
        choices_(problem, prices.memory),
        bounds_(problem, choices_, prices.times),
        chosen_(problem.modules.size())
  {}

  /// Expects     some layout fits.
  void run()
  {
    std::vector<std::uint32_t> all(problem_.global_batch);
    std::iota(all.begin(), all.end(), 1U);
    // A few numbers of microbatches find a layout that is nearly best, and with it a low limit.
    search_with_rising_limit(bounds_.few_counts(problem_.global_batch));
    search_with_rising_limit(all);
  }

  [[nodiscard]] std::vector<model_layout>& best() noexcept { return best_; }

  /// How many layouts were priced.
  [[nodiscard]] std::uint64_t evaluated() const noexcept { return evaluated_; }

 private:
  [[nodiscard]] time_units limit() const noexcept
  {
    return best_.size() < wanted_ ? first_limit_ : std::min(first_limit_, best_.back().step);
  }

  void search_with_rising_limit(std::vector<std::uint32_t> const& counts)
  {
    struct start {
      time_units bound;
      std::uint32_t microbatches;
    };
    std::vector<start> starts;
    starts.reserve(counts.size());
    for (std::uint32_t const count : counts) {
      starts.push_back({bounds_.least_step(count), count});
    }
    std::sort(starts.begin(), starts.end(), [](start const& a, start const& b) {
      return precedes(a.bound, b.bound, a.microbatches, b.microbatches);
    });
    bool is_last = best_.size() == wanted_;
    time_units const least = starts.front().bound;
    for (time_units beyond = least / 8 + 1;; beyond = 2 * beyond) {
      // Far above the bound there are not as many layouts as wanted: then take all.
      is_last = is_last || beyond / 1024 >= least || beyond >= (no_cost - 1 - least) / 2;
      first_limit_ = is_last ? no_cost - 1 : least + beyond;
      for (auto const& [bound, microbatches] : starts) {
        if (bound > limit()) { break; }
        microbatches_ = microbatches;
        index_ = bounds_.index_of(microbatches_);
        place(problem_.modules.size(), problem_.gpus, 0);
      }
      if (best_.size() == wanted_ || is_last) { return; }
    }
  }

  /// Places the modules before `end` on the GPUs that are left, when those from `end` on have so
  /// many stages together.
  void place(std::size_t end, std::uint64_t left, std::uint64_t stages_after)
  {
    if (end == 0) {
      if (left == 0) { keep(); }
      return;
    }
    std::size_t const module = end - 1;
    bool const is_first = module == 0;
    bool const is_last = end == problem_.modules.size();
    std::uint32_t const layers = problem_.modules[module].layers;
    for (stage_choice const& choice : choices_.of(module)) {
      auto const place_with = [&](std::uint32_t pp, std::uint64_t least_dp, std::uint64_t most_dp,
                                  time_units longest) {
        if (is_last) {
          most_dp = std::min<std::uint64_t>(most_dp, problem_.global_batch / microbatches_);
        }
        if (least_dp > most_dp) { return; }
        joined_unit const unit{.stages = pp, .microbatches = microbatches_};
        std::uint64_t const held = unit.kept(stages_after);
        tokens const largest = choices_.largest_size(module, choice, pp, held);
        for (std::uint64_t dp = least_dp; dp <= most_dp; ++dp) {
          std::uint64_t const parts = microbatches_ * dp;
          if (prices_.memory.microbatch_size(module, parts) > largest) { continue; }
          if (prices_.times.of(module, choice.degree, parts).mean / pp > longest) { continue; }
          chosen_[module] = {choice.degree, {choice.tp, pp, static_cast<std::uint32_t>(dp)}};
          place(module, left - chosen_[module].layout.gpus(), unit.depth(stages_after));
        }
      };
      if (is_first) {
        if (left % choice.tp != 0) { continue; }
        std::uint64_t const chains = left / choice.tp;
        for (std::uint32_t const pp : choices_.divisors(chains)) {
          if (pp < choice.fewest_stages || pp > layers) { continue; }
          place_with(pp, chains / pp, chains / pp, longest_stage(stages_after + pp));
        }
        continue;
      }
      for (std::uint32_t pp = choice.fewest_stages; pp <= layers; ++pp) {
        std::uint64_t const parts = choice.least_parts[pp];
        std::uint64_t const stages = stages_after + pp + choices_.fewest_stages_before(module);
        if (parts == stage_choice::never ||
            !bounds_.may_have(module, choice, pp, microbatches_, index_, stages, left, limit())) {
          continue;
        }
        time_units const longest = longest_stage(stages);
        std::uint64_t const others =
            bounds_.least_gpus_before(module, microbatches_, index_, longest);
        if (others >= left) { break; }
        std::uint64_t const group = std::uint64_t{choice.tp} * pp;
        std::uint64_t const least =
            std::max(bounds_.least_gpus(module, choice, pp, microbatches_, index_, longest),
                     group * static_cast<std::uint64_t>(divided_up(parts, microbatches_)));
        place_with(pp, (least + group - 1) / group, (left - others) / group, longest);
      }
    }
  }

  /// The longest that a stage may take on average for the step to keep to the limit.
  [[nodiscard]] time_units longest_stage(std::uint64_t stages) const noexcept
  {
    return limit() / static_cast<time_units>(microbatches_ + stages - 1);
  }

  /// Takes the layout that is chosen if it is among the best.
  void keep()
  {
    ++evaluated_;
    model_layout layout{{}, microbatches_, prices_.step(chosen_, microbatches_), 0};
    if (layout.step > limit()) { return; }
    for (chosen_layout const& each : chosen_) { layout.modules.push_back(each.layout); }
    if (!fits_nodes(span_of(layout.modules), problem_.gpus, problem_.gpus_per_node)) { return; }
    auto const same = std::find_if(best_.begin(), best_.end(), [&](model_layout const& each) {
      return each.modules == layout.modules;
    });
    if (same != best_.end()) {
      if (!precedes(layout.step, same->step, layout.microbatches, same->microbatches)) { return; }
      best_.erase(same);
    }
    layout.memory_bytes = prices_.bytes(chosen_, microbatches_);
    auto const before = [](model_layout const& a, model_layout const& b) {
      return precedes(a.step, b.step, a.modules, b.modules, a.microbatches, b.microbatches);
    };
    insert_ordered(best_, std::move(layout), before);
    if (best_.size() > wanted_) { best_.pop_back(); }
  }

  layout_problem problem_;
  std::size_t wanted_;
  layout_prices& prices_;
  stage_choices choices_;
  gpu_time_bounds bounds_;
  std::vector<chosen_layout> chosen_;
  std::vector<model_layout> best_;
  std::uint64_t evaluated_ = 0;
  std::uint32_t microbatches_ = 1;
  std::size_t index_ = 0;  // of the bounds for so many microbatches
  time_units first_limit_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LAYOUT_SEARCH_HPP
