// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_PROXY_PEERS_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_PROXY_PEERS_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/detail/data/data_message.hpp>
#include <ballast/runtime/detail/data/data_post.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What the proxy's rank knows of a loader.
template <point_to_point Communicator>
struct loader_peer : data_post<Communicator> {
  loader_peer(Communicator& comm, std::size_t own)
      : data_post<Communicator>(comm, own), rank(static_cast<std::uint32_t>(own))
  {}

  std::uint32_t rank;
  bool ended = false;                 // it is lost, or has said goodbye
  bool lost = false;                  // it may take nothing any more
  std::size_t loads = 0;              // samples that it was dealt, and has not told of
  wait_clock::time_point heard = {};  // or since something is expected of it
};

/// What it knows of a trainer.
template <point_to_point Communicator>
struct trainer_peer : data_post<Communicator> {
  trainer_peer(Communicator& comm, std::size_t own)
      : data_post<Communicator>(comm, own), rank(static_cast<std::uint32_t>(own))
  {}

  std::uint32_t rank;
  bool lost = false;
  bool finishes = false;
  bool ended = false;
};

/// All of them, and what the proxy says to them whatever it is busy with.
template <point_to_point Communicator>
struct proxy_peers {
  using clock = wait_clock;

  proxy_peers(Communicator& comm, std::size_t first_loader) : longest(longest_silence(comm))
  {
    for (std::size_t rank = 0; rank + 1 < first_loader; ++rank) {
      trainers.emplace_back(comm, rank);
    }
    for (std::size_t rank = first_loader; rank < comm.size(); ++rank) {
      loaders.emplace_back(comm, rank);
    }
  }

  [[nodiscard]] loader_peer<Communicator>& loader_at(std::size_t rank)
  {
    return loaders[rank - trainers.size() - 1];
  }
  [[nodiscard]] bool trainers_ended() const { return all_ended(trainers); }
  [[nodiscard]] bool loaders_ended() const { return all_ended(loaders); }

  void tell_trainers(data_message const& message)
  {
    for (auto& each : trainers) { each.send(message); }
  }

  /// Says to all that the proxy is there. What it was away for itself, no peer is blamed for.
  void keep_alive(bool loaders_too)
  {
    auto const now = clock::now();
    auto const away = now - std::exchange(looked, now);
    auto const keep = [&](auto& each, bool alive) {
      if (away > longest / 8) { each.excuse(away); }
      if (!each.ended && alive) { each.keep_alive(); }
    };
    for (auto& each : trainers) { keep(each, true); }
    for (auto& each : loaders) { keep(each, loaders_too); }
  }

  /// A rank says what its part is.
  void meet(auto const& peer, bool loads, bool is_to_load)
  {
    if (loads == is_to_load) { return; }
    part({error_code::mismatch,
          0,
          concat("rank ", peer.rank, " calls ", loads ? "serve_as_loader" : "data_trainer",
                 ", and the proxy was told of ", counted(trainers.size(), "trainer"),
                 "; give every rank the same number of trainers"),
          {to_id<rank_id>(peer.rank)}});
  }

  /// Parts where trainers are missing: the others cannot go on without them.
  void find_missing()
  {
    std::vector<rank_id> missing;
    for (auto& each : trainers) {
      if (each.ended || !each.is_silent()) { continue; }
      each.lost = true;
      missing.push_back(to_id<rank_id>(each.rank));
    }
    if (missing.empty()) { return; }
    char const* const who = missing.size() == 1 ? "a trainer" : "trainers";
    part(were_silent(who, std::move(missing), longest).value());
  }

  /// Tells all that are left why it ends, and waits for no answer.
  void part(error reason)
  {
    if (std::exchange(parted, true)) { return; }
    if (outcome) { outcome = tl::unexpected(std::move(reason)); }
    auto const tell = [last = write_stop(outcome.error(), true)](auto& each) {
      if (!each.ended) { each.send(last); }
    };
    std::for_each(trainers.begin(), trainers.end(), tell);
    std::for_each(loaders.begin(), loaders.end(), tell);
  }

  /// Waits until all that was said has left, but not long: a rank that is gone takes nothing.
  void flush()
  {
    idle_pause pause;
    auto const left = [](auto& each) { return each.lost || each.flush().value_or(true); };
    for (auto const end = clock::now() + time_to_leave(longest); clock::now() < end; pause.rest()) {
      if (std::all_of(trainers.begin(), trainers.end(), left) &&
          std::all_of(loaders.begin(), loaders.end(), left)) {
        return;
      }
    }
  }

  std::deque<trainer_peer<Communicator>> trainers;
  std::deque<loader_peer<Communicator>> loaders;
  std::chrono::milliseconds longest;
  clock::time_point looked = clock::now();
  result<void> outcome;
  bool parted = false;

 private:
  [[nodiscard]] static bool all_ended(auto const& peers)
  {
    return std::all_of(peers.begin(), peers.end(), [](auto const& each) { return each.ended; });
  }
};

/// A step that trainers have been told of, and that not all have.
struct announced_step {
  std::uint64_t number = 0;
  std::vector<std::uint64_t> tickets;
  std::vector<rank_id> owner;
  std::size_t takers = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_PROXY_PEERS_HPP
