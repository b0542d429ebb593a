// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// Position of an expert in a layer of a mixture of experts.
struct expert_id : basic_id<expert_id> {
  using basic_id::basic_id;
};

/// On which GPUs the replicas of experts lie; makespan is the largest load of a GPU.
///
/// Shapes      experts: a row for each GPU, gpus: a row for each expert; both in ascending order.
/// Units       makespan and lower_bound: that of the loads, as fractions.
/// Ensures     (1) every expert has a replica, and no GPU two of one expert
///             (2) makespan is the largest sum over a GPU of load / replicas, exact where numerator
///                 and denominator are below 2^63, and else rounded up
struct expert_placement : certified<ratio> {
  jagged<rank_id, expert_id> experts;
  jagged<expert_id, rank_id> gpus;
  std::size_t kept = 0;         ///< replicas that were on their GPU before
  std::size_t most_kept = 0;    ///< no placement within the tolerance keeps more
  std::size_t least_added = 0;  ///< none that keeps all, within the tolerance, adds fewer replicas

  /// One word that differs where any place does.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}.add(experts.offsets()).add(experts.values()).value();
  }
};

namespace detail {

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

}  // namespace detail

/// How much of its expert's load each replica computes; makespan is the largest load of a GPU.
///
/// Shapes      parts: a row for each expert, as long and in the order of its GPUs.
/// Ensures     (1) parts of an expert add up to its load times `unit`
///             (2) no shares have a lesser makespan, and lower_bound says so
struct expert_shares : certified<ratio> {
  jagged<expert_id, std::int64_t> parts;
  std::int64_t unit = 1;  ///< a part of `unit` is a load of 1
};

/// The shares of replicas that are best for the loads of one batch, as a router counts them, where
/// the places are given: place_experts() splits evenly, since it knows only what is to be expected.
///
/// Shapes      loads[experts]; places: a row for each expert, as expert_placement::gpus.
/// Ensures     (1) those of expert_shares
/// Errors      infeasible: expert `position` has a load and no replica; out_of_range: the arrays have
///             different sizes, a replica is on no GPU, a load is negative, or the loads times GPUs
///             add up to 2^62 or more.
/// Complexity  a maximum flow for each set of experts that turns out to be crowded: few of them.
/// Source      W. Dinkelbach, "On Nonlinear Fractional Programming", Management Science 13(7), 1967:
///             the makespan is the largest load of a set of experts / GPUs that have replicas of it.
[[nodiscard]] inline result<expert_shares> share_experts(std::span<std::int64_t const> loads,
                                                         jagged<expert_id, rank_id> const& places,
                                                         std::size_t gpus)
{
  auto const refuse = [](std::size_t position, auto const&... pieces) {
    return fail(error_code::out_of_range, position, pieces...);
  };
  if (places.size() != loads.size()) {
    return refuse(places.size(), "there are ", loads.size(), " loads and places of ",
                  detail::counted(places.size(), "expert"), "; give both for all");
  }
  std::int64_t const most =
      (std::int64_t{1} << 62) / static_cast<std::int64_t>(gpus < 1 ? 1 : gpus);
  std::int64_t total = 0;
  detail::replica_flow flow(loads.size(), gpus);
  std::vector<bool> is_used(gpus, false);
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    if (loads[expert] < 0 || loads[expert] >= most - total) {
      return refuse(expert, "the load ", loads[expert], " of expert ", expert,
                    " is negative or too large for ", detail::counted(gpus, "GPU"), "; correct it");
    }
    total += loads[expert];
    auto const row = places[to_id<expert_id>(expert)];
    if (row.empty() && loads[expert] > 0) {
      return fail(error_code::infeasible, expert, "expert ", expert, " has a load of ",
                  loads[expert], " and no replica; place it on a GPU");
    }
    for (rank_id const gpu : row) {
      if (to_index(gpu) >= gpus) {
        return refuse(expert, "a replica of expert ", expert, " is on GPU ", to_index(gpu), " of ",
                      gpus, "; correct its place");
      }
      flow.add(expert, to_index(gpu));
      is_used[to_index(gpu)] = true;
    }
  }

  std::int64_t used = 0;
  for (bool const has_replica : is_used) { used += has_replica ? 1 : 0; }
  ratio largest{total, used < 1 ? 1 : used};
  while (!flow.run([&](std::size_t expert) { return loads[expert] * largest.denominator; },
                   largest.numerator)) {
    largest = {0, 0};
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      if (flow.is_crowded(expert)) { largest.numerator += loads[expert]; }
    }
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
      if (flow.is_crowded_gpu(gpu)) { ++largest.denominator; }
    }
  }
  expert_shares shares;
  shares.makespan = largest;
  shares.lower_bound = largest;
  shares.unit = largest.denominator;
  shares.parts.resize(loads.size(),
                      [&](std::size_t expert) { return places[to_id<expert_id>(expert)].size(); });
  std::size_t replica = 0;
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    for (std::int64_t& part : shares.parts.row(to_id<expert_id>(expert))) {
      part = flow.flow(replica++);
    }
  }
  return shares;
}

}  // namespace ballast::inline v0
