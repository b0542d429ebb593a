// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/report/chrome_trace.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/topology/device_groups.hpp>

#include <chrono>
#include <tuple>

namespace timelines {

/// When a rank began or ended a phase of a pack, in nanoseconds of a clock that all ranks share.
struct sharded_moment {
  ballast::sharded_packs::event event;
  std::int64_t nanoseconds = 0;
};

/// Records a rank's events by the steady clock: give it to sharded_exchange as its last argument.
/// One clock serves all ranks that are threads, or processes of one machine.
struct sharded_recorder {
  std::vector<sharded_moment>& moments;

  void operator()(ballast::sharded_packs::event event) const
  {
    auto const now = std::chrono::steady_clock::now().time_since_epoch();
    moments.push_back({event, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()});
  }
};

/// How long exchanges took, summed over ranks, and how much of that their ranks computed.
struct exchange_overlap {
  std::int64_t nanoseconds = 0;
  std::int64_t under_compute = 0;
  std::size_t exchanges = 0;
  std::size_t in_time = 0;  ///< those whose messages had all come when the rank wanted them

  /// The part of 1 that lay under computation; 0 where there was no exchange.
  [[nodiscard]] double share() const noexcept
  {
    return nanoseconds > 0 ? static_cast<double>(under_compute) / static_cast<double>(nanoseconds)
                           : 0.0;
  }
  [[nodiscard]] double share_in_time() const noexcept
  {
    return exchanges > 0 ? static_cast<double>(in_time) / static_cast<double>(exchanges) : 0.0;
  }
};

/// One exchange of one rank, from its first packed byte to the arrival of all its messages.
struct recorded_exchange {
  ballast::group_id group{};
  bool to_tokens = false;
  std::size_t call = 0;  ///< of the group's exchanges in this direction
  std::size_t rank = 0;
  std::int64_t begin = 0;
  std::int64_t sent = 0;     ///< when the rank went on to something else
  std::int64_t awaited = 0;  ///< when the rank came back to it
  std::int64_t end = 0;      ///< first when its results were unpacked, then when they had arrived
};

/// The exchanges of all ranks, those of a group's call together, then rank by rank.
[[nodiscard]] inline std::vector<recorded_exchange> recorded_exchanges(
    std::span<std::vector<sharded_moment> const> ranks)
{
  using enum ballast::sharded_packs::phase;
  std::vector<recorded_exchange> all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::size_t const first = all.size();
    for (auto const& [event, now] : ranks[rank]) {
      if (event.phase == compute) { continue; }
      bool const to_tokens = event.phase == begin_to_tokens || event.phase == end_to_tokens;
      bool const begins = event.phase == begin_to_heads || event.phase == begin_to_tokens;
      std::size_t calls = 0;
      std::size_t latest = 0;
      for (std::size_t at = first; at < all.size(); ++at) {
        if (all[at].group != event.group || all[at].to_tokens != to_tokens) { continue; }
        ++calls;
        latest = at;
      }
      if (begins && !event.is_over) {
        all.push_back({event.group, to_tokens, calls, rank, now, 0, 0, 0});
        continue;
      }
      recorded_exchange& of_event = all[latest];
      (begins ? of_event.sent : event.is_over ? of_event.end : of_event.awaited) = now;
    }
  }
  std::sort(all.begin(), all.end(), [](recorded_exchange const& a, recorded_exchange const& b) {
    return std::tie(a.group, a.to_tokens, a.call, a.rank) <
           std::tie(b.group, b.to_tokens, b.call, b.rank);
  });
  std::size_t end = 0;
  for (std::size_t first = 0; first < all.size(); first = end) {
    std::int64_t all_sent = 0;
    for (end = first;
         end < all.size() && all[end].group == all[first].group &&
         all[end].to_tokens == all[first].to_tokens && all[end].call == all[first].call;
         ++end) {
      all_sent = std::max(all_sent, all[end].sent);
    }
    // What had been sent before the rank came back to it had arrived by then, unnoticed.
    for (std::size_t at = first; at < end; ++at) {
      if (all[at].awaited >= all_sent) { all[at].end = std::max(all_sent, all[at].sent); }
    }
  }
  return all;
}

/// When a rank began and ended to compute, in turn.
[[nodiscard]] inline std::vector<std::int64_t> computing_times(
    std::vector<sharded_moment> const& moments)
{
  std::vector<std::int64_t> times;
  for (auto const& [event, now] : moments) {
    if (event.phase == ballast::sharded_packs::phase::compute) { times.push_back(now); }
  }
  return times;
}

/// Returns how much of their exchanges' time the ranks of some layers spent in computation.
///
/// An exchange lasts, on each rank, from the moment it begins to pack until its messages have
/// arrived: until the last GPU of the group has sent, if the rank came back to it later, else until
/// the rank has waited and unpacked. So what arrived long before a rank looked does not count as
/// hidden.
///
/// Shapes      moments of every rank.
/// Expects     all that forward() and backward() told of complete calls.
/// Ensures     (1) under_compute <= nanoseconds
/// Complexity  O(e^2) for e events of a rank.
[[nodiscard]] inline exchange_overlap overlap_of(std::span<std::vector<sharded_moment> const> ranks)
{
  exchange_overlap all;
  std::vector<std::vector<std::int64_t>> computing;
  for (auto const& moments : ranks) { computing.push_back(computing_times(moments)); }
  for (auto const& exchange : recorded_exchanges(ranks)) {
    all.nanoseconds += exchange.end - exchange.begin;
    ++all.exchanges;
    all.in_time += exchange.end <= exchange.awaited ? 1U : 0U;
    std::vector<std::int64_t> const& times = computing[exchange.rank];
    for (std::size_t at = 0; at + 1 < times.size(); at += 2) {
      std::int64_t const begin = std::max(times[at], exchange.begin);
      std::int64_t const end = std::min(times[at + 1], exchange.end);
      all.under_compute += std::max<std::int64_t>(0, end - begin);
    }
  }
  return all;
}

/// Returns the timeline of some layers: a process for each rank, whose first track is what the rank
/// does, and whose other tracks are the exchanges that are under way.
///
/// Shapes, Expects and exchanges as for overlap_of.
/// Units       nanoseconds from the first moment.
/// Ensures     (1) an event for every phase, and one for every exchange, from begin to arrival
///             (2) exchanges that are under way at once are on different tracks
[[nodiscard]] inline ballast::report::chrome_trace sharded_timeline(
    std::span<std::vector<sharded_moment> const> ranks, ballast::device_groups const& all)
{
  static constexpr std::array phases{"begins to heads", "ends to heads", "computes",
                                     "begins to tokens", "ends to tokens"};
  auto const of_group = [&](ballast::group_id id) {
    ballast::device_group const group = all[id];
    std::size_t const first = ballast::to_index(group.first);
    return group.gpus == 1 ? std::string("of its own")
                           : "of GPUs " + std::to_string(first) + " to " +
                                 std::to_string(first + group.gpus - 1);
  };
  bool any = false;
  std::int64_t start = 0;
  for (auto const& moments : ranks) {
    if (moments.empty()) { continue; }
    start = any ? std::min(start, moments.front().nanoseconds) : moments.front().nanoseconds;
    any = true;
  }
  ballast::report::chrome_trace trace;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    auto const process = static_cast<std::uint32_t>(rank);
    trace.name_process(process, "rank " + std::to_string(rank));
    trace.name_track({process, 0}, "work");
    for (std::size_t at = 0; at + 1 < ranks[rank].size(); at += 2) {  // phases do not overlap
      auto const& [event, begin] = ranks[rank][at];
      std::string const name =
          phases[static_cast<std::size_t>(event.phase)] + std::string(" ") + of_group(event.group);
      trace.add(
          {{process, 0}, name, "work", begin - start, ranks[rank][at + 1].nanoseconds - begin});
    }
  }
  auto exchanges = recorded_exchanges(ranks);
  std::sort(exchanges.begin(), exchanges.end(),
            [](recorded_exchange const& a, recorded_exchange const& b) {
              return std::tie(a.rank, a.begin, a.group) < std::tie(b.rank, b.begin, b.group);
            });
  std::vector<std::vector<std::int64_t>> busy_until(ranks.size());  // of each track
  for (recorded_exchange const& exchange : exchanges) {
    std::vector<std::int64_t>& tracks = busy_until[exchange.rank];
    std::size_t idle = 0;
    while (idle < tracks.size() && tracks[idle] > exchange.begin) { ++idle; }
    auto const process = static_cast<std::uint32_t>(exchange.rank);
    auto const track = static_cast<std::uint32_t>(idle);
    if (idle == tracks.size()) {
      tracks.push_back(exchange.end);
      trace.name_track({process, track + 1}, "exchanges");
    } else {
      tracks[idle] = exchange.end;
    }
    std::string const name =
        (exchange.to_tokens ? "to tokens " : "to heads ") + of_group(exchange.group);
    trace.add({{process, track + 1},
               name,
               "exchange",
               exchange.begin - start,
               exchange.end - exchange.begin});
  }
  return trace;
}

}  // namespace timelines
