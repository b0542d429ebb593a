// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PLAN_PHASE_HPP
#define BALLAST_RUNTIME_DETAIL_PLAN_PHASE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/phase.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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

/// The GPUs of a phase that has ranks of its own: none, if it has all ranks of the job.
class phase_ranks {
 public:
  phase_ranks(std::span<rank_id const> own, std::size_t ranks) : own_(own), ranks_(ranks) {}

  /// The phase's GPU that a rank is, if it is one.
  [[nodiscard]] std::optional<rank_id> gpu_of(rank_id rank) const
  {
    if (own_.empty()) { return rank; }
    auto const found = std::lower_bound(own_.begin(), own_.end(), rank);
    if (found == own_.end() || *found != rank) { return std::nullopt; }
    return to_id<rank_id>(static_cast<std::size_t>(found - own_.begin()));
  }

  /// Says of what was placed over the phase's GPUs on which ranks it lies.
  void rename(placement& where) const
  {
    if (!own_.empty()) { placement_writer::rename(where, own_, ranks_); }
  }

  /// Errors      out_of_range: the phase has not one GPU for each rank, or for each of its own.
  [[nodiscard]] result<void> check(std::size_t number, char const* what, std::size_t gpus) const
  {
    if (own_.empty()) {
      if (gpus == ranks_) { return {}; }
      return fail(error_code::out_of_range, number, "the ", what, " of phase ", number, " have ",
                  counted(gpus, "GPU"), " and the job has ", counted(ranks_, "rank"), "; lay the ",
                  what, " out over one GPU for each rank, or say which ranks they are");
    }
    bool const increasing =
        std::adjacent_find(own_.begin(), own_.end(), std::greater_equal{}) == own_.end();
    if (gpus == own_.size() && increasing && to_index(own_.back()) < ranks_) { return {}; }
    return fail(error_code::out_of_range, number, "the ", what, " of phase ", number, " have ",
                counted(gpus, "GPU"), " on ", counted(own_.size(), "rank"), " up to ", own_.back(),
                " of ", ranks_,
                "; give each GPU a rank of the job, in increasing "
                "order");
  }

 private:
  std::span<rank_id const> own_;
  std::size_t ranks_;
};

/// Plans one phase and places its sequences.
///
/// Errors      out_of_range: the phase has not one GPU for each rank, or each of its own, or is told
///             what it cannot keep (`position` is the phase); those of partition_into or hybrid_sharding_into,
///             with the phase's number before the message.
template <class Cost, class Policy>
[[nodiscard]] result<void> plan_phase(phase<Cost, Policy> const& own, phase_input const& in,
                                      phase_step& step, workspace& memory)
{
  phase_ranks const ranks(span_of(own.ranks), in.ranks);
  if (auto checked = ranks.check(in.number, "bags", own.bags.gpus()); !checked) { return checked; }
  if (!own.ranks.empty() && (own.homes || own.by_node)) {
    return fail(error_code::out_of_range, in.number, "phase ", in.number,
                " has ranks of its own and is to stay near those that have read its samples; leave "
                "out homes and by_node");
  }
  if (own.rate > 1 && own.bags.size() != own.bags.gpus()) {
    auto const rate = own.rate;  // nvcc 13 garbles the list below with it
    return fail(error_code::out_of_range, in.number, "phase ", in.number, " makes one token of ",
                rate,
                " and has a bag of several GPUs, whose chunks could end inside such a token; "
                "give it bags of one GPU");
  }
  if (own.by_node) {
    if (auto checked = ranks.check(in.number, "machines", own.by_node->gpus()); !checked) {
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
  if (auto const gpu = ranks.gpu_of(in.rank)) {
    for (sample_id const sequence : step.planned.samples[own.bags.bag_of(*gpu)]) {
      step.own_lengths.push_back(in.lengths[to_index(sequence)]);
    }
  }
  place_into(step.as_computed, in.lengths, span_of(step.planned.owner), own.bags);
  ranks.rename(step.as_computed);
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
  phase_ranks const ranks(span_of(own.ranks), in.ranks);
  if (auto checked = ranks.check(in.number, "groups", own.groups.gpus()); !checked) {
    return checked;
  }
  if (auto done = hybrid_sharding_into(step.sharded, memory, in.lengths, own.groups, own.cost,
                                       own.tokens_per_gpu);
      !done) {
    return in_phase(in.number, std::move(done.error()));
  }
  if (auto const gpu = ranks.gpu_of(in.rank)) {
    step.packs.assign(step.sharded, own.groups, *gpu, own.cost.heads,
                      own.cost.whole_groups ? own.cost.kv_heads : 0);
  } else {
    step.packs = {};
  }
  auto placed = place_into(step.as_computed, step.sharded, own.groups);
  if (placed) { ranks.rename(step.as_computed); }
  return placed;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PLAN_PHASE_HPP
