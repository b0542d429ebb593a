// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/route_plan.hpp>

namespace ballast::inline v0 {

/// What a route moves, rank by rank.
///
/// Ensures     (1) all ranks together receive as many tokens and messages as they send
///             (2) sent + kept are the rank's tokens before, received + kept its tokens after
///             (3) the reverse route has the same figures with sent and received swapped
struct route_volume {
  /// What one rank sends in an exchange, or what it receives in it.
  struct traffic {
    tokens within_node = 0;
    tokens between_nodes = 0;
    std::uint32_t messages = 0;  ///< peers to which the tokens go, or from which they come

    [[nodiscard]] constexpr tokens all() const noexcept { return within_node + between_nodes; }

    friend constexpr bool operator==(traffic const&, traffic const&) = default;
  };

  /// What one rank sends, receives and keeps.
  struct rank_volume {
    traffic sent = {};
    traffic received = {};
    tokens kept = 0;  ///< tokens that stay on the rank, and enter no message

    friend constexpr bool operator==(rank_volume const&, rank_volume const&) = default;
  };

  /// The cost of one exchange, in a few figures. A route and its reverse cost the same.
  ///
  /// Units       bytes are whole numbers while they are below 2^53.
  struct cost {
    double kept_share = 0;         ///< share of the tokens that enter no message; 1 without tokens
    double messages_mean = 0;      ///< that a rank sends; it receives as many on average
    double messages_max = 0;       ///< sent or received by one rank
    double bytes_mean = 0;         ///< that a rank sends; it receives as many on average
    double bytes_max = 0;          ///< sent or received by one rank
    double within_node_bytes = 0;  ///< that all ranks together send inside nodes
    double between_nodes_bytes = 0;  ///< that all ranks together send to other nodes
    double memory_bytes = 0;         ///< of the messages of the rank with most
    double seconds = 0;              ///< predicted

    friend bool operator==(cost const&, cost const&) = default;
  };

  std::vector<rank_volume> ranks;

  /// Tokens that change their rank.
  [[nodiscard]] tokens moved() const noexcept
  {
    tokens all = 0;
    for (rank_volume const& each : ranks) { all += each.sent.all(); }
    return all;
  }

  /// Tokens that stay where they are.
  [[nodiscard]] tokens kept() const noexcept
  {
    tokens all = 0;
    for (rank_volume const& each : ranks) { all += each.kept; }
    return all;
  }

  /// Predicts the cost of a route on a cluster.
  ///
  /// The predicted time is one latency plus the longest time, over all ranks, both directions and
  /// both kinds of link, of bytes / bandwidth; 0 if nothing moves. It assumes that a rank sends and
  /// receives at the same time, that the links inside a node and those between nodes work at the
  /// same time, that all messages are in flight together, and that the network has full bisection
  /// bandwidth. It does not include packing, unpacking and copies of rows that stay.
  ///
  /// Units       bytes_per_token: of all arrays of the exchange together. The padding of at most 15
  ///             bytes for each array's part of a message is not counted.
  /// Expects     bandwidths above 0; bytes_per_token >= 0.
  /// Complexity  O(ranks).
  [[nodiscard]] cost price(cluster const& machines, double bytes_per_token) const
  {
    BALLAST_EXPECTS(ranks.size() == machines.gpus(), "the route is over ",
                    detail::counted(ranks.size(), "rank"), ", and the cluster has ",
                    detail::counted(machines.gpus(), "GPU"));
    BALLAST_EXPECTS(bytes_per_token >= 0, "a token has ", bytes_per_token,
                    " bytes, and the least is 0");
    auto const bytes = [&](tokens count) { return static_cast<double>(count) * bytes_per_token; };
    cost all;
    for (auto const& [sent, received, staying] : ranks) {
      all.messages_mean += sent.messages;
      all.within_node_bytes += bytes(sent.within_node);
      all.between_nodes_bytes += bytes(sent.between_nodes);
      all.memory_bytes = std::max(all.memory_bytes, bytes(sent.all() + received.all()));
      for (traffic const& side : {sent, received}) {
        all.messages_max = std::max(all.messages_max, static_cast<double>(side.messages));
        all.bytes_max = std::max(all.bytes_max, bytes(side.all()));
        all.seconds = std::max(all.seconds, transfer_seconds(machines, bytes(side.within_node),
                                                             bytes(side.between_nodes)));
      }
    }
    auto const count = static_cast<double>(ranks.size());
    tokens const in_messages = moved();
    tokens const staying = kept();
    all.messages_mean /= count;
    all.bytes_mean = bytes(in_messages) / count;
    all.kept_share = in_messages == 0 ? 1.0
                                      : static_cast<double>(staying) /
                                            static_cast<double>(in_messages + staying);
    if (in_messages > 0) { all.seconds += machines.latency_seconds; }
    return all;
  }

  friend bool operator==(route_volume const&, route_volume const&) = default;
};

/// Measures what the route from one placement to another moves.
///
/// The difference of volumes says what composing two routes saves. An encoder's output that goes
/// from where it was encoded, E, to where the language model needs it, M, need not go through where
/// it was read, R:
///
///     auto const moved = [&](auto& a, auto& b) { return measure_route(a, b, machines).moved(); };
///     tokens const saved = moved(E, R) + moved(R, M) - moved(E, M);  // never negative
///
/// In, out     volume is overwritten; its memory is used again in the next step.
/// Expects     placements of the same samples over the GPUs of `machines`.
/// Complexity  O(samples + pieces of both + ranks); no allocation after a step as large.
/// Source      the composition is that of B. Xiao, Y. Zheng et al., "OrchMLLM", arXiv 2503.23830.
inline void measure_route(route_volume& volume, workspace& memory, placement const& from,
                          placement const& to, cluster const& machines)
{
  BALLAST_EXPECTS(from.ranks() == machines.gpus(), "the placements are over ",
                  detail::counted(from.ranks(), "rank"), ", and the cluster has ",
                  detail::counted(machines.gpus(), "GPU"));
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct transfer {
    std::size_t to;
    std::size_t next;  // of the same sender
  };
  auto scratch = memory.open();
  // A sample in a and in b pieces overlaps in at most a + b - 1.
  auto const transfers = scratch.take<transfer>(from.pieces().size() + to.pieces().size());
  auto const first = scratch.take<std::size_t>(from.ranks());  // transfer of each sender
  std::fill(first.begin(), first.end(), none);
  std::size_t found = 0;

  volume.ranks.assign(from.ranks(), {});
  detail::for_each_overlap(from, to, [&](detail::token_overlap const& part) {
    auto& sender = volume.ranks[to_index(part.from)];
    auto& receiver = volume.ranks[to_index(part.to)];
    if (part.from == part.to) {
      sender.kept += part.count;
      return;
    }
    bool const near = machines.node_of(part.from) == machines.node_of(part.to);
    auto const link =
        near ? &route_volume::traffic::within_node : &route_volume::traffic::between_nodes;
    sender.sent.*link += part.count;
    receiver.received.*link += part.count;
    transfers[found] = {to_index(part.to), first[to_index(part.from)]};
    first[to_index(part.from)] = found++;
  });

  auto const last_sender = scratch.take<std::size_t>(from.ranks());  // that each receiver met
  std::fill(last_sender.begin(), last_sender.end(), none);
  for (std::size_t rank = 0; rank < from.ranks(); ++rank) {
    for (std::size_t at = first[rank]; at != none; at = transfers[at].next) {
      std::size_t const peer = transfers[at].to;
      if (last_sender[peer] == rank) { continue; }
      last_sender[peer] = rank;
      ++volume.ranks[rank].sent.messages;
      ++volume.ranks[peer].received.messages;
    }
  }
}

/// The same, but returns a new volume.
[[nodiscard]] inline route_volume measure_route(placement const& from, placement const& to,
                                                cluster const& machines)
{
  route_volume volume;
  workspace memory;
  measure_route(volume, memory, from, to, machines);
  return volume;
}

}  // namespace ballast::inline v0
