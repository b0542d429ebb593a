// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/least_overrun.hpp>
#include <ballast/parallelism/detail/step_bounds.hpp>
#include <ballast/parallelism/orchestrate.hpp>

namespace ballast::inline v0::detail {

/// A layout of one module, what it takes of a step, and what its GPU that holds most does: state, and
/// the activations of a microbatch, of which each virtual stage keeps its part.
struct unit_option {
  module_layout layout{};
  unit_time time{};  ///< those that are no_cost do not fit
  std::uint64_t state_bytes = 0;
  std::uint64_t kept_bytes = 0;
  std::uint64_t gpus = 0;
  /// The most microbatches that can be on their way behind it; -1 where it has too little memory
  /// for none.
  std::int64_t room = -1;
};

/// How an orchestration cuts the batch, and, where modules share it, the GPUs of a group; 0: each
/// has its own.
struct unit_case {
  std::uint32_t llm_dp = 1;
  std::uint64_t group = 0;
};

/// Lists the layouts of the modules of a sound problem, each on GPUs of a given kind.
class unit_options {
 public:
  /// Expects     the prices outlive it.
  unit_options(layout_problem const& problem, price_list& prices,
               std::vector<std::size_t> const& kinds, orchestrate_options asked)
      : job_(problem, span_of(kinds)), prices_(prices), asked_(std::move(asked))
  {
    if (asked_.limits.most_gpus) { most_gpus_ = asked_.limits.most_gpus(kinds); }
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      stages_.push_back(stages_of(module));
    }
    std::uint32_t const whole = problem.global_batch / asked_.microbatch;
    for (std::uint32_t dp = 1; std::uint64_t{dp} * dp <= whole; ++dp) {
      if (whole % dp != 0) { continue; }
      replicas_.push_back(dp);
      if (whole / dp != dp) { replicas_.push_back(whole / dp); }
    }
    std::sort(replicas_.begin(), replicas_.end());
  }

  /// Whether a module may have a degree on GPUs of a kind: they then lie inside a node.
  [[nodiscard]] bool has_degree(std::size_t kind, parallel_degree const& degree) const noexcept
  {
    return job_.kinds[kind].gpus_per_node % degree.gpus() == 0 &&
           (asked_.limits.group == 0 || asked_.limits.group == degree.gpus());
  }

  /// Ordered by dp, then by the groups of the LLM.
  [[nodiscard]] std::vector<unit_case> cases() const
  {
    std::vector<unit_case> all;
    for (std::uint32_t const dp : replicas_) {
      if (!asked_.limits.has_one_group) {
        all.push_back({dp});
        continue;
      }
      std::vector<std::uint64_t> groups;
      for (profiled_degree const& each : job_.modules[llm()].degrees) {
        groups.push_back(degree_of(each).gpus());
      }
      std::sort(groups.begin(), groups.end());
      groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
      for (std::uint64_t const group : groups) { all.push_back({dp, group}); }
    }
    return all;
  }

  /// The microbatches of each replica of the LLM.
  [[nodiscard]] std::uint32_t microbatches(unit_case const& of) const noexcept
  {
    return job_.global_batch / asked_.microbatch / of.llm_dp;
  }

  /// Visits the layouts of a module that can be in an orchestration of this case, but for those
  /// that a layout with fewer stages betters in all respects. They may have more GPUs than there
  /// are, or need more memory.
  template <class Visit>
  void each(std::size_t module, unit_case const& of, Visit visit) const
  {
    bool const is_bound = module == llm() || asked_.limits.has_one_group;
    bool const is_last = module + 1 == job_.modules.size();
    auto const& degrees = job_.modules[module].degrees;
    std::uint32_t const samples = of.llm_dp * asked_.microbatch;
    std::uint32_t const count = microbatches(of);
    for (std::size_t degree = 0; degree < degrees.size(); ++degree) {
      parallel_degree const parallel = degree_of(degrees[degree]);
      if (!has_degree(job_.assigned[module], parallel) ||
          (of.group != 0 && of.group != parallel.gpus())) {
        continue;
      }
      for (std::uint32_t const pp : stages_[module]) {
        auto const visit_replicas = [&](std::uint32_t dp) {
          for (bool const is_sharded : job_.shardings(module)) {
            visit(option(module, degree, layout_at(parallel, pp, dp, is_sharded), count));
          }
        };
        if (is_bound) {
          visit_replicas(of.llm_dp);
          continue;
        }
        for (std::uint32_t const dp : replicas_) {
          if (is_last && dp > samples) { break; }  // a replica would have no sample
          visit_replicas(dp);
        }
      }
    }
  }

  /// Whether a unit has GPUs and, with nothing behind it, memory for an option, and its times fit.
  [[nodiscard]] bool fits(std::size_t module, unit_option const& option) const noexcept
  {
    return option.gpus <= most_gpus(module) && option.room >= 0 &&
           option.time.microbatch != no_cost && option.time.once != no_cost;
  }

  /// What the fullest GPU of an option holds where so many microbatches are on their way behind it.
  /// What only computes forward keeps the activations of one layer.
  [[nodiscard]] std::uint64_t bytes(std::size_t module, unit_option const& option,
                                    std::uint64_t behind, std::uint32_t microbatches) const noexcept
  {
    joined_unit const unit = this->unit(module, option.layout.pp, microbatches);
    return prices_.memory.bytes_of(module, option.state_bytes, option.kept_bytes, unit.kept(behind),
                                   unit.virtual_stages);
  }

  /// A module of so many stages, as a part of the pipeline.
  [[nodiscard]] joined_unit unit(std::size_t module, std::uint32_t pp,
                                 std::uint64_t microbatches) const noexcept
  {
    return {pp, job_.virtual_stages(module, pp), microbatches};
  }

  [[nodiscard]] gpu_kind const& kind(std::size_t module) const noexcept
  {
    return job_.kind(module);
  }
  /// Of each module, the number of its kind.
  [[nodiscard]] std::vector<std::size_t> const& kinds() const noexcept { return job_.assigned; }
  [[nodiscard]] assigned_job const& problem() const noexcept { return job_; }
  [[nodiscard]] std::size_t llm() const noexcept
  {
    return asked_.llm.value_or(job_.modules.size() - 1);
  }

 private:
  /// Where each replica of the LLM has so many microbatches.
  [[nodiscard]] unit_option option(std::size_t module, std::size_t degree,
                                   module_layout const& layout, std::uint32_t microbatches) const
  {
    stage_shares const shares(job_.modules[module], layout.pp);
    std::uint64_t const parts = std::uint64_t{microbatches} * layout.dp;
    joined_unit const unit = this->unit(module, layout.pp, microbatches);
    unit_option made{.layout = layout, .gpus = layout.gpus()};
    prices_.times.limit_memory();
    std::uint32_t const stages = layout.pp * job_.virtual_stages(module, layout.pp);
    cost_units const computing =
        prices_.times.of(module, job_.assigned[module], degree, parts).mean;
    cost_units const whole = gathers_of(job_, module, degree, layout).beside(computing, stages);
    time_units const of_stage = whole == no_cost ? no_cost : shares.of(whole, shares.costliest());
    made.time.microbatch = saturating_sum(of_stage, sending(module, layout, microbatches));
    uint128 const once =
        divided_up(static_cast<uint128>(made.time.microbatch) * layout.pp, unit.virtual_stages);
    time_units const reduced = reducing_time(job_, module, degree, shares.most_layers(), layout);
    made.time.once = once < static_cast<uint128>(no_cost)
                         ? saturating_sum(static_cast<time_units>(once), reduced)
                         : no_cost;
    made.state_bytes = prices_.memory.state(module, degree, layout);
    made.kept_bytes = prices_.memory.of_microbatch(module, degree, layout.pp,
                                                   prices_.memory.microbatch_size(module, parts));
    std::uint64_t const there = kind(module).memory_bytes;
    if (bytes(module, made, 0, microbatches) > there) { return made; }
    made.room = microbatches;
    if (job_.has_backward(module) && made.kept_bytes > 0) {
      uint128 const most =
          static_cast<uint128>(there - made.state_bytes) * unit.virtual_stages / made.kept_bytes;
      constexpr uint128 no_more_than = std::numeric_limits<std::uint64_t>::max();
      made.room = static_cast<std::int64_t>(
          unit.most_behind(static_cast<std::uint64_t>(std::min(most, no_more_than))));
    }
    return made;
  }

  /// What its stages send on, and get back as a gradient, of a microbatch.
  [[nodiscard]] time_units sending(std::size_t module, module_layout const& layout,
                                   std::uint32_t microbatches) const
  {
    if (layout.pp == 1 && job_.modules.size() == 1) { return 0; }
    uint128 all = 0;
    for (std::size_t sample = 0; sample < prices_.times.samples(); ++sample) {
      all += static_cast<std::uint64_t>(prices_.times.size(module, sample));
    }
    uint128 const of_batch = divided_up(all * job_.global_batch, prices_.times.samples());
    std::uint64_t const ways = job_.has_backward(module) ? 2 : 1;
    return sending_time(
        kind(module),
        divided_up(of_batch * job_.modules[module].boundary_bytes * ways, microbatches),
        std::uint64_t{layout.group()} * layout.dp);
  }

  /// Whether a module can have so many stages.
  [[nodiscard]] bool has_stages(std::size_t module, std::uint32_t pp) const noexcept
  {
    module_profile const& profile = job_.modules[module];
    return pp >= 1 && pp <= profile.layers &&
           has_virtual_stages(profile, {.pp = pp}, job_.virtual_stages(module, pp));
  }

  [[nodiscard]] std::uint64_t most_gpus(std::size_t module) const noexcept
  {
    std::uint64_t const all = kind(module).gpus;
    return most_gpus_.empty() ? all : std::min(all, most_gpus_[module]);
  }

  /// Of numbers of stages whose largest is as large, the smallest is enough: the others take more
  /// GPUs, and no less of time and memory.
  [[nodiscard]] std::vector<std::uint32_t> stages_of(std::size_t module) const
  {
    std::uint32_t const wanted = wanted_stages(asked_.limits, module == llm());
    std::vector<std::uint32_t> stages;
    if (wanted != 0) {
      if (has_stages(module, wanted)) { stages.push_back(wanted); }
      return stages;
    }
    stages.push_back(1);
    std::uint64_t least = std::uint64_t{1} << 32;
    for (std::uint32_t pp = 2; pp <= job_.modules[module].layers; ++pp) {
      if (!has_stages(module, pp)) { continue; }
      stage_shares const shares(job_.modules[module], pp);
      std::uint64_t const share =
          (std::uint64_t{shares.cost_of(shares.costliest())} << 32) / shares.whole();
      if (share < least) { stages.push_back(pp); }
      least = std::min(least, share);
    }
    return stages;
  }

  assigned_job job_;
  price_list& prices_;
  orchestrate_options asked_;
  std::vector<std::uint64_t> most_gpus_;            // that are asked for; empty: all
  std::vector<std::vector<std::uint32_t>> stages_;  // of each module, increasing
  std::vector<std::uint32_t> replicas_;             // divisors of the batch, increasing
};

/// Keeps of a module's options those that another one does not replace: one with no more GPUs, no
/// longer times, room for no fewer microbatches behind it and, unless no module is before it, no
/// more stages.
///
/// Ensures     (1) ordered by the time they take once, then by GPUs, then by their numbers
///             (2) of the best orchestrations of all options, the first is one of what is kept
/// Complexity  O(n log n + n k) for k that are kept.
inline void keep_useful(std::vector<unit_option>& options, bool is_first)
{
  std::sort(options.begin(), options.end(), [](unit_option const& a, unit_option const& b) {
    return precedes(a.time.once, b.time.once, a.gpus, b.gpus, a.layout, b.layout);
  });
  std::size_t kept = 0;
  for (unit_option const& option : options) {
    auto const end = options.begin() + static_cast<std::ptrdiff_t>(kept);
    bool const is_replaced = std::any_of(options.begin(), end, [&](unit_option const& other) {
      return other.gpus <= option.gpus && other.time.microbatch <= option.time.microbatch &&
             other.room >= option.room && (is_first || other.layout.pp <= option.layout.pp);
    });
    if (!is_replaced) { options[kept++] = option; }
  }
  options.resize(kept);
}

/// The options of a module that can be in the best orchestration of a case.
struct useful_options {
  std::vector<unit_option> all;
  std::vector<std::uint32_t> stages;  ///< that they have, increasing
  time_units least_once = no_cost;
  time_units least_microbatch = no_cost;

  void keep_useful_only(bool is_first)
  {
    keep_useful(all, is_first);
    for (unit_option const& each : all) {
      stages.push_back(each.layout.pp);
      least_once = std::min(least_once, each.time.once);
      least_microbatch = std::min(least_microbatch, each.time.microbatch);
    }
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  }
};

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
  std::vector<std::pair<uint128, std::vector<std::size_t>>> candidates;  // bounds, kinds
  for (auto& kinds : kind_assignments(problem)) { candidates.emplace_back(0U, std::move(kinds)); }
  std::uint64_t evaluated = 0;
  if (candidates.size() > 1) {
    assignment_bounds const bounds(problem, prices, asked);
    for (auto& [bound, kinds] : candidates) { bound = bounds.of(kinds); }
    std::sort(candidates.begin(), candidates.end());
    evaluated = bounds.evaluated();
  }
  std::optional<orchestration> best;
  for (auto const& [bound, kinds] : candidates) {
    bool const is_longer = best && bound > static_cast<uint128>(best->layout.step);
    if (is_longer || bound == assignment_bounds::none || cancel_scope::is_cancelled()) { break; }
    unit_options const options(problem, prices, kinds, asked);
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

BALLAST_ONCE result<orchestration> best_orchestration(layout_problem const& problem,
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
