// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
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
    uint128 const kept =
        job_.has_backward(module)
            ? divided_up(static_cast<uint128>(option.kept_bytes) * unit.kept(behind),
                         unit.virtual_stages)
            : option.kept_bytes;
    uint128 const all = kept + option.state_bytes;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return all < most ? static_cast<std::uint64_t>(all) : most;
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

}  // namespace ballast::inline v0::detail
