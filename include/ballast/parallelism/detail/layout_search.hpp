// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/radix_sort.hpp>
#include <ballast/parallelism/detail/layout_enumeration.hpp>
#include <ballast/parallelism/detail/least_overrun.hpp>
#include <ballast/parallelism/detail/step_bounds.hpp>
#include <ballast/parallelism/search_layouts.hpp>

#include <functional>

namespace ballast::inline v0::detail {

[[nodiscard]] inline bool has_same_modules(model_layout const& a, model_layout const& b)
{
  return a.modules == b.modules && a.kinds == b.kinds && a.bags == b.bags;
}

/// Whether the groups of all replicas lie inside nodes, and take the GPUs that there are.
[[nodiscard]] inline bool fits_replicas(assigned_job const& job, model_layout const& layout)
{
  for (std::size_t kind = 0; kind < job.kinds.size(); ++kind) {
    std::vector<module_layout> replicas;
    std::uint64_t gpus = 0;
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      std::uint32_t const count = job.assigned[module] == kind ? layout.modules[module].dp : 0;
      for (std::uint32_t each = 0; each < count; ++each) {
        replicas.push_back(layout.replica(module, each));
        gpus += replicas.back().gpus();
      }
    }
    auto const& of_kind = job.kinds[kind];
    bool const is_enough = gpus == of_kind.gpus || (job.may_leave_gpus && gpus < of_kind.gpus);
    if (!is_enough || !fits_nodes(span_of(replicas), of_kind.gpus, of_kind.gpus_per_node)) {
      return false;
    }
  }
  return true;
}

/// The replicas of a module after one of them has changed: by their tp, largest first.
[[nodiscard]] inline std::vector<std::vector<std::uint32_t>> other_replicas(
    assigned_job const& job, model_layout const& layout, std::size_t module)
{
  std::vector<std::vector<std::uint32_t>> all;
  module_layout const& own = layout.modules[module];
  if (own.is_sharded || own.sp * own.ep != 1) { return all; }
  auto const tps =
      layout.has_bags(module) ? layout.bags[module] : std::vector<std::uint32_t>(own.dp, own.tp);
  // In place of some from `at` on, so many of this tp.
  auto const replace = [&](std::size_t at, std::size_t count, std::size_t by, std::uint32_t tp) {
    bool const is_measured = job.modules[module].find(parallel_degree{.tp = tp}) != nullptr;
    if (!is_measured || job.kind(module).gpus_per_node % tp != 0) { return; }
    auto others = tps;
    auto const first = others.begin() + static_cast<std::ptrdiff_t>(at);
    others.insert(others.erase(first, first + static_cast<std::ptrdiff_t>(count)), by, tp);
    std::sort(others.begin(), others.end(), std::greater<>());
    if (!others.empty()) { all.push_back(std::move(others)); }
  };
  for (std::size_t at = 0; at < tps.size(); ++at) {
    std::uint32_t const tp = tps[at];
    if (at > 0 && tps[at - 1] == tp) { continue; }  // alike
    if (at + 1 < tps.size() && tps[at + 1] == tp) { replace(at, 2, 1, 2 * tp); }
    if (tp % 2 == 0) {
      replace(at, 1, 2, tp / 2);
      replace(at, 1, 1, tp / 2);
    }
    replace(at, 1, 1, 2 * tp);
    replace(at, 1, 0, tp);
  }
  for (profiled_degree const& each : job.modules[module].degrees) {
    if (each.sp * each.ep == 1) { replace(0, 0, 1, each.tp); }
  }
  return all;
}

/// The layouts that fit in which replicas of one module have changed, or of two, of which one gives
/// the other GPUs, and those of unequal replicas with a microbatch more or fewer. Prices are those of
/// replicas that all have the least tp.
[[nodiscard]] inline std::vector<model_layout> other_bags(layout_problem const& problem,
                                                          model_layout const& layout)
{
  layout_problem priced_by = problem;
  priced_by.may_leave_gpus = true;  // the priced ones are fewer
  assigned_job const job(problem, layout);
  std::vector<model_layout> all;
  auto const add = [&](model_layout other) {
    if (!fits_replicas(job, other)) { return; }
    auto const priced = price_layout(priced_by, span_of(other.modules), other.microbatches,
                                     other.virtual_stages, span_of(other.kinds));
    if (!priced) { return; }
    other.step = priced->step;
    other.memory_bytes = priced->memory_bytes;
    all.push_back(std::move(other));
  };
  for (std::uint32_t const count : {layout.microbatches - 1, layout.microbatches + 1}) {
    model_layout other = layout;
    other.microbatches = count;
    if (!layout.bags.empty()) { add(std::move(other)); }
  }
  auto const with = [](model_layout other, std::size_t module, std::vector<std::uint32_t> tps) {
    other.modules[module].tp = tps.back();
    other.modules[module].dp = static_cast<std::uint32_t>(tps.size());
    other.bags.resize(other.modules.size());
    other.bags[module].clear();
    if (tps.front() != tps.back()) { other.bags[module] = std::move(tps); }
    auto const is_uniform = [](auto const& each) { return each.empty(); };
    if (std::all_of(other.bags.begin(), other.bags.end(), is_uniform)) { other.bags.clear(); }
    return other;
  };
  std::uint64_t const gpus = layout.gpus();
  std::vector<std::pair<std::size_t, model_layout>> changed;  // and the module
  for (std::size_t module = 0; module < layout.modules.size(); ++module) {
    for (auto& tps : other_replicas(job, layout, module)) {
      model_layout other = with(layout, module, std::move(tps));
      add(other);
      if (other.gpus() != gpus) { changed.emplace_back(module, std::move(other)); }
    }
  }
  for (auto const& [one, first] : changed) {
    for (auto const& [other, second] : changed) {
      if (one >= other || first.gpus() + second.gpus() != 2 * gpus) { continue; }
      module_layout const& own = second.modules[other];
      add(with(first, other,
               second.has_bags(other) ? second.bags[other]
                                      : std::vector<std::uint32_t>(own.dp, own.tp)));
    }
  }
  return all;
}

/// Keeps the shortest of simulated layouts, each layout with its best numbers. Returns whether it is
/// among them.
inline bool keep_shortest(std::vector<simulated_layout>& best, simulated_layout const& candidate,
                          std::ptrdiff_t most_numbers, std::size_t most)
{
  auto const is_same = [&candidate](simulated_layout const& each) {
    return has_same_modules(each.layout, candidate.layout);
  };
  if (std::count_if(best.begin(), best.end(), is_same) >= most_numbers) {
    auto const worst = std::find_if(best.rbegin(), best.rend(), is_same);
    if (!simulates_before(candidate, *worst)) { return false; }
    best.erase(std::prev(worst.base()));
  }
  insert_ordered(best, candidate, simulates_before);
  if (best.size() <= most) { return true; }
  bool const is_kept = best.back() != candidate;
  best.pop_back();
  return is_kept;
}

/// Pairs of a layout and its numbers that are likely to be short with split backwards.
class schedule_candidates {
 public:
  struct candidate {
    simulated_layout pair;  // its step: that with the best schedule so far
    time_units likely = 0;
    time_units least = 0;  // no schedule takes less
  };

  explicit schedule_candidates(std::size_t most) : most_(most) {}

  /// Calls describe() for the pair where it is among the most likely ones.
  template <class Describe>
  void offer(time_units likely, time_units least, Describe const& describe)
  {
    if (all_.size() == most_ && (most_ == 0 || likely >= all_.back().likely)) {
      least_left_out = std::min(least_left_out, least);
      return;
    }
    if (all_.size() == most_) {
      least_left_out = std::min(least_left_out, all_.back().least);
      all_.pop_back();
    }
    insert_ordered(all_, candidate{{describe(), no_cost}, likely, least},
                   [](candidate const& a, candidate const& b) { return a.likely < b.likely; });
  }

  /// Simulates them with the schedules, but for those that cannot be shorter than what is kept.
  void rank(layout_problem const& problem, std::span<tokens const> batches,
            layout_search_options const& options, std::uint64_t searched, layout_ranking& ranking)
  {
    std::uint64_t const allowed = std::max(searched / 5 * 2, std::uint64_t{1} << 26);
    std::uint64_t const enough = allowed / 2;  // for what is planned
    work_budget budget(allowed);
    for (bool const is_planned : {false, true}) {
      for (candidate& each : all_) {
        time_units const limit =
            ranking.layouts.size() < options.best ? no_cost - 1 : ranking.layouts.back().simulated;
        if (each.least > limit || each.pair.layout.step == no_cost) { continue; }
        for (layout_schedule const schedule : options.schedules) {
          bool const plans = schedule == layout_schedule::planned;
          if (plans != is_planned || schedule == layout_schedule::whole_backwards) { continue; }
          if (budget.spent() || (!is_planned && budget.left() < enough)) {
            least_left_out = std::min(least_left_out, each.least);
            continue;
          }
          simulated_layout tried = each.pair;
          tried.layout.schedule = schedule;
          auto const found = split_simulation(problem, tried.layout)(batches, options.dealing);
          budget.spend(of_task * (found ? found->tasks : 1) + batches.size() * of_size);
          if (!found) { continue; }
          ++ranking.simulated;
          tried.simulated = found->step;
          tried.layout.memory_bytes = std::max(tried.layout.memory_bytes, found->bytes);
          each.pair.simulated = std::min(each.pair.simulated, tried.simulated);
          bool const is_kept = keep_shortest(ranking.layouts, tried, 1, options.best);
          if (is_kept && options.progress && ranking.layouts.front() == tried) {
            options.progress(ranking);
          }
        }
      }
      std::sort(all_.begin(), all_.end(), [](candidate const& a, candidate const& b) {
        return simulates_before(a.pair, b.pair);
      });
    }
    time_units const best = ranking.layouts.front().simulated;
    ranking.lower_bound = std::min({ranking.lower_bound, best, least_left_out});
    ranking.is_proven = ranking.is_proven && least_left_out > ranking.layouts.back().simulated;
  }

 private:
  static constexpr std::uint64_t of_task = 75;  // as much work as so many tasks of the search
  static constexpr std::uint64_t of_size = 50;  // the same of a sample that is dealt

  std::size_t most_;
  std::vector<candidate> all_;  // the most likely one first
  time_units least_left_out = no_cost;
};

/// Finds the layouts with the shortest simulated steps, each with its best number of microbatches
/// and of virtual stages.
///
/// Those of the shortest likely steps come first, with a quarter of the work, so that there is a step
/// to beat. Then come all in the order of the bound of layout_enumeration, first each with its likely
/// number of microbatches, then with all others. Each pair passes the bounds of step_bounds, each only
/// where the one before is below the worst step that is kept, and is then simulated; so does each
/// with virtual stages, for which the same bounds hold: all the work of a stage is on its GPU,
/// between the first forward and the last backward of the step.
///
/// It searches one assignment of kinds of GPUs to modules, and goes on from the best of others.
///
/// A pair fits where the microbatches that the problem draws do, and those into which the batches
/// are dealt.
///
/// Ensures     (1) where is_proven stays true, what simulating all pairs that fit would find
///             (2) else no step is below lower_bound
class layout_search {
 public:
  /// Expects     all outlive it.
  layout_search(assigned_job const& problem, std::span<tokens const> batches, layout_prices& prices,
                layout_search_options const& options, work_budget& budget, layout_ranking& ranking,
                schedule_candidates& split)
      : problem_(problem),
        profiles_(problem_.modules),
        times_(problem, batches, options.dealing),
        bounds_(problem, times_),
        all_(problem, times_, prices.memory, options.limits),
        prices_(prices),
        modules_(problem.modules.size()),
        options_(options),
        budget_(budget),
        layouts_(problem, prices, all_.least_step()),
        ranking_(ranking),
        split_(split),
        best_(ranking.layouts),
        least_of_others_(ranking.lower_bound)
  {}

  void run()
  {
    set_least_step(all_.least_step());
    if (all_.least_step() > limit()) { return; }  // the best of other kinds is no longer
    bool const was_proven = std::exchange(ranking_.is_proven, false);
    bool const is_whole = list_layouts();
    ranking_.listed += layouts_.size();
    set_least_step(layouts_.first_bound(all_.least_step()));
    if (!is_whole) { return; }
    for (std::size_t at = 0; at < layouts_.size() && layouts_[at].bound <= limit(); ++at) {
      set_least_step(layouts_[at].bound);
      layouts_.read(at, chosen_);
      layout_list::entry const layout = layouts_[at];
      for (std::uint32_t count = layout.least; count <= layout.most; ++count) {
        if (count != layout.likely && layouts_.fits(layout, chosen_, count) &&
            !attempt_all(count)) {
          return;
        }
      }
    }
    ranking_.is_proven = was_proven;
    set_least_step(best_step());
  }

  /// The bound of layout_enumeration.
  [[nodiscard]] time_units bound_of(model_layout const& layout) const
  {
    return all_.bound_of(chosen_of(problem_, layout));
  }

  /// No step of any layout is shorter, however samples are dealt.
  [[nodiscard]] time_units any_dealing() const
  {
    time_units const least = all_.least_step();
    return options_.has_unequal_replicas ? least : layouts_.first_bound(least);
  }

  /// Whether batches, as they are dealt, did not fit with some layout that was tried.
  [[nodiscard]] bool has_overrun() const noexcept { return has_overrun_; }

 private:
  static constexpr std::uint64_t bounding = 1024;    // as much work as so many tasks
  static constexpr std::ptrdiff_t most_numbers = 4;  // of a layout that options.step is asked about
  static constexpr std::uint64_t between_tellings = std::uint64_t{1} << 28;

  /// No step of this assignment of kinds is shorter.
  void set_least_step(time_units step)
  {
    ranking_.lower_bound = std::min({least_of_others_, step, best_step()});
  }

  /// Tells what is known, where a step is shorter or some work was done since.
  void tell(bool is_shorter)
  {
    if (!options_.progress || (!is_shorter && told_ - budget_.left() < between_tellings)) {
      return;
    }
    told_ = budget_.left();
    options_.progress(ranking_);
  }

  [[nodiscard]] time_units limit() const noexcept
  {
    return best_.size() < options_.best ? no_cost - 1 : best_.back().simulated;
  }

  [[nodiscard]] time_units best_step() const noexcept
  {
    return best_.empty() ? no_cost : best_.front().simulated;
  }

  /// Lists all layouts with a bound up to the best step, in the order of their bounds, and tries
  /// each with its likely number of microbatches. Returns whether these are all.
  [[nodiscard]] bool list_layouts()
  {
    std::uint64_t const given = budget_.left() / 8;
    work_budget listing(given);
    work_budget estimating(given);
    bool is_listed = true;
    while (is_listed && layouts_.listed_upto() < layouts_.shortest_likely()) {
      is_listed = layouts_.extend(all_, layouts_.shortest_likely(), listing);
      layouts_.estimate(layouts_.size(), estimating);
    }
    budget_.spend(2 * given - listing.left() - estimating.left());
    if (!attempt_likely() || !attempt_listed()) { return false; }
    if (layouts_.is_cut_short()) { tried_ = 0; }
    while (layouts_.listed_upto() < limit()) {
      if (!layouts_.extend(all_, limit(), budget_) || !attempt_listed()) { return false; }
    }
    return true;
  }

  /// Tries those of the shortest likely steps with a quarter of the work. Returns whether the budget
  /// lasts.
  [[nodiscard]] bool attempt_likely()
  {
    std::vector<std::size_t> order;
    for (std::size_t at = 0; at < layouts_.estimated(); ++at) {
      if (layouts_[at].likely != 0) { order.push_back(at); }
    }
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return precedes(layouts_[a].likely_step, layouts_[b].likely_step, a, b);
    });
    std::uint64_t const enough = budget_.left() / 4 * 3;
    for (std::size_t const at : order) {
      if (layouts_[at].bound > limit()) { continue; }
      if (budget_.left() < enough) { break; }
      if (!attempt_at(at)) { return false; }
    }
    return true;
  }

  /// Tries what is listed and was not tried. Returns whether the budget lasts.
  [[nodiscard]] bool attempt_listed()
  {
    for (; tried_ < layouts_.size() && layouts_[tried_].bound <= limit(); ++tried_) {
      layouts_.estimate(tried_ + 1, budget_);
      if (layouts_.estimated() <= tried_ || !attempt_at(tried_)) { return false; }
    }
    tried_ = layouts_.size();
    return true;
  }

  [[nodiscard]] bool attempt_at(std::size_t at)
  {
    layout_list::entry& layout = layouts_[at];
    if (layout.is_tried || layout.likely == 0) { return true; }
    layout.is_tried = true;
    layouts_.read(at, chosen_);
    return attempt_all(layout.likely);
  }

  /// Whether a pair whose steps take so long, or longer, is not among the best.
  [[nodiscard]] bool is_beaten(std::vector<time_units> const& steps, std::uint32_t count,
                               std::uint32_t virtual_stages)
  {
    uint128 total = 0;
    for (time_units const each : steps) { total += static_cast<uint128>(each); }
    candidate_.simulated = static_cast<time_units>(divided_up(total, steps.size()));
    if (candidate_.simulated != limit() || best_.size() < options_.best) {
      return candidate_.simulated > limit();
    }
    describe(count, virtual_stages);
    return !simulates_before(candidate_, best_.back());
  }

  void describe(std::uint32_t count, std::uint32_t virtual_stages)
  {
    candidate_.layout.modules.clear();
    for (chosen_layout const& each : chosen_) { candidate_.layout.modules.push_back(each.layout); }
    candidate_.layout.microbatches = count;
    candidate_.layout.virtual_stages = virtual_stages;
    candidate_.layout.kinds.clear();
    if (problem_.kinds.size() > 1) { candidate_.layout.kinds = problem_.assigned; }
    candidate_.layout.step = prices_.step(chosen_, count);
  }

  /// Attempts the chosen layout, which fits, with all numbers of virtual stages with which it fits:
  /// they only take more memory. Returns whether the budget lasts.
  [[nodiscard]] bool attempt_all(std::uint32_t count)
  {
    std::uint32_t const own =
        problem_.virtual_stages(modules_ - 1, chosen_.back().layout.pp);  // as its role says
    if (!attempt(count, own)) { return false; }
    for (std::uint32_t const each : options_.virtual_stages) {
      if (each == own) { continue; }
      if (!has_virtual_stages(profiles_.back(), chosen_.back().layout, each)) { continue; }
      (void)prices_.bytes(chosen_, count, each);
      if (!prices_.suffices()) { continue; }
      if (!attempt(count, each)) { return false; }
    }
    return true;
  }

  /// Simulates the chosen layout with so many microbatches where no bound keeps it from being the
  /// best. Returns whether the budget lasts.
  [[nodiscard]] bool attempt(std::uint32_t count, std::uint32_t virtual_stages)
  {
    if (budget_.spent()) { return false; }
    tell(false);
    std::uint64_t const work = times_.work();
    bool const is_sound = bounds_.take(chosen_, count, virtual_stages);
    ++ranking_.bounded;
    budget_.spend(times_.work() - work + (times_.batches() + bounding) * modules_);
    if (!is_sound) { return true; }
    std::uint64_t const bytes = prices_.bytes_of(
        chosen_, count, virtual_stages, [this](std::size_t at) { return bounds_.largest(at); });
    if (!prices_.suffices()) {
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
    if (!options_.schedules.empty()) { offer_split(count, virtual_stages); }
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
    ++ranking_.simulated;
    if (candidate_.layout.step == no_cost) { return; }
    candidate_.layout.memory_bytes = std::max(
        bytes,
        prices_.bytes(chosen_, candidate_.layout.microbatches, candidate_.layout.virtual_stages));
    if (!keep_shortest(best_, candidate_, options_.step ? most_numbers : 1, options_.best)) {
      return;
    }
    set_least_step(ranking_.lower_bound);
    if (best_.front() == candidate_) { tell(true); }
  }

  /// The chosen layout with so many microbatches, whatever its step with whole backwards.
  void offer_split(std::uint32_t count, std::uint32_t virtual_stages)
  {
    uint128 least = 0;
    uint128 likely = 0;
    for (std::size_t batch = 0; batch < times_.batches(); ++batch) {
      auto const price = bounds_.price_of_split(batch);
      least += static_cast<uint128>(price.least);
      likely += static_cast<uint128>(price.likely);
    }
    std::size_t const batches = times_.batches();
    split_.offer(static_cast<time_units>(divided_up(likely, batches)),
                 static_cast<time_units>(divided_up(least, batches)), [&] {
                   describe(count, virtual_stages);
                   candidate_.layout.memory_bytes = prices_.bytes(chosen_, count, virtual_stages);
                   return candidate_.layout;
                 });
  }

  void raise(std::size_t batch, time_units time) { steps_[batch] = std::max(steps_[batch], time); }

  assigned_job const& problem_;
  std::span<module_profile const> profiles_;
  dealt_times times_;
  step_bounds bounds_;
  layout_enumeration all_;
  layout_prices& prices_;
  std::size_t modules_;
  layout_search_options const& options_;
  work_budget& budget_;
  std::uint64_t told_ = budget_.left();
  layout_list layouts_;
  std::size_t tried_ = 0;  // of layouts_, with their likely numbers of microbatches
  std::vector<chosen_layout> chosen_;
  std::vector<time_units> steps_;     // of each batch, at least
  std::vector<std::size_t> longest_;  // of each batch, the module of the fullest replica
  simulated_layout candidate_;
  layout_ranking& ranking_;
  schedule_candidates& split_;
  std::vector<simulated_layout>& best_;  // those of ranking_
  time_units least_of_others_;           // the lower bound of other assignments
  bool has_overrun_ = false;
};

[[nodiscard]] inline result<void> check_search(layout_problem const& problem,
                                               std::span<tokens const> batches,
                                               layout_search_options const& options)
{
  if (auto checked = check_layout_problem(problem); !checked) { return checked; }
  if (auto checked = check_batches(problem, batches); !checked) { return checked; }
  for (gpu_kind const& kind : problem.kinds) {
    if (kind.gpus > layout_search_options::most_gpus) {
      return fail(error_code::out_of_range, 0, "layouts on ", counted(kind.gpus, "GPU"),
                  " are too many; ", "search those of at most ", layout_search_options::most_gpus);
    }
  }
  if (options.step && !options.schedules.empty()) {
    return fail(error_code::out_of_range, 0, "schedules are tried on samples as they are dealt, ",
                "and steps are asked for; leave out one of both");
  }
  if (options.best == 0) {
    return fail(error_code::out_of_range, 0, "the best 0 layouts are none; ask for 1 at least");
  }
  for (std::size_t at = 0; at < options.virtual_stages.size(); ++at) {
    std::uint32_t const least = at == 0 ? 2 : options.virtual_stages[at - 1] + 1;
    if (options.virtual_stages[at] < least) {
      return fail(error_code::out_of_range, at, "a stage may have ", options.virtual_stages[at],
                  " virtual ones; give numbers from 2 on, in increasing order, once each");
    }
  }
  return {};
}

/// All ways to give modules kinds of GPUs, but for those that leave a kind unused where all GPUs
/// have to be used, and a step that none with them is shorter than; the least first.
[[nodiscard]] inline auto assignments_of(layout_problem const& problem,
                                         std::span<tokens const> batches,
                                         layout_limits const& limits, price_list& list)
{
  std::vector<std::pair<time_units, std::vector<std::size_t>>> all;
  for (auto& kinds : kind_assignments(problem)) {
    std::vector<bool> used(problem.kinds.size(), problem.may_leave_gpus);
    for (std::size_t const kind : kinds) { used[kind] = true; }
    if (std::find(used.begin(), used.end(), false) != used.end()) { continue; }
    all.emplace_back(0, std::move(kinds));
  }
  if (all.size() < 2) { return all; }
  for (auto& [bound, kinds] : all) {
    assigned_job const job(problem, span_of(kinds));
    dealt_times times(job, batches);
    bound = layout_enumeration(job, times, list.memory, limits).least_step();
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// Ranks pairs of a layout and its numbers by what options.step says of the batches: the better half
/// of them is left after each batch. Layouts of unequal replicas are looked for on the first batch,
/// from the shortest pairs on. Returns the `best` layouts, each with its best numbers.
[[nodiscard]] inline result<std::vector<simulated_layout>> rank_by_step(
    layout_problem const& problem, std::vector<simulated_layout> pairs,
    std::span<tokens const> batches, layout_search_options const& options)
{
  std::size_t const of_batch = std::size_t{problem.global_batch} * problem.modules.size();
  struct candidate {
    simulated_layout pair;
    uint128 all;  // of the batches so far
  };
  std::vector<candidate> left;
  left.reserve(pairs.size());
  for (simulated_layout& each : pairs) { left.push_back({std::move(each), 0}); }
  std::optional<error> refused;
  std::size_t const count = batches.size() / of_batch;
  auto const asks = [&](candidate& each, std::size_t batch) {
    auto const step = options.step(each.pair.layout, batches.subspan(batch * of_batch, of_batch));
    if (!step) {
      refused = refused ? refused : step.error();
      return false;
    }
    each.all += static_cast<uint128>(*step);
    each.pair.simulated = static_cast<time_units>(divided_up(each.all, batch + 1));
    return true;
  };
  auto const is_shorter = [](candidate const& a, candidate const& b) {
    return simulates_before(a.pair, b.pair);
  };
  std::vector<model_layout> asked;
  asked.reserve(left.size());
  for (candidate const& each : left) { asked.push_back(each.pair.layout); }
  auto const is_new = [&asked](model_layout const& layout) {
    return std::none_of(asked.begin(), asked.end(), [&layout](model_layout const& each) {
      return has_same_modules(each, layout) && each.microbatches == layout.microbatches &&
             each.virtual_stages == layout.virtual_stages;
    });
  };
  for (std::size_t batch = 0; batch < count && !cancel_scope::is_cancelled(); ++batch) {
    std::size_t kept = 0;
    for (candidate& each : left) {
      if (!asks(each, batch)) { continue; }
      if (&left[kept] != &each) { left[kept] = std::move(each); }
      ++kept;
    }
    left.resize(kept);
    std::sort(left.begin(), left.end(), is_shorter);
    bool const has_limits = options.limits.has_one_group || options.limits.group != 0;
    bool const looks = batch == 0 && options.has_unequal_replicas && !has_limits;
    std::size_t more = looks ? options.most_steps : 0;
    std::vector<model_layout> looked_at;
    for (std::size_t at = 0; at < left.size() && more > 0 && !cancel_scope::is_cancelled();) {
      model_layout const from = left[at].pair.layout;
      if (std::find(looked_at.begin(), looked_at.end(), from) != looked_at.end()) {
        ++at;
        continue;
      }
      looked_at.push_back(from);
      for (model_layout& other : other_bags(problem, from)) {
        if (more == 0 || !is_new(other)) { continue; }
        asked.push_back(other);
        --more;
        candidate made{{std::move(other), 0}, 0};
        if (asks(made, batch)) { insert_ordered(left, made, is_shorter); }
      }
      at = 0;
    }
    std::size_t const half = std::max(options.best, (left.size() + 1) / 2);
    if (batch + 1 < count) { left.resize(std::min(left.size(), half)); }
  }
  if (left.empty() && refused) { return tl::unexpected(*refused); }
  std::vector<simulated_layout> best;
  for (candidate& each : left) {
    bool const is_listed = std::any_of(best.begin(), best.end(), [&](auto const& other) {
      return has_same_modules(other.layout, each.pair.layout);
    });
    if (!is_listed && best.size() < options.best) { best.push_back(std::move(each.pair)); }
  }
  return best;
}

BALLAST_ONCE result<layout_ranking> find_layouts(layout_problem const& problem,
                                                 std::span<tokens const> batches,
                                                 layout_search_options const& given)
{
  if (auto checked = check_search(problem, batches, given); !checked) {
    return tl::unexpected(checked.error());
  }
  layout_search_options options = given;
  if (given.step) { options.best = std::max(given.best, given.most_steps); }
  price_list list(problem);
  auto const assignments = assignments_of(problem, batches, options.limits, list);
  if (assignments.empty()) {
    return fail(error_code::infeasible, 0,
                "there are more kinds of GPUs than modules that may get "
                "them; let GPUs stay unused, or leave out a kind");
  }
  work_budget budget(options.most_work);
  layout_ranking ranking;
  ranking.is_proven = true;
  ranking.lower_bound = no_cost;
  closest_layout closest(assignments.size());
  time_units any_dealing = no_cost;  // of all layouts
  schedule_candidates split(options.most_scheduled);
  bool has_overrun = false;
  bool has_fitting = false;
  for (auto const& [bound, kinds] : assignments) {
    assigned_job const job(problem, span_of(kinds));
    layout_prices prices(job, list);
    overrun const lacking = closest.look_at(job, prices.memory);
    if (cancel_scope::is_cancelled()) { return cancelled(); }
    if (lacking.bytes != 0 && lacking.is_certain) { continue; }
    layout_search search(job, batches, prices, options, budget, ranking, split);
    search.run();
    any_dealing = std::min(any_dealing, search.any_dealing());
    if (cancel_scope::is_cancelled()) { return cancelled(); }
    has_overrun = has_overrun || search.has_overrun();
    has_fitting = has_fitting || lacking.bytes == 0 || !ranking.layouts.empty();
    if (ranking.layouts.empty()) { continue; }
    model_layout const& best = ranking.layouts.front().layout;
    if (best.kinds.empty() || best.kinds == kinds) { ranking.any_dealing = search.bound_of(best); }
  }
  if (!has_fitting) { return closest.sentence(); }
  if (ranking.layouts.empty() && budget.spent()) {
    return fail(error_code::infeasible, 0, "work of ", options.most_work,
                " ended before a layout was simulated; allow more");
  }
  if (ranking.layouts.empty() && has_overrun) {
    return fail(error_code::infeasible, 0, "no layout that was tried holds the microbatches into ",
                "which the batches are dealt; use more GPUs or larger ones");
  }
  if (ranking.layouts.empty() && ranking.listed == 0) {
    return fail(error_code::infeasible, 0,
                "layouts fit, and none within the limits that are given; ", "ask for less");
  }
  if (ranking.layouts.empty()) {
    bool const sends = std::any_of(problem.kinds.begin(), problem.kinds.end(),
                                   [](gpu_kind const& kind) { return kind.bytes_per_second > 0; });
    return fail(error_code::infeasible, 0, "every layout that fits takes 2^53 picoseconds or more ",
                "on some stage", sends ? " or between two" : "", "; check the ",
                sends ? "bandwidth, in bytes per second, and the " : "", "profile's units");
  }
  ranking.is_out_of_work = budget.spent() && !ranking.is_proven;
  if (given.step) {
    auto ranked = rank_by_step(problem, std::move(ranking.layouts), batches, given);
    if (cancel_scope::is_cancelled()) { return cancelled(); }
    if (!ranked) { return tl::unexpected(ranked.error()); }
    ranking.layouts = *std::move(ranked);
    time_units const step = ranking.layouts.front().simulated;
    ranking.lower_bound = std::min(any_dealing, step);
    ranking.is_proven = ranking.lower_bound == step;
  } else if (!given.schedules.empty()) {
    split.rank(problem, batches, given, given.most_work - budget.left(), ranking);
  } else {
    return ranking;
  }
  if (cancel_scope::is_cancelled()) { return cancelled(); }
  simulated_layout const& best = ranking.layouts.front();
  assigned_job const job(problem, best.layout);
  dealt_times times(job, batches);
  layout_enumeration const all(job, times, list.memory, given.limits);
  ranking.any_dealing =
      best.layout.bags.empty() ? all.bound_of(chosen_of(job, best.layout)) : all.least_step();
  return ranking;
}

}  // namespace ballast::inline v0::detail
