// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_UNIT_PLAN_HPP
#define BALLAST_ROUTE_UNIT_PLAN_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/unit_placement.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Which way samples take from one unit to another.
enum class unit_strategy : std::uint8_t {
  direct,    ///< from where they are to where they are wanted, in one exchange
  one_rank,  ///< one rank gathers all of them and scatters them: DFLOP's inter-model communicator
  brokers,   ///< gcd(A, B) ranks gather from A / gcd senders and scatter to B / gcd receivers each
};

/// Every strategy, for loops over all of them.
inline constexpr std::array all_unit_strategies = {unit_strategy::direct, unit_strategy::one_rank,
                                                   unit_strategy::brokers};

/// The name of a strategy, as it is written.
[[nodiscard]] constexpr char const* name_of(unit_strategy strategy) noexcept
{
  switch (strategy) {
    case unit_strategy::direct: return "direct";
    case unit_strategy::one_rank: return "one_rank";
    case unit_strategy::brokers: return "brokers";
  }
  return "strategy";
}

/// How many ranks of the receiving unit gather and scatter; 0 where samples go directly.
[[nodiscard]] inline std::size_t brokers_of(unit_pair units, unit_strategy strategy) noexcept
{
  if (strategy == unit_strategy::direct) { return 0; }
  return strategy == unit_strategy::one_rank ? 1 : units.groups();
}

/// Places every sample on the rank that gathers it: the first of the receivers' group to which the
/// sample goes. Receivers do this, since senders are to leave once they have sent.
///
/// In, out     where is overwritten; its memory is used again in the next step.
/// Expects     samples of `to` on the receivers; brokers >= 1 divides their number.
/// Complexity  O(samples + ranks); no allocation after a step as large.
inline void place_on_brokers(placement& where, workspace& memory, placement const& to,
                             std::span<rank_id const> receivers, std::size_t brokers)
{
  BALLAST_EXPECTS(brokers >= 1 && receivers.size() % brokers == 0, "a unit of ",
                  detail::counted(receivers.size(), "rank"), " does not consist of ",
                  detail::counted(brokers, "equal group"));
  auto scratch = memory.open();
  auto const broker_of = scratch.take<rank_id>(to.ranks());
  auto const nobody = to_id<rank_id>(to.ranks());
  std::fill(broker_of.begin(), broker_of.end(), nobody);
  std::size_t const per_group = receivers.size() / brokers;
  for (std::size_t place = 0; place < receivers.size(); ++place) {
    broker_of[to_index(receivers[place])] = receivers[place - place % per_group];
  }
  auto const lengths = scratch.take<tokens>(to.size());
  auto const owner = scratch.take<rank_id>(to.size());
  for (std::size_t sample = 0; sample < to.size(); ++sample) {
    auto const pieces = to[to_id<sample_id>(sample)];
    lengths[sample] = to.length(to_id<sample_id>(sample));
    owner[sample] = pieces.empty() ? receivers.front() : broker_of[to_index(pieces.front().rank)];
    BALLAST_EXPECTS(owner[sample] != nobody, "sample ", sample, " goes to rank ",
                    pieces.front().rank, ", which is not among the receivers");
  }
  place_into(where, lengths, owner, to.ranks());
}

/// What one rank sends, receives and keeps when samples go from one unit to another.
///
/// Directly, `gather` is the whole route and `scatter` is empty. Used backwards, it is the exact
/// inverse, through the same ranks.
struct unit_plan {
  unit_strategy strategy = unit_strategy::direct;
  route_plan gather;             ///< from where samples are to where they are gathered
  route_plan scatter;            ///< from there to where they are wanted
  placement gathered;            ///< where they are in between
  std::vector<rank_id> members;  ///< of both units, in increasing order, each once

  [[nodiscard]] bool is_direct() const noexcept { return strategy == unit_strategy::direct; }

  [[nodiscard]] rank_id rank() const noexcept { return gather.rank; }
  [[nodiscard]] std::size_t ranks() const noexcept { return gather.ranks(); }

  /// Rows of this rank's arrays before the exchange, and after it.
  [[nodiscard]] tokens rows_before() const noexcept { return gather.rows_before; }
  [[nodiscard]] tokens rows_after() const noexcept
  {
    return is_direct() ? gather.rows_after : scatter.rows_after;
  }
};

/// Plans one rank's part of an exchange between units.
///
/// In, out     plan is overwritten; its memory is used again in the next step.
/// Expects     placements of the same samples over the same ranks, the second on units.receivers;
///             the first may be any.
/// Ensures     samples come to each receiver in the order of the second placement, whatever the
///             strategy
/// Complexity  O(samples + pieces of both + ranks); no allocation after a step as large.
/// Source      brokers: Z. Zhang et al., "DistTrain", SIGCOMM 2025; through one rank: "DFLOP", the
///             inter-model communicator.
inline void plan_units_into(unit_plan& plan, workspace& memory, placement const& from,
                            placement const& to, unit_pair units, unit_strategy strategy,
                            rank_id rank)
{
  plan.strategy = strategy;
  auto& members = plan.members;
  members.assign(units.senders.begin(), units.senders.end());
  members.insert(members.end(), units.receivers.begin(), units.receivers.end());
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  if (plan.is_direct()) { return plan_route_into(plan.gather, from, to, rank); }
  place_on_brokers(plan.gathered, memory, to, units.receivers, brokers_of(units, strategy));
  plan_route_into(plan.gather, from, plan.gathered, rank);
  plan_route_into(plan.scatter, plan.gathered, to, rank);
}

/// The same, but returns a new plan.
[[nodiscard]] inline unit_plan plan_units(placement const& from, placement const& to,
                                          unit_pair units, unit_strategy strategy, rank_id rank)
{
  unit_plan plan;
  workspace memory;
  plan_units_into(plan, memory, from, to, units, strategy, rank);
  return plan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_UNIT_PLAN_HPP
