// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_REPLICA_FLOW_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_REPLICA_FLOW_HPP

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ballast::inline v0::detail {

/// A flow from experts over their replicas to GPUs of one capacity.
///
/// Complexity  run: O(sqrt(experts + gpus) replicas) rounds in practice; each takes O(replicas).
/// Source      E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
///             estimation", Soviet Math. Doklady 11, 1970.
class replica_flow {
 public:
  replica_flow(std::size_t experts, std::size_t gpus)
      : experts_(experts), edges_of_(experts + gpus), room_(experts + gpus, 0)
  {}

  /// Adds a replica; numbered 0, 1, 2, ...
  void add(std::size_t expert, std::size_t gpu)
  {
    edges_of_[expert].push_back(2 * flow_.size());
    edges_of_[experts_ + gpu].push_back(2 * flow_.size() + 1);
    ends_.push_back(experts_ + gpu);
    ends_.push_back(expert);
    flow_.push_back(0);
  }

  [[nodiscard]] std::int64_t flow(std::size_t replica) const { return flow_[replica]; }

  /// The largest flow, where expert e brings supply_of(e) and a GPU takes `capacity`. Returns whether
  /// all that experts bring flows.
  template <class SupplyOf>
  [[nodiscard]] bool run(SupplyOf const& supply_of, std::int64_t capacity)
  {
    std::fill(flow_.begin(), flow_.end(), 0);
    for (std::size_t node = 0; node < room_.size(); ++node) {
      room_[node] = node < experts_ ? supply_of(node) : capacity;
    }
    while (set_levels()) {
      next_.assign(room_.size(), 0);
      for (std::size_t expert = 0; expert < experts_; ++expert) {
        while (room_[expert] > 0) {
          std::int64_t const sent = send(expert, room_[expert]);
          if (sent == 0) { break; }
          room_[expert] -= sent;
        }
      }
    }
    return std::all_of(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(experts_),
                       [](std::int64_t left) { return left == 0; });
  }

  /// After a run that left some: whether the expert is one of those that together have too much for
  /// all GPUs with a replica of theirs.
  [[nodiscard]] bool is_crowded(std::size_t expert) const { return level_[expert] != unset; }
  [[nodiscard]] bool is_crowded_gpu(std::size_t gpu) const
  {
    return level_[experts_ + gpu] != unset;
  }

 private:
  static constexpr std::size_t unset = static_cast<std::size_t>(-1);

  [[nodiscard]] std::int64_t residual(std::size_t edge) const
  {
    return edge % 2 == 0 ? std::numeric_limits<std::int64_t>::max() : flow_[edge / 2];
  }

  /// Numbers nodes by their distance from experts with something left. Returns whether one is a GPU
  /// with room.
  [[nodiscard]] bool set_levels()
  {
    level_.assign(room_.size(), unset);
    queue_.clear();
    for (std::size_t expert = 0; expert < experts_; ++expert) {
      if (room_[expert] > 0) {
        level_[expert] = 0;
        queue_.push_back(expert);
      }
    }
    bool found = false;
    for (std::size_t at = 0; at < queue_.size(); ++at) {
      std::size_t const node = queue_[at];
      found = found || (node >= experts_ && room_[node] > 0);
      for (std::size_t const edge : edges_of_[node]) {
        std::size_t const end = ends_[edge];
        if (residual(edge) == 0 || level_[end] != unset) { continue; }
        level_[end] = level_[node] + 1;
        queue_.push_back(end);
      }
    }
    return found;
  }

  std::int64_t send(std::size_t node, std::int64_t most)
  {
    if (node >= experts_ && room_[node] > 0) {
      std::int64_t const sent = std::min(most, room_[node]);
      room_[node] -= sent;
      return sent;
    }
    for (std::size_t& at = next_[node]; at < edges_of_[node].size(); ++at) {
      std::size_t const edge = edges_of_[node][at];
      std::size_t const end = ends_[edge];
      if (residual(edge) == 0 || level_[end] != level_[node] + 1) { continue; }
      std::int64_t const sent = send(end, std::min(most, residual(edge)));
      if (sent == 0) { continue; }
      flow_[edge / 2] += edge % 2 == 0 ? sent : -sent;
      return sent;
    }
    return 0;
  }

  std::size_t experts_;
  std::vector<std::vector<std::size_t>> edges_of_;  ///< of experts, then of GPUs
  std::vector<std::size_t> ends_;                   ///< of each edge: there and back
  std::vector<std::int64_t> flow_;
  std::vector<std::int64_t> room_;  ///< what an expert still has, or a GPU still takes
  std::vector<std::size_t> level_;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> queue_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_REPLICA_FLOW_HPP
