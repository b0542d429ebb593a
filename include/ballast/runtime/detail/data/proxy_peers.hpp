// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_PROXY_PEERS_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_PROXY_PEERS_HPP

#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/runtime/detail/data/data_post.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// What the proxy's rank knows of a loader.
template <point_to_point Communicator>
struct loader_peer : data_post<Communicator> {
  loader_peer(Communicator& comm, std::size_t own)
      : data_post<Communicator>(comm, own), rank(static_cast<std::uint32_t>(own))
  {}

  std::uint32_t rank;
  bool ended = false;     // it is lost, or has said goodbye
  std::size_t loads = 0;  // samples that it was dealt, and has not told of
  std::chrono::steady_clock::time_point heard = {};  // or since something is expected of it
};

/// What it knows of a trainer.
template <point_to_point Communicator>
struct trainer_peer : data_post<Communicator> {
  using data_post<Communicator>::data_post;

  bool finishes = false;
  bool ended = false;
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
