// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LAYOUT_ENUMERATION_HPP
#define BALLAST_PARALLELISM_DETAIL_LAYOUT_ENUMERATION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/dealt_times.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/detail/fits_nodes.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/layout_transfers.hpp>
#include <ballast/parallelism/detail/stage_choices.hpp>
#include <ballast/parallelism/detail/stage_memory.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// All layouts that fit and whose replicas have no more work than a limit.
///
/// The work of a module on its costliest stage is divided among its replicas, so the fullest has
/// that over dp at least, however samples are dealt, and reduces its gradients then. That bounds a
/// step from below for every number of microbatches. Modules are placed from the last to the first,
/// since what a stage holds depends on the stages after it; the first takes the GPUs that are left,
/// and none gets fewer than its work needs within the limit.
class layout_enumeration {
 public:
  /// Expects     times and memory outlive it; some layout fits.
  layout_enumeration(layout_problem const& problem, dealt_times& times, stage_memory& memory)
      : problem_(problem),
        batches_(times.batches()),
        memory_(memory),
        choices_(problem, memory),
        work_(problem.modules.size()),
        chosen_(problem.modules.size()),
        others_(problem.modules.size() + 1),
        held_(problem.modules.size())
  {
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      for (std::size_t degree = 0; degree < problem.modules[module].degrees.size(); ++degree) {
        degree_work& work = work_[module].emplace_back();
        work.of_batch = times.least_work(module, degree);
        for (time_units const each : work.of_batch) { work.all += static_cast<uint128>(each); }
      }
    }
  }

  /// No step is shorter, whatever the layout: the GPUs divide the work of all modules evenly.
  [[nodiscard]] time_units least_step() const
  {
    uint128 gpu_time = 0;
    for (std::size_t module = 0; module < work_.size(); ++module) {
      uint128 least = ~uint128{0};
      for (stage_choice const& choice : choices_.of(module)) {
        least = std::min(least, work_[module][choice.degree].all * choice.group);
      }
      gpu_time += least;
    }
    uint128 const step = gpu_time / (static_cast<uint128>(problem_.gpus) * batches_);
    return static_cast<time_units>(std::min(step, static_cast<uint128>(no_cost)));
  }

  /// A step of the layout is no shorter, for any number of microbatches and however the samples of
  /// each batch are dealt.
  [[nodiscard]] time_units bound_of(std::vector<chosen_layout> const& chosen) const
  {
    uint128 sum = 0;
    for (std::size_t batch = 0; batch < batches_; ++batch) {
      uint128 longest = 0;
      for (std::size_t module = 0; module < chosen.size(); ++module) {
        auto const& [degree, layout] = chosen[module];
        module_profile const& profile = problem_.modules[module];
        stage_shares const shares(profile, layout.pp);
        std::uint32_t const costliest = shares.costliest();
        uint128 const work = static_cast<uint128>(work_[module][degree].of_batch[batch]) *
                             shares.cost_of(costliest) /
                             (static_cast<uint128>(shares.whole()) * layout.dp);
        time_units const reducing = reducing_time(problem_, profile.degrees[degree],
                                                  shares.layers_of(costliest), layout.dp);
        longest = std::max(longest, work + static_cast<uint128>(reducing));
      }
      sum += longest;
    }
    return static_cast<time_units>(
        std::min(divided_up(sum, batches_), static_cast<uint128>(no_cost - 1)));
  }

  /// The numbers of microbatches with which a layout may fit.
  struct counts {
    std::uint64_t least;   ///< with fewer, not even one microbatch does
    std::uint64_t steady;  ///< from it on it fits: a stage may keep as many as are on their way
    std::uint64_t most;
  };

  /// Calls found(chosen, bound, counts) for every layout with a bound up to the limit, until
  /// found() returns false or the budget is spent. Returns whether it has called it for all.
  template <class Found>
  [[nodiscard]] bool within(time_units limit, work_budget& budget, Found const& found)
  {
    limit_ = (static_cast<uint128>(limit) + 1) * batches_;  // roundings are less than 1 a batch
    others_[0] = 0;
    for (std::size_t module = 0; module + 1 < chosen_.size(); ++module) {
      std::uint64_t fewest = ~std::uint64_t{0};
      for (stage_choice const& choice : choices_.of(module)) {
        for (std::uint32_t pp = choice.fewest_stages; pp < choice.least_parts.size(); ++pp) {
          fewest =
              std::min(fewest, std::uint64_t{choice.group} * pp * least_dp(module, choice, pp));
        }
      }
      others_[module + 1] = std::min(others_[module] + fewest, std::uint64_t{problem_.gpus} + 1);
    }
    auto const keep = [&](counts const& fitting) {
      layouts_.clear();
      for (chosen_layout const& each : chosen_) { layouts_.push_back(each.layout); }
      if (!fits_nodes(span_of(layouts_), problem_.gpus, problem_.gpus_per_node)) { return true; }
      constexpr std::uint64_t bounding = 16;  // as much work as so many tasks
      budget.spend(bounding * chosen_.size() * batches_);
      time_units const bound = bound_of(chosen_);
      return bound > limit || found(chosen_, bound, fitting);
    };
    return place(problem_.modules.size(), problem_.gpus, {1, 1, 0}, budget, keep);
  }

 private:
  struct degree_work {
    std::vector<time_units> of_batch{};
    uint128 all = 0;
  };
  /// The fewest replicas with which the costliest stage's work keeps to the limit.
  [[nodiscard]] std::uint64_t least_dp(std::size_t module, stage_choice const& choice,
                                       std::uint32_t pp) const
  {
    stage_shares const shares(problem_.modules[module], pp);
    uint128 const costliest = work_[module][choice.degree].all * shares.cost_of(shares.costliest());
    uint128 const least = divided_up(costliest, limit_ * shares.whole());
    return static_cast<std::uint64_t>(
        std::clamp(least, uint128{1}, static_cast<uint128>(problem_.gpus) + 1));
  }

  /// Places the modules before `end` on the GPUs that are left.
  template <class Keep>
  [[nodiscard]] bool place(std::size_t end, std::uint64_t left, counts allowed, work_budget& budget,
                           Keep const& keep)
  {
    std::size_t const module = end - 1;
    bool const is_first = module == 0;
    bool const is_last = end == problem_.modules.size();
    std::uint32_t const layers = problem_.modules[module].layers;
    for (stage_choice const& choice : choices_.of(module)) {
      auto const place_with = [&](std::uint32_t pp, std::uint64_t least_replicas,
                                  std::uint64_t most_replicas) {
        std::uint64_t const held = pp + (is_last ? 0 : held_[problem_.fed_by(module)]);
        held_[module] = held;
        std::uint64_t const parts = choice.least_parts[pp];
        if (least_replicas > most_replicas || parts == stage_choice::never) { return true; }
        std::uint64_t const all_parts =
            memory_.least_parts(module, choices_.largest_size(module, choice, pp, held));
        if (is_last) {
          most_replicas = std::min<std::uint64_t>(most_replicas, problem_.global_batch);
        }
        for (std::uint64_t dp = least_replicas; dp <= most_replicas; ++dp) {
          budget.spend(1);
          if (budget.spent()) { return false; }
          counts now = allowed;
          if (is_last) { now.most = problem_.global_batch / dp; }
          now.least = std::max(now.least, static_cast<std::uint64_t>(divided_up(parts, dp)));
          now.steady = std::max(
              now.steady, all_parts == 0 ? stage_choice::never
                                         : static_cast<std::uint64_t>(divided_up(all_parts, dp)));
          if (now.least > now.most) { continue; }
          chosen_[module] = {choice.degree,
                             layout_at(choice.parallel, pp, static_cast<std::uint32_t>(dp))};
          std::uint64_t const rest = left - chosen_[module].layout.gpus();
          bool const is_whole = is_first ? keep(now) : place(module, rest, now, budget, keep);
          if (!is_whole) { return false; }
        }
        return true;
      };
      if (is_first) {
        if (left % choice.group != 0) { continue; }
        std::uint64_t const chains = left / choice.group;
        for (std::uint32_t const pp : choices_.divisors(chains)) {
          if (pp < choice.fewest_stages || pp > layers) { continue; }
          std::uint64_t const dp = chains / pp;
          if (dp >= least_dp(module, choice, pp) && !place_with(pp, dp, dp)) { return false; }
        }
        continue;
      }
      if (others_[module] >= left) { return true; }
      for (std::uint32_t pp = choice.fewest_stages; pp <= layers; ++pp) {
        std::uint64_t const most = (left - others_[module]) / (std::uint64_t{choice.group} * pp);
        if (!place_with(pp, least_dp(module, choice, pp), most)) { return false; }
      }
    }
    return true;
  }

  layout_problem problem_;
  std::size_t batches_;
  stage_memory& memory_;
  stage_choices choices_;
  std::vector<std::vector<degree_work>> work_;  // of each module and degree
  std::vector<chosen_layout> chosen_;
  std::vector<module_layout> layouts_;
  std::vector<std::uint64_t> others_;  // the fewest GPUs of the modules before each
  std::vector<std::uint64_t> held_;    // stages from each module's first one to the end
  uint128 limit_ = 0;                  // of the work of all batches
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LAYOUT_ENUMERATION_HPP
