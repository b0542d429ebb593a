// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/route_volume.hpp>

namespace ballast::inline v0 {

/// Which way samples take from one unit to another.
enum class unit_strategy : std::uint8_t {
  direct,    ///< from where they are to where they are wanted, in one exchange
  one_rank,  ///< one rank gathers all of them and scatters them: DFLOP's inter-model communicator
  brokers,   ///< gcd(A, B) ranks gather from A / gcd senders and scatter to B / gcd receivers each
};

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

/// The ranks of two units that exchange samples: process_grid::data_ranks of the last stage of the
/// one and of the first stage of the other. A rank may be in both.
struct unit_pair {
  std::span<rank_id const> senders;    ///< A of them
  std::span<rank_id const> receivers;  ///< B of them

  /// gcd(A, B): into so many groups of ranks both units can be cut.
  [[nodiscard]] std::size_t groups() const noexcept
  {
    return std::gcd(senders.size(), receivers.size());
  }

  /// How many of the receivers gather and scatter; 0 where samples go directly.
  [[nodiscard]] std::size_t brokers(unit_strategy strategy) const noexcept
  {
    if (strategy == unit_strategy::direct) { return 0; }
    return strategy == unit_strategy::one_rank ? 1 : groups();
  }
};

/// Places the samples of a batch on the ranks of a unit, in sample order: each rank has consecutive
/// samples, and rank after rank they are the whole batch.
///
/// The samples are cut into `groups` shares, as equal as possible, and each share over as many
/// ranks of the unit. With unit_pair::groups() for both units, the senders of a group have just the
/// samples of its receivers, whatever the number of samples.
///
/// In, out     where is overwritten; its memory is used again in the next step.
/// Expects     lengths from 0 to longest_sample; ranks of the unit below `ranks`, a multiple of
///             `groups` of them, at least one.
/// Complexity  O(samples + ranks); no allocation after a step as large.
inline void assign_unit(placement& where, workspace& memory, std::span<tokens const> lengths,
                        std::span<rank_id const> unit, std::size_t groups, std::size_t ranks)
{
  BALLAST_EXPECTS(!unit.empty() && groups >= 1 && unit.size() % groups == 0, "a unit of ",
                  detail::counted(unit.size(), "rank"), " does not consist of ",
                  detail::counted(groups, "equal group"));
  auto scratch = memory.open();
  auto const owner = scratch.take<rank_id>(lengths.size());
  auto const per_group = static_cast<std::uint32_t>(unit.size() / groups);
  for (std::uint32_t group = 0; group < groups; ++group) {
    auto const of_group = chunk_of(static_cast<std::int64_t>(lengths.size()),
                                   static_cast<std::uint32_t>(groups), group);
    for (std::uint32_t place = 0; place < per_group; ++place) {
      auto const share = chunk_of(of_group.count, per_group, place);
      auto const first = static_cast<std::size_t>(of_group.first + share.first);
      auto const own = owner.subspan(first, static_cast<std::size_t>(share.count));
      std::fill(own.begin(), own.end(), unit[std::size_t{group} * per_group + place]);
    }
  }
  place(where, lengths, owner, ranks);
}

namespace detail {

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
  for (std::size_t at = 0; at < receivers.size(); ++at) {
    broker_of[to_index(receivers[at])] = receivers[at - at % per_group];
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
  place(where, lengths, owner, to.ranks());
}

}  // namespace detail

/// What one rank sends, receives and keeps when samples go from one unit to another.
///
/// Directly, `gather` is the whole route and `scatter` is empty. Used backwards, it is the exact
/// inverse, through the same ranks.
struct unit_plan {
  /// Every strategy, for loops over all of them.
  static constexpr std::array strategies = {unit_strategy::direct, unit_strategy::one_rank,
                                            unit_strategy::brokers};

  /// The cost of an exchange between units, in a few figures; forward and backward cost the same.
  ///
  /// Units       bytes are whole numbers while they are below 2^53.
  struct cost {
    double messages = 0;             ///< of all ranks
    double messages_max = 0;         ///< sent or received by one rank
    double bytes = 0;                ///< that all ranks send
    double bytes_max = 0;            ///< sent or received by one rank
    double within_node_bytes = 0;    ///< that all ranks send inside nodes
    double between_nodes_bytes = 0;  ///< that all ranks send to other nodes
    double memory_bytes = 0;         ///< of messages and of what is gathered, on the rank with most
    double seconds = 0;              ///< predicted

    friend bool operator==(cost const&, cost const&) = default;
  };

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
inline void plan_units(unit_plan& plan, workspace& memory, placement const& from,
                       placement const& to, unit_pair units, unit_strategy strategy, rank_id rank)
{
  plan.strategy = strategy;
  auto& members = plan.members;
  members.assign(units.senders.begin(), units.senders.end());
  members.insert(members.end(), units.receivers.begin(), units.receivers.end());
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  if (plan.is_direct()) { return plan_route(plan.gather, from, to, rank); }
  detail::place_on_brokers(plan.gathered, memory, to, units.receivers, units.brokers(strategy));
  plan_route(plan.gather, from, plan.gathered, rank);
  plan_route(plan.scatter, plan.gathered, to, rank);
}

/// The same, but returns a new plan.
[[nodiscard]] inline unit_plan plan_units(placement const& from, placement const& to,
                                          unit_pair units, unit_strategy strategy, rank_id rank)
{
  unit_plan plan;
  workspace memory;
  plan_units(plan, memory, from, to, units, strategy, rank);
  return plan;
}

/// Predicts the cost of an exchange between units, to compare strategies.
///
/// Through brokers there are two exchanges, one after the other: the time is the sum of what
/// route_volume::price() predicts for each, and so has its assumptions. A rank's messages and bytes are
/// those of both.
///
/// Units       bytes_per_token: of all arrays together.
/// Expects     what plan_units() expects; ranks are the GPUs of `machines`.
/// Complexity  O(samples + pieces of both + ranks).
[[nodiscard]] inline unit_plan::cost price_units(placement const& from, placement const& to,
                                                 unit_pair units, unit_strategy strategy,
                                                 cluster const& machines, double bytes_per_token)
{
  unit_plan::cost cost;
  workspace memory;
  placement gathered;
  std::array<route_volume, 2> volumes;
  if (strategy == unit_strategy::direct) {
    measure_route(volumes[0], memory, from, to, machines);
    volumes[1].ranks.resize(from.ranks());
  } else {
    detail::place_on_brokers(gathered, memory, to, units.receivers, units.brokers(strategy));
    measure_route(volumes[0], memory, from, gathered, machines);
    measure_route(volumes[1], memory, gathered, to, machines);
  }
  for (route_volume const& volume : volumes) {
    auto const part = volume.price(machines, bytes_per_token);
    cost.within_node_bytes += part.within_node_bytes;
    cost.between_nodes_bytes += part.between_nodes_bytes;
    cost.seconds += part.seconds;
  }
  cost.bytes = cost.within_node_bytes + cost.between_nodes_bytes;
  for (std::size_t rank = 0; rank < from.ranks(); ++rank) {
    auto const& [sent, received, kept] = volumes[0].ranks[rank];
    auto const& [sent_on, received_on, kept_on] = volumes[1].ranks[rank];
    cost.messages += sent.messages + sent_on.messages;
    auto const bytes = [&](tokens count) { return static_cast<double>(count) * bytes_per_token; };
    cost.messages_max =
        std::max({cost.messages_max, static_cast<double>(sent.messages + sent_on.messages),
                  static_cast<double>(received.messages + received_on.messages)});
    cost.bytes_max = std::max({cost.bytes_max, bytes(sent.all() + sent_on.all()),
                               bytes(received.all() + received_on.all())});
    tokens const middle =
        strategy == unit_strategy::direct ? 0 : gathered.rows(to_id<rank_id>(rank));
    cost.memory_bytes =
        std::max(cost.memory_bytes,
                 bytes(sent.all() + sent_on.all() + received.all() + received_on.all() + middle));
  }
  return cost;
}

}  // namespace ballast::inline v0
