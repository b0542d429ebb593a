// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_HYBRID_SHARDING_HPP
#define BALLAST_SHARDING_HYBRID_SHARDING_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_bound.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_search.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/topology/device_groups.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0 {

/// The tokens that a GPU may hold where memory is no matter.
inline constexpr tokens no_token_limit = std::numeric_limits<tokens>::max();

namespace detail {

/// Why a step cannot be planned, whatever its costs are, if so.
[[nodiscard]] inline result<void> check_shard_lengths(std::span<tokens const> lengths,
                                                      device_groups const& groups,
                                                      tokens tokens_per_gpu)
{
  if (groups.gpus() == 0) {
    return fail(error_code::infeasible, 0, "there are no GPUs to split sequences over; add some");
  }
  if (lengths.size() >= no_shard_group) {
    return fail(error_code::out_of_range, 0, "a step has more than 2^32 - 2 sequences; split it");
  }
  if (tokens_per_gpu < 0) {
    return fail(error_code::out_of_range, 0, "a GPU may hold ", counted(tokens_per_gpu, "token"),
                "; give how many fit its memory");
  }
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    if (lengths[sample] < 0 || lengths[sample] > longest_sample) {
      return fail(error_code::out_of_range, sample, "sequence ", sample, " of ",
                  counted(lengths[sample], "token"), " has a length that is not from 0 to ",
                  longest_sample, "; correct its length");
    }
  }
  return {};
}

/// Why the sequences cannot be planned, each by itself, if so.
[[nodiscard]] inline result<void> check_shard_times(shard_problem const& problem,
                                                    device_groups const& groups,
                                                    sharding_cost const& cost)
{
  constexpr cost_units most = no_cost / 4;  // a change adds two times to a load
  cost_units total = 0;
  for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
    cost_units longest = -1;
    for (std::size_t at = 0; at < problem.classes.size(); ++at) {
      cost_units const time = problem.time(sample, at);
      if (time != no_cost) { longest = std::max(longest, time); }
    }
    auto const name = [&] {
      return concat("sequence ", sample, " of ", counted(problem.lengths[sample], "token"), " ");
    };
    if (longest < 0) {
      // Memory and splitting depend on the length alone, so the cost is tried where they allow it.
      for (shard_class const& each : problem.classes) {
        tokens const k = each.shape.gpus;
        tokens const length = problem.lengths[sample];
        if ((length + k - 1) / k <= problem.most_tokens && (k == 1 || length >= k)) {
          return fail(error_code::out_of_range, sample,
                      name() +
                          "has no cost: it does not fit 63 bits; use a cost model with a coarser "
                          "unit");
        }
      }
      std::uint32_t const largest = problem.classes.back().shape.gpus;
      return fail(error_code::infeasible, sample, name(),
                  "needs more memory than any group has: split over ", counted(largest, "GPU"),
                  ", the most that ", counted(cost.heads, "head"), " and groups of up to ",
                  counted(groups.degrees().back(), "GPU"), " allow, each may hold ",
                  counted(problem.most_tokens, "token"),
                  "; allow more tokens per GPU or larger groups, or leave it out");
    }
    if (longest > most - total) {
      return fail(error_code::out_of_range, sample,
                  name() +
                      "brings the total time above 61 bits; use a cost model with a coarser unit "
                      "or plan fewer sequences at once");
    }
    total += longest;
  }
  return {};
}

/// Why the GPUs have no room for all sequences together, if a division says so.
[[nodiscard]] inline result<void> check_shard_room(shard_problem const& problem)
{
  tokens total = 0;
  for (tokens const length : problem.lengths) { total += length; }
  auto const gpus = static_cast<tokens>(problem.gpus);
  if (problem.most_tokens >= total / gpus + (total % gpus == 0 ? 0 : 1)) { return {}; }
  return fail(error_code::infeasible, 0, "the sequences have ", counted(total, "token"),
              " together, more than ", counted(gpus, "GPU"), " of ",
              counted(problem.most_tokens, "token"),
              " can hold; allow more tokens per GPU, or compute fewer sequences in a step");
}

/// How many steps the search for a plan may take, of some nanoseconds each.
[[nodiscard]] constexpr std::uint64_t shard_steps(std::size_t samples, std::size_t groups)
{
  // Where plain search comes near, it takes longer; 10 ms are enough for few sequences and GPUs.
  std::uint64_t const most = samples * groups <= 512    ? 800'000
                             : samples * groups <= 4096 ? 2'000'000
                                                        : 1'000'000;
  return most + 16 * (static_cast<std::uint64_t>(samples) + groups);
}

/// Writes what the owners mean into the plan.
inline void describe_shards(sharding_plan& plan, shard_problem const& problem,
                            device_groups const& groups)
{
  std::size_t const count = problem.samples();
  plan.costs.resize(count);
  plan.loads.assign(problem.gpus, 0);
  plan.tokens_of.assign(problem.gpus, 0);
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::size_t const group = to_index(plan.owner[sample]);
    plan.costs[sample] = problem.time_in(sample, group);
    auto const [first, gpus] = problem.groups[group];
    // As chunk_of does it: the first ones have one token more.
    tokens const each = problem.lengths[sample] / gpus;
    tokens const longer = problem.lengths[sample] % gpus;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      plan.loads[to_index(first) + gpu] += plan.costs[sample];
      plan.tokens_of[to_index(first) + gpu] += each + (gpu < longer ? 1 : 0);
    }
  }
  plan.samples.collect(detail::span_of(plan.owner), groups.size());
  plan.makespan = *std::max_element(plan.loads.begin(), plan.loads.end());
  plan.groups_digest = groups.digest();
}

}  // namespace detail

/// Decides for every sequence of a step which group of GPUs computes it, and so to which degree it
/// is split: long sequences over many GPUs, short ones on one, so that all GPUs end at about the
/// same time and none holds more tokens than its memory has room for.
///
/// A GPU works for all groups that contain it, one after the other: its load is the sum over their
/// sequences of what each takes a GPU of the group (sharding_cost::at). A group has at most as many
/// GPUs as the model has heads and the sequence tokens; a sequence without tokens is on one GPU.
///
/// Shapes      lengths[n], n < 2^32 - 1.
/// Units       makespan, loads and costs in the unit of `cost`. tokens_per_gpu: of all sequences of
///             a step together; of one of l tokens over k GPUs each holds l / k, rounded up.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     what sharding_cost expects.
/// Ensures     (1) those of sharding_plan
///             (2) no GPU holds more than tokens_per_gpu tokens
///             (3) the plan depends on nothing but the arguments: integers, ties by index, no clock
///             (4) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      infeasible: there are no GPUs, or the sequences have more tokens than all GPUs may
///             hold, or sequence `position` needs more memory than any group has, or no plan has
///             room for all, or the search gave up before it found one (the sentence says which); out_of_range:
///             sequence `position` has a length outside [0, longest_sample], or no cost, or the
///             costs do not fit 61 bits, or tokens_per_gpu is negative, or groups of attention are
///             to stay whole and heads are no multiple of kv_heads. The plan is then unspecified.
/// Complexity  O(n (degrees + log groups) + GPUs log GPUs) for each of ten to thirty greedy
///             plans, and a search of a limited number of steps.
/// Source      hybrid sharding is that of "FlexRL", whose own method, sequences in descending order
///             to the least loaded GPU, is longest_processing_time with lengths as costs; the
///             search is ours.
[[nodiscard]] inline result<void> hybrid_sharding_into(sharding_plan& plan, workspace& memory,
                                                       std::span<tokens const> lengths,
                                                       device_groups const& groups,
                                                       sharding_cost const& cost,
                                                       tokens tokens_per_gpu = no_token_limit)
{
  BALLAST_EXPECTS(cost.heads >= 1, "sequences were to be split by 0 heads");
  if (cost.whole_groups && (cost.kv_heads == 0 || cost.heads % cost.kv_heads != 0)) {
    return fail(error_code::out_of_range, 0, "groups of ",
                detail::counted(cost.heads, "query head"), " and ",
                detail::counted(cost.kv_heads, "key-value head"),
                " cannot stay whole, since the first are no multiple of the second; "
                "correct the heads, or do without whole_groups");
  }
  if (auto checked = detail::check_shard_lengths(lengths, groups, tokens_per_gpu); !checked) {
    return checked;
  }
  auto scratch = memory.open();
  detail::shard_problem const problem =
      detail::make_shard_problem(lengths, groups, cost, tokens_per_gpu, scratch);
  if (auto checked = detail::check_shard_times(problem, groups, cost); !checked) { return checked; }
  if (auto checked = detail::check_shard_room(problem); !checked) { return checked; }
  plan.lower_bound = detail::shard_lower_bound(problem, scratch);
  detail::shard_search search(problem, plan.lower_bound, scratch);
  auto const stranded =
      search.run(detail::work_budget(detail::shard_steps(lengths.size(), groups.size())));
  if (stranded && search.all_tried()) {
    return fail(error_code::infeasible, *stranded, "no plan of ",
                detail::counted(lengths.size(), "sequence"),
                " has room for all where each GPU may hold ",
                detail::counted(tokens_per_gpu, "token"),
                "; allow more tokens per GPU, or compute fewer sequences in a step");
  }
  if (stranded) {
    return fail(error_code::infeasible, *stranded, "sequence ", *stranded, " of ",
                detail::counted(lengths[*stranded], "token"),
                " found no group with room beside the others, where each GPU may hold ",
                detail::counted(tokens_per_gpu, "token"),
                ", and the search gave up; allow more tokens per GPU, or compute fewer sequences "
                "in a step");
  }
  plan.lengths.assign(lengths.begin(), lengths.end());
  plan.owner.resize(lengths.size());
  std::transform(search.owner().begin(), search.owner().end(), plan.owner.begin(),
                 [](std::uint32_t group) { return to_id<group_id>(group); });
  detail::describe_shards(plan, problem, groups);
  return {};
}

/// The same, once: returns a new plan.
[[nodiscard]] inline result<sharding_plan> hybrid_sharding(std::span<tokens const> lengths,
                                                           device_groups const& groups,
                                                           sharding_cost const& cost,
                                                           tokens tokens_per_gpu = no_token_limit)
{
  sharding_plan plan;
  workspace memory;
  auto const done = hybrid_sharding_into(plan, memory, lengths, groups, cost, tokens_per_gpu);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_SHARDING_HYBRID_SHARDING_HPP
