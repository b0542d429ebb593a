// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_REPLICA_SLOTS_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_REPLICA_SLOTS_HPP

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Nodes of GPUs, and on how many of them the replicas of an expert may lie. No nodes: no limit.
struct replica_nodes {
  std::vector<std::size_t> of_gpu = {};
  std::size_t nodes = 0;
  std::size_t most = 0;
};

/// Slots of GPUs with the replicas in them: loads of GPUs where each expert's load is split evenly
/// over its replicas, rounded up.
///
/// Ensures     (1) no GPU has two replicas of one expert, if none was put where admits() is false
class replica_slots {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  replica_slots(std::vector<std::int64_t> expert_loads, std::span<std::uint32_t const> slots,
                replica_nodes const& nodes)
      : expert_loads_(std::move(expert_loads)),
        nodes_(nodes),
        first_(1, 0),
        share_(expert_loads_.size(), 0),
        gpus_of_(expert_loads_.size()),
        load_(slots.size(), 0),
        has_(expert_loads_.size() * slots.size(), 0),
        on_node_(expert_loads_.size() * nodes.nodes, 0),
        spread_(expert_loads_.size(), 0)
  {
    for (std::uint32_t const of_gpu : slots) {
      gpu_of_.insert(gpu_of_.end(), of_gpu, first_.size() - 1);
      first_.push_back(first_.back() + of_gpu);
    }
    at_.assign(first_.back(), none);
  }

  [[nodiscard]] std::size_t experts() const noexcept { return expert_loads_.size(); }
  [[nodiscard]] std::size_t gpus() const noexcept { return load_.size(); }
  [[nodiscard]] std::size_t slots() const noexcept { return at_.size(); }
  [[nodiscard]] std::size_t first_slot(std::size_t gpu) const { return first_[gpu]; }
  [[nodiscard]] std::size_t gpu_of(std::size_t slot) const { return gpu_of_[slot]; }
  [[nodiscard]] std::size_t expert_at(std::size_t slot) const { return at_[slot]; }
  [[nodiscard]] std::vector<std::size_t> const& all() const noexcept { return at_; }
  [[nodiscard]] std::int64_t load(std::size_t gpu) const { return load_[gpu]; }
  [[nodiscard]] std::size_t replicas(std::size_t expert) const { return gpus_of_[expert].size(); }
  [[nodiscard]] std::vector<std::size_t> const& gpus_of(std::size_t expert) const
  {
    return gpus_of_[expert];
  }
  [[nodiscard]] std::int64_t share(std::size_t expert) const { return share_[expert]; }
  [[nodiscard]] std::int64_t share_of(std::size_t expert, std::size_t replicas) const
  {
    auto const count = static_cast<std::int64_t>(replicas);
    return expert_loads_[expert] / count + (expert_loads_[expert] % count != 0 ? 1 : 0);
  }
  [[nodiscard]] bool has(std::size_t expert, std::size_t gpu) const
  {
    return has_[expert * gpus() + gpu] != 0;
  }

  /// Whether a replica of the expert may come to a GPU, also in exchange for its replica on the GPU
  /// `left`, if there is one.
  [[nodiscard]] bool admits(std::size_t expert, std::size_t gpu, std::size_t left = none) const
  {
    if (has(expert, gpu)) { return false; }
    if (nodes_.nodes == 0) { return true; }
    std::size_t const node = nodes_.of_gpu[gpu];
    if (on_node_[expert * nodes_.nodes + node] > 0) { return true; }
    bool const leaves_node =
        left != none && on_node_[expert * nodes_.nodes + nodes_.of_gpu[left]] == 1;
    return spread_[expert] - (leaves_node ? 1 : 0) < nodes_.most;
  }

  [[nodiscard]] std::size_t busiest() const
  {
    return static_cast<std::size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
  }

  /// Makes a replica in an empty slot.
  void add(std::size_t slot, std::size_t expert)
  {
    change_share(expert, replicas(expert) + 1);
    put(slot, expert);
  }

  /// Takes a replica away. It may be the last one.
  void remove(std::size_t slot)
  {
    std::size_t const expert = at_[slot];
    take(slot);
    change_share(expert, replicas(expert));
  }

  /// Exchanges what two slots have, of which one may be empty.
  void swap(std::size_t a, std::size_t b)
  {
    std::size_t const of_a = at_[a];
    std::size_t const of_b = at_[b];
    if (of_a != none) { take(a); }
    if (of_b != none) { take(b); }
    if (of_a != none) { put(b, of_a); }
    if (of_b != none) { put(a, of_b); }
  }

  /// Empties all slots, and fills them again.
  void assign(std::vector<std::size_t> const& experts)
  {
    for (std::size_t slot = 0; slot < slots(); ++slot) {
      if (at_[slot] != none) { take(slot); }
    }
    std::fill(load_.begin(), load_.end(), 0);
    std::vector<std::size_t> counts(share_.size(), 0);
    for (std::size_t const expert : experts) {
      if (expert != none) { ++counts[expert]; }
    }
    for (std::size_t expert = 0; expert < counts.size(); ++expert) {
      share_[expert] = counts[expert] == 0 ? 0 : share_of(expert, counts[expert]);
    }
    for (std::size_t slot = 0; slot < slots(); ++slot) {
      if (experts[slot] != none) { put(slot, experts[slot]); }
    }
  }

 private:
  void put(std::size_t slot, std::size_t expert)
  {
    std::size_t const gpu = gpu_of_[slot];
    at_[slot] = expert;
    has_[expert * gpus() + gpu] = 1;
    gpus_of_[expert].push_back(gpu);
    load_[gpu] += share_[expert];
    if (nodes_.nodes != 0 && on_node_[expert * nodes_.nodes + nodes_.of_gpu[gpu]]++ == 0) {
      ++spread_[expert];
    }
  }

  void take(std::size_t slot)
  {
    std::size_t const expert = at_[slot];
    std::size_t const gpu = gpu_of_[slot];
    at_[slot] = none;
    has_[expert * gpus() + gpu] = 0;
    auto& all_gpus = gpus_of_[expert];
    *std::find(all_gpus.begin(), all_gpus.end(), gpu) = all_gpus.back();
    all_gpus.pop_back();
    load_[gpu] -= share_[expert];
    if (nodes_.nodes != 0 && --on_node_[expert * nodes_.nodes + nodes_.of_gpu[gpu]] == 0) {
      --spread_[expert];
    }
  }

  void change_share(std::size_t expert, std::size_t replicas)
  {
    std::int64_t const share = replicas == 0 ? 0 : share_of(expert, replicas);
    for (std::size_t const gpu : gpus_of_[expert]) { load_[gpu] += share - share_[expert]; }
    share_[expert] = share;
  }

  std::vector<std::int64_t> expert_loads_;
  replica_nodes nodes_;
  std::vector<std::size_t> first_;   ///< slot of each GPU
  std::vector<std::size_t> gpu_of_;  ///< each slot
  std::vector<std::size_t> at_;      ///< the expert in each slot
  std::vector<std::int64_t> share_;
  std::vector<std::vector<std::size_t>> gpus_of_;  ///< each expert, in no order
  std::vector<std::int64_t> load_;
  std::vector<std::uint8_t> has_;
  std::vector<std::uint32_t> on_node_;
  std::vector<std::size_t> spread_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_REPLICA_SLOTS_HPP
