// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/least_overrun.hpp>
#include <ballast/parallelism/detail/step_bounds.hpp>
#include <ballast/parallelism/detail/unit_prices.hpp>

namespace ballast::inline v0::detail {

/// Finds the best orchestration of all options: the shortest step, then the fewest GPUs, then the
/// smallest numbers and kinds. It starts with the best of other kinds, if there is one.
///
/// The LLM's dp decides how samples meet, and what a module keeps depends on the stages behind it.
/// So the dp and the stages of all modules but the first are chosen before all else: the LLM's in
/// the order of what it takes alone, until that is longer than the best step so far, and then those
/// of the others, from the last module on. Then it is known which options have memory enough, and
/// each module has a front of those that no other one betters in GPUs, time of a microbatch and
/// time once a step. The pace of the pipeline is swept from the shortest that the GPUs allow: at a
/// given pace, only GPUs and the times once a step are left, and of these the fronts are short
/// staircases.
class orchestration_search {
 public:
  explicit orchestration_search(unit_options const& options,
                                std::optional<orchestration> found = {})
      : options_(options),
        modules_(options.problem().modules.size()),
        cases_(options.cases()),
        useful_(cases_.size()),
        fronts_(modules_),
        behind_(modules_),
        stairs_(modules_),
        least_once_(modules_ + 1),
        chosen_(modules_),
        best_(std::move(found))
  {
    if (best_) { keep(best_->layout.gpus()); }
  }

  void run()
  {
    std::vector<start> starts;
    for (std::size_t number = 0; number < cases_.size(); ++number) { add_starts(number, starts); }
    std::sort(starts.begin(), starts.end(), [](start const& a, start const& b) {
      return precedes(a.bound, b.bound, a.number, b.number, a.pp, b.pp);
    });
    for (auto const& [bound, number, pp] : starts) {
      if (bound > limit_) { break; }
      case_ = cases_[number];
      microbatches_ = options_.microbatches(case_);
      llm_stages_ = pp;
      auto const& useful = useful_of(number);
      if (!useful.empty()) { choose_stages(useful, modules_, 0, 0, 0); }
    }
  }

  [[nodiscard]] std::optional<orchestration> const& best() const noexcept { return best_; }
  [[nodiscard]] std::uint64_t evaluated() const noexcept { return evaluated_; }

 private:
  /// A case, the stages of its LLM, and what the LLM then takes at least.
  struct start {
    uint128 bound;
    std::size_t number;
    std::uint32_t pp;
  };

  [[nodiscard]] static uint128 pace(time_units microbatch, std::uint32_t microbatches) noexcept
  {
    return static_cast<uint128>(microbatch) * (microbatches - 1);
  }
  [[nodiscard]] static uint128 alone(unit_option const& option, std::uint32_t microbatches) noexcept
  {
    return pace(option.time.microbatch, microbatches) + static_cast<uint128>(option.time.once);
  }

  void add_starts(std::size_t number, std::vector<start>& starts)
  {
    std::size_t const llm = options_.llm();
    std::uint32_t const count = options_.microbatches(cases_[number]);
    auto const first = starts.size();
    options_.each(llm, cases_[number], [&](unit_option const& option) {
      ++evaluated_;
      if (!options_.fits(llm, option)) { return; }
      uint128 const bound = alone(option, count);
      auto const same =
          std::find_if(starts.begin() + static_cast<std::ptrdiff_t>(first), starts.end(),
                       [pp = option.layout.pp](start const& each) { return each.pp == pp; });
      if (same == starts.end()) {
        starts.push_back({bound, number, option.layout.pp});
      } else {
        same->bound = std::min(same->bound, bound);
      }
    });
  }

  /// Of each module; none where a module has no option.
  [[nodiscard]] std::vector<useful_options> const& useful_of(std::size_t number)
  {
    auto& [is_known, modules] = useful_[number];
    if (is_known) { return modules; }
    is_known = true;
    for (std::size_t module = 0; module < modules_; ++module) {
      useful_options own;
      options_.each(module, case_, [&](unit_option option) {
        ++evaluated_;
        if (!options_.fits(module, option) || alone(option, microbatches_) > limit_) { return; }
        if (module + 1 == modules_) { option.room = 0; }  // nothing is behind it
        own.all.push_back(option);
      });
      if (own.all.empty()) { return modules = {}; }
      own.keep_useful_only(module == 0);
      modules.push_back(std::move(own));
    }
    return modules;
  }

  /// Chooses stages for the modules before `end`, where so many microbatches are on their way
  /// behind these, and the modules from `end` on take `once`, and no less than `shortest` for a
  /// microbatch.
  void choose_stages(std::vector<useful_options> const& useful, std::size_t end,
                     std::uint64_t behind, uint128 once, time_units shortest)
  {
    std::size_t const module = end - 1;
    uint128 before = once;
    time_units longest = shortest;
    for (std::size_t each = 0; each < module; ++each) {
      before += static_cast<uint128>(useful[each].least_once);
      longest = std::max(longest, useful[each].least_microbatch);
    }
    auto const room = static_cast<std::int64_t>(std::min<std::uint64_t>(behind, microbatches_));
    behind_[module] = behind;
    for (std::uint32_t const pp : useful[module].stages) {
      if (module == options_.llm() && pp != llm_stages_) { continue; }
      bool const is_any = module == 0 && module != options_.llm();
      auto& front = fronts_[module];
      front.clear();
      time_units own = no_cost;
      for (unit_option option : useful[module].all) {
        if (option.room < room || (!is_any && option.layout.pp != pp) ||
            alone(option, microbatches_) > limit_) {
          continue;
        }
        option.room = 0;
        front.push_back(option);
        own = std::min(own, option.time.microbatch);
      }
      if (!front.empty()) {
        keep_useful(front, true);
        auto const first = static_cast<uint128>(front.front().time.once);
        if (pace(std::max(longest, own), microbatches_) + before + first <= limit_) {
          if (module == 0) {
            sweep(std::max(shortest, own), once + first);
          } else {
            choose_stages(useful, module, options_.unit(module, pp, microbatches_).depth(behind),
                          once + first, std::max(shortest, own));
          }
        }
      }
      if (is_any) { return; }
    }
  }

  /// Sweeps the pace over the fronts, from `shortest` on; together they take `least` once.
  void sweep(time_units shortest, uint128 least)
  {
    std::vector<time_units> paces;
    for (auto const& front : fronts_) {
      for (unit_option const& each : front) {
        if (each.time.microbatch >= shortest) { paces.push_back(each.time.microbatch); }
      }
    }
    std::sort(paces.begin(), paces.end());
    paces.erase(std::unique(paces.begin(), paces.end()), paces.end());
    // A slower pace needs no more GPUs.
    auto at = std::partition_point(paces.begin(), paces.end(),
                                   [this](time_units slowest) { return !build_stairs(slowest); });
    for (; at != paces.end() && pace(*at, microbatches_) + least <= limit_; ++at) {
      build_stairs(*at);
      place(0, pace(*at, microbatches_), 0);
    }
  }

  /// Of the options that keep a pace, those with fewer GPUs than any that takes less once; false
  /// where the GPUs do not suffice for all modules.
  bool build_stairs(time_units slowest)
  {
    free_.clear();
    for (gpu_kind const& kind : options_.problem().kinds) { free_.push_back(kind.gpus); }
    fewest_ = 0;
    bool suffice = true;
    for (std::size_t module = 0; module < modules_; ++module) {
      auto& stairs = stairs_[module];
      stairs.clear();
      for (unit_option const& each : fronts_[module]) {
        if (each.time.microbatch > slowest) { continue; }
        if (stairs.empty() || each.gpus < stairs.back()->gpus) { stairs.push_back(&each); }
      }
      std::uint64_t const own = stairs.back()->gpus;
      std::uint64_t& free = free_[options_.kinds()[module]];
      suffice = suffice && own <= free;
      free -= std::min(own, free);
      fewest_ += own;
    }
    least_once_.back() = 0;
    for (std::size_t module = modules_; module > 0; --module) {
      least_once_[module - 1] =
          least_once_[module] + static_cast<uint128>(stairs_[module - 1].front()->time.once);
    }
    return suffice;
  }

  /// Chooses options for this module and those after it; `step` is what the pace and the modules
  /// before it take, and these have `more` GPUs than the fewest that keep it.
  void place(std::size_t module, uint128 step, std::uint64_t more)
  {
    if (module == modules_) {
      offer(fewest_ + more);
      return;
    }
    auto const& stairs = stairs_[module];
    for (unit_option const* const option : stairs) {
      uint128 const with = step + static_cast<uint128>(option->time.once);
      if (with + least_once_[module + 1] > limit_) { return; }
      std::uint64_t const own = option->gpus - stairs.back()->gpus;
      std::uint64_t& free = free_[options_.kinds()[module]];
      bool const is_worse =
          with + least_once_[module + 1] == limit_ && fewest_ + more + own > gpus_;
      if (own > free || is_worse) { continue; }
      chosen_[module] = option;
      free -= own;
      place(module + 1, with, more + own);
      free += own;
    }
  }

  void offer(std::uint64_t gpus)
  {
    model_layout offered;
    offered.microbatches = microbatches_;
    if (options_.problem().kinds.size() > 1) { offered.kinds = options_.kinds(); }
    offered.virtual_stages =
        options_.problem().virtual_stages(modules_ - 1, chosen_.back()->layout.pp);
    std::vector<unit_time> times;
    for (std::size_t module = 0; module < modules_; ++module) {
      unit_option const& each = *chosen_[module];
      offered.modules.push_back(each.layout);
      offered.memory_bytes = std::max(offered.memory_bytes,
                                      options_.bytes(module, each, behind_[module], microbatches_));
      times.push_back(each.time);
    }
    offered.step = disttrain_makespan(span_of(times), microbatches_);
    if (best_ && !precedes(offered.step, best_->layout.step, gpus, gpus_, offered.modules,
                           best_->layout.modules, offered.kinds, best_->layout.kinds)) {
      return;
    }
    best_ = {offered};
    keep(gpus);
  }

  void keep(std::uint64_t gpus)
  {
    gpus_ = gpus;
    limit_ = static_cast<uint128>(best_->layout.step);
  }

  unit_options const& options_;
  std::size_t modules_;
  std::vector<unit_case> cases_;
  std::vector<std::pair<bool, std::vector<useful_options>>> useful_;  // of each case, if known
  std::vector<std::vector<unit_option>> fronts_;
  std::vector<std::uint64_t> behind_;  // of each module, the microbatches on their way behind it
  std::vector<std::vector<unit_option const*>> stairs_;
  std::vector<uint128> least_once_;  // of a module and those after it
  std::vector<unit_option const*> chosen_;
  std::vector<std::uint64_t> free_;  // GPUs of each kind beyond the fewest that keep the pace
  std::uint64_t fewest_ = 0;
  unit_case case_;
  std::uint32_t microbatches_ = 1;
  std::uint32_t llm_stages_ = 1;
  std::optional<orchestration> best_;
  std::uint64_t gpus_ = 0;
  uint128 limit_ =
      static_cast<uint128>(no_cost) - 1;  // no orchestration that takes longer is wanted
  std::uint64_t evaluated_ = 0;
};

/// What a step takes at least where modules get GPUs of given kinds: in every case of the batch,
/// each module takes the least of its layouts once, and the slowest one sets the pace.
class assignment_bounds {
 public:
  static constexpr uint128 none = static_cast<uint128>(no_cost) * no_cost;

  assignment_bounds(layout_problem const& problem, price_list& prices, orchestrate_options asked)
      : modules_(problem.modules.size())
  {
    asked.limits.most_gpus = nullptr;  // no bound needs them
    for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      unit_options const options(problem, prices, std::vector<std::size_t>(modules_, kind), asked);
      for (unit_case const& of : options.cases()) {
        if (kind == 0) { microbatches_.push_back(options.microbatches(of)); }
        for (std::size_t module = 0; module < modules_; ++module) {
          unit_time least{no_cost, no_cost};
          options.each(module, of, [&](unit_option const& option) {
            ++evaluated_;
            if (!options.fits(module, option)) { return; }
            least.microbatch = std::min(least.microbatch, option.time.microbatch);
            least.once = std::min(least.once, option.time.once);
          });
          least_.push_back(least);
        }
      }
    }
  }

  /// `none` where a module has no layout that fits.
  [[nodiscard]] uint128 of(std::vector<std::size_t> const& kinds) const
  {
    uint128 least = none;
    std::size_t const cases = microbatches_.size();
    for (std::size_t number = 0; number < cases; ++number) {
      time_units slowest = 0;
      uint128 once = 0;
      for (std::size_t module = 0; module < modules_; ++module) {
        unit_time const& each = least_[(kinds[module] * cases + number) * modules_ + module];
        slowest = std::max(slowest, each.microbatch);
        once += static_cast<uint128>(each.once);
      }
      if (slowest == no_cost) { continue; }
      least = std::min(least, static_cast<uint128>(slowest) * (microbatches_[number] - 1) + once);
    }
    return least;
  }

  [[nodiscard]] std::uint64_t evaluated() const noexcept { return evaluated_; }

 private:
  std::size_t modules_;
  std::vector<std::uint32_t> microbatches_;  // of each case
  std::vector<unit_time> least_;             // of each kind, case and module
  std::uint64_t evaluated_ = 0;
};

/// The best orchestration over all assignments of kinds. Those with the least bounds come first,
/// and none is searched whose bound is longer than the best step.
[[nodiscard]] inline std::optional<orchestration> find_orchestration(
    layout_problem const& problem, price_list& prices, orchestrate_options const& asked)
{
  struct candidate {
    uint128 bound;
    std::vector<std::size_t> kinds;
  };
  std::vector<candidate> candidates;
  for (auto& kinds : kind_assignments(problem)) { candidates.push_back({0, std::move(kinds)}); }
  std::uint64_t evaluated = 0;
  if (candidates.size() > 1) {
    assignment_bounds const bounds(problem, prices, asked);
    for (candidate& each : candidates) { each.bound = bounds.of(each.kinds); }
    std::sort(candidates.begin(), candidates.end(), [](candidate const& a, candidate const& b) {
      return precedes(a.bound, b.bound, a.kinds, b.kinds);
    });
    evaluated = bounds.evaluated();
  }
  std::optional<orchestration> best;
  for (candidate const& each : candidates) {
    bool const is_longer = best && each.bound > static_cast<uint128>(best->layout.step);
    if (is_longer || each.bound == assignment_bounds::none || cancel_scope::is_cancelled()) {
      break;
    }
    unit_options const options(problem, prices, each.kinds, asked);
    orchestration_search search(options, std::move(best));
    search.run();
    best = search.best();
    evaluated += search.evaluated();
  }
  if (best) { best->evaluated = evaluated; }
  return best;
}

/// Refuses groups of GPUs that would not fill the nodes of a kind together.
[[nodiscard]] inline result<void> check_groups_of_kind(layout_problem const& problem,
                                                       std::size_t kind)
{
  struct group {
    std::size_t module;
    std::uint64_t gpus;
  };
  std::vector<group> groups;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    auto const kinds = kinds_of(problem, module);
    if (!std::binary_search(kinds.begin(), kinds.end(), kind)) { continue; }
    for (profiled_degree const& each : problem.modules[module].degrees) {
      std::uint64_t const gpus = degree_of(each).gpus();
      if (problem.kinds[kind].gpus_per_node % gpus == 0) { groups.push_back({module, gpus}); }
    }
  }
  for (group const& a : groups) {
    for (group const& b : groups) {
      if (a.gpus <= b.gpus && b.gpus % a.gpus != 0) {
        return fail(error_code::out_of_range, 0, "groups of ", counted(a.gpus, "GPU"),
                    " for module ", problem.modules[a.module].name, " and of ", b.gpus, " for ",
                    problem.modules[b.module].name,
                    " do not fill nodes together; give degrees of which one divides the other");
      }
    }
  }
  return {};
}

[[nodiscard]] inline result<void> check_orchestration(layout_problem const& problem,
                                                      std::span<tokens const> batches,
                                                      orchestrate_options const& options)
{
  if (auto checked = check_layout_problem(problem); !checked) { return checked; }
  if (options.llm && *options.llm >= problem.modules.size()) {
    return fail(error_code::out_of_range, 0, "module ", *options.llm,
                " is to be the LLM, and there are ", problem.modules.size(), ", counted from 0");
  }
  if (options.microbatch == 0 || problem.global_batch % options.microbatch != 0) {
    return fail(error_code::out_of_range, 0, "a batch of ", counted(problem.global_batch, "sample"),
                " is no whole number of microbatches of ", options.microbatch,
                "; give a divisor of the batch");
  }
  for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    if (auto checked = check_groups_of_kind(problem, kind); !checked) { return checked; }
  }
  return batches.empty() ? result<void>{} : check_batches(problem, batches);
}

/// What a layout takes in the simulator: what simulate_layout says, without its tasks.
[[nodiscard]] inline result<time_units> simulated_step_of(assigned_job const& job,
                                                          model_layout const& layout,
                                                          std::span<tokens const> batches)
{
  dealt_times times(job, batches);
  step_bounds bounds(job, times);
  uint128 total = 0;
  bool const is_sound =
      bounds.take(chosen_of(job, layout), layout.microbatches, layout.virtual_stages);
  for (std::size_t batch = 0; batch < times.batches() && is_sound; ++batch) {
    time_units step = 0;
    for (std::uint32_t group = 0; group < bounds.groups(); ++group) {
      step = std::max(step, bounds.simulated(batch, group));
    }
    total += static_cast<uint128>(step);
  }
  uint128 const mean = divided_up(total, times.batches());
  if (!is_sound || mean >= static_cast<uint128>(no_cost)) {
    return fail(error_code::out_of_range, 0,
                "a microbatch of the layout that was found takes 2^53 ",
                "picoseconds or more on some stage, or it has too many stages to be simulated; ",
                "check the profile's units");
  }
  return static_cast<time_units>(mean);
}

inline result<orchestration> best_orchestration(layout_problem const& problem,
                                                std::span<tokens const> batches,
                                                orchestrate_options const& options)
{
  if (auto checked = check_orchestration(problem, batches, options); !checked) {
    return tl::unexpected(checked.error());
  }
  price_list prices(problem);
  auto found = find_orchestration(problem, prices, options);
  if (cancel_scope::is_cancelled()) { return cancelled(); }
  if (found) {
    std::vector<tokens> drawn;  // the problem's samples, in turn
    std::size_t const modules = problem.modules.size();
    for (std::size_t at = 0; batches.empty() && at < problem.global_batch * modules; ++at) {
      drawn.push_back(problem.sizes[at % problem.sizes.size()]);
    }
    auto const simulated = simulated_step_of(assigned_job(problem, found->layout), found->layout,
                                             batches.empty() ? span_of(drawn) : batches);
    if (!simulated) { return tl::unexpected(simulated.error()); }
    found->simulated = *simulated;
    return *std::move(found);
  }
  layout_problem unused = problem;
  unused.may_leave_gpus = true;
  auto const assignments = kind_assignments(unused);
  closest_layout closest(assignments.size());
  for (auto const& kinds : assignments) {
    assigned_job const job(unused, span_of(kinds));
    (void)closest.look_at(job, prices.memory);
    if (cancel_scope::is_cancelled()) { return cancelled(); }
    if (closest.fits()) {
      return fail(error_code::infeasible, 0, "layouts fit, and none is as asked: dp divides the ",
                  counted(problem.global_batch / options.microbatch, "microbatch"),
                  " of a batch, groups and stages are those that may be, and steps take less than "
                  "2^63 picoseconds; use smaller microbatches, or ask for less");
    }
  }
  return closest.sentence();
}

}  // namespace ballast::inline v0::detail
