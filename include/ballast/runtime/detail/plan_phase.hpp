// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PLAN_PHASE_HPP
#define BALLAST_RUNTIME_DETAIL_PLAN_PHASE_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/phase.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// What a phase plans: its sequences, who has read them, the groups that may have to stay together,
/// and where the tokens are that it will need.
struct phase_input {
  std::size_t number = 0;  ///< of the phase, for messages
  std::span<tokens const> lengths;
  std::span<rank_id const> source;
  std::span<std::int64_t const> groups;
  placement const& from;  ///< is read where the phase asks for by_node
  std::size_t ranks = 0;
  rank_id rank{};
};

/// The same error, which says in which phase it is.
[[nodiscard]] inline result<void> in_phase(std::size_t number, error why)
{
  why.message = concat("phase ", number, ": ", why.message);
  return tl::unexpected(std::move(why));
}

[[nodiscard]] inline result<void> check_phase_gpus(phase_input const& in, char const* what,
                                                   std::size_t gpus)
{
  if (gpus == in.ranks) { return {}; }
  return fail(error_code::out_of_range, in.number, "the ", what, " of phase ", in.number, " have ",
              counted(gpus, "GPU"), " and the job has ", counted(in.ranks, "rank"), "; lay the ",
              what, " out over one GPU for each rank");
}

/// Plans one phase and places its sequences.
///
/// Errors      out_of_range: the phase has not one GPU for each rank, or is told what it cannot
///             keep (`position` is the phase); those of partition_into or hybrid_sharding_into,
///             with the phase's number before the message.
template <class Cost, class Policy>
[[nodiscard]] result<void> plan_phase(phase<Cost, Policy> const& own, phase_input const& in,
                                      phase_step& step, workspace& memory)
{
  if (auto checked = check_phase_gpus(in, "bags", own.bags.gpus()); !checked) { return checked; }
  if (own.rate > 1 && own.bags.size() != in.ranks) {
    auto const rate = own.rate;  // nvcc 13 garbles the list below with it
    return fail(error_code::out_of_range, in.number, "phase ", in.number, " makes one token of ",
                rate,
                " and has a bag of several GPUs, whose chunks could end inside such a token; "
                "give it bags of one GPU");
  }
  if (own.by_node) {
    if (auto checked = check_phase_gpus(in, "machines", own.by_node->gpus()); !checked) {
      return checked;
    }
  }
  partition_constraints constraints;
  constraints.most_per_gpu = own.most_per_gpu;
  if (own.together) { constraints.together = in.groups; }
  if (own.homes) { constraints.home = in.source; }
  if (auto done = partition_into(step.planned, memory, in.lengths, own.bags, own.policy,
                                 own.cost_of, std::identity{}, constraints);
      !done) {
    return in_phase(in.number, std::move(done.error()));
  }
  if (own.by_node) {
    auto done =
        place_by_node_into(step.by_node, memory, step.planned, in.from, own.bags, *own.by_node);
    if (!done) { return in_phase(in.number, std::move(done.error())); }
  }
  step.own_lengths.clear();
  for (sample_id const sequence : step.planned.samples[own.bags.bag_of(in.rank)]) {
    step.own_lengths.push_back(in.lengths[to_index(sequence)]);
  }
  place_into(step.as_computed, in.lengths, span_of(step.planned.owner), own.bags);
  return {};
}

[[nodiscard]] inline result<void> plan_phase(hybrid_phase const& own, phase_input const& in,
                                             phase_step& step, workspace& memory)
{
  if (own.together) {
    return fail(error_code::out_of_range, in.number, "phase ", in.number,
                " splits every sequence to a degree of its own, and cannot keep the samples of a "
                "group together; give it bags (`phase`), or do not ask for `together`");
  }
  if (auto checked = check_phase_gpus(in, "groups", own.groups.gpus()); !checked) {
    return checked;
  }
  if (auto done = hybrid_sharding_into(step.sharded, memory, in.lengths, own.groups, own.cost,
                                       own.tokens_per_gpu);
      !done) {
    return in_phase(in.number, std::move(done.error()));
  }
  step.packs.assign(step.sharded, own.groups, in.rank, own.cost.heads,
                    own.cost.whole_groups ? own.cost.kv_heads : 0);
  return place_into(step.as_computed, step.sharded, own.groups);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PLAN_PHASE_HPP
