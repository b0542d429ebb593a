// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_COUNTS_DEALER_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_COUNTS_DEALER_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/experts/expert_problem.hpp>
#include <ballast/parallelism/detail/experts/replica_slots.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Finds GPUs for so many replicas of each expert as were asked for, if there are any: most replicas
/// first. Of the GPUs of one node an expert takes those with most empty slots, which is never wrong;
/// so what is searched is how many of its replicas go to which node, those with most GPUs that have
/// an empty slot first. Without a limit of nodes all GPUs are one node, and nothing is searched.
///
/// Expects     a problem that was checked and outlives the dealer.
/// Complexity  O(experts (experts + gpus log gpus)), and as much work as `left` has where some
///             choice was wrong.
/// Source      D. Gale, "A theorem on flows in networks", Pacific J. Math. 7, 1957: the greedy
///             filling that finds a 0-1 matrix of given sums of rows and columns, and when none is.
class counts_dealer {
 public:
  counts_dealer(expert_problem const& problem, work_budget& left)
      : most_nodes_(problem.most_nodes == 0 ? 1 : problem.most_nodes),
        left_(left),
        empty_(problem.slots.begin(), problem.slots.end())
  {
    first_gpu_.push_back(0);
    for (std::uint32_t const gpus : problem.nodes) {
      if (problem.most_nodes != 0) { first_gpu_.push_back(first_gpu_.back() + gpus); }
    }
    if (problem.most_nodes == 0) { first_gpu_.push_back(empty_.size()); }
    for (std::uint32_t const replicas : problem.replicas) {
      experts_.push_back({replicas, experts_.size(), {}, {}});
    }
    std::sort(experts_.begin(), experts_.end(), [](expert const& a, expert const& b) {
      return std::pair(b.replicas, a.id) < std::pair(a.replicas, b.id);
    });
  }

  /// Returns whether it found places. If not, and the work is not spent, there are none.
  [[nodiscard]] bool deal()
  {
    if (!begin_expert(0)) { return false; }
    while (!choices_.empty() && !left_.spent()) {
      choice& last = choices_.back();
      give_back(last);
      if (last.next == 0) {
        end_choice();
        continue;
      }
      take(last, --last.next);
      std::size_t const rest = last.rest - last.taken;
      std::size_t const nodes = last.nodes - (last.taken > 0 ? 1U : 0U);
      if (rest > 0) {
        add_choice({last.at, last.node + 1, rest, nodes});
      } else if (last.at + 1 == experts_.size()) {
        return true;
      } else if (!begin_expert(last.at + 1)) {
        left_.spend(experts_.size() + empty_.size());
      }
    }
    return false;
  }

  /// Puts what was dealt into empty slots.
  void fill(replica_slots& slots) const
  {
    std::vector<std::size_t> filled(slots.gpus(), 0);
    for (expert const& each : experts_) {
      for (std::size_t const gpu : each.gpus) {
        slots.add(slots.first_slot(gpu) + filled[gpu]++, each.id);
      }
    }
  }

 private:
  struct expert {
    std::size_t replicas;
    std::size_t id;
    std::vector<std::size_t> gpus;
    /// GPUs that have an empty slot, and the node, in the order in which nodes are tried.
    std::vector<std::pair<std::size_t, std::size_t>> nodes;
  };

  /// How many replicas of an expert go to one node.
  struct choice {
    std::size_t at;        ///< of experts_
    std::size_t node;      ///< of its nodes
    std::size_t rest;      ///< of its replicas
    std::size_t nodes;     ///< that it may still use
    std::size_t next = 0;  ///< one more than the number that is tried next
    std::size_t taken = 0;
  };

  [[nodiscard]] bool begin_expert(std::size_t at)
  {
    if (!leaves_room(at) || (!failed_.empty() && failed_.count(state_of(at)) > 0)) { return false; }
    expert& next = experts_[at];
    next.nodes.clear();
    for (std::size_t node = 0; node + 1 < first_gpu_.size(); ++node) {
      auto const begin = empty_.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node]);
      auto const end = empty_.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node + 1]);
      auto const full = std::count(begin, end, 0U);
      next.nodes.emplace_back(static_cast<std::size_t>(end - begin - full), node);
    }
    std::sort(next.nodes.begin(), next.nodes.end(), [](auto const& a, auto const& b) {
      return std::pair(b.first, a.second) < std::pair(a.first, b.second);
    });
    add_choice({at, 0, next.replicas, most_nodes_});
    return true;
  }

  void add_choice(choice next)
  {
    auto const& nodes = experts_[next.at].nodes;
    std::size_t room = 0;
    for (std::size_t node = next.node; node < std::min(nodes.size(), next.node + next.nodes);
         ++node) {
      room += nodes[node].first;
    }
    if (room < next.rest) {
      left_.spend(1);
      return;
    }
    next.next = std::min(next.rest, nodes[next.node].first) + 1;
    choices_.push_back(next);
  }

  void end_choice()
  {
    left_.spend(1);
    choice const last = choices_.back();
    choices_.pop_back();
    if (last.node > 0) { return; }
    left_.spend(experts_.size() + empty_.size());
    failed_.insert(state_of(last.at));
  }

  void take(choice& made, std::size_t count)
  {
    expert& dealt = experts_[made.at];
    std::size_t const node = dealt.nodes[made.node].second;
    std::vector<std::size_t> gpus(first_gpu_[node + 1] - first_gpu_[node]);
    std::iota(gpus.begin(), gpus.end(), first_gpu_[node]);
    std::sort(gpus.begin(), gpus.end(), [this](std::size_t a, std::size_t b) {
      return std::pair(empty_[b], a) < std::pair(empty_[a], b);
    });
    gpus.resize(count);
    for (std::size_t const gpu : gpus) { --empty_[gpu]; }
    dealt.gpus.insert(dealt.gpus.end(), gpus.begin(), gpus.end());
    made.taken = count;
  }

  void give_back(choice& made)
  {
    std::vector<std::size_t>& gpus = experts_[made.at].gpus;
    for (; made.taken > 0; --made.taken) {
      ++empty_[gpus.back()];
      gpus.pop_back();
    }
  }

  /// Whether experts from `at` on would fit if they could use all nodes.
  [[nodiscard]] bool leaves_room(std::size_t at) const
  {
    std::size_t const rest = experts_.size() - at;
    std::vector<std::size_t> with(rest + 1, 0);  // GPUs with so many empty slots, or more than rest
    for (std::uint32_t const slots : empty_) { ++with[std::min<std::size_t>(slots, rest)]; }
    std::size_t gpus = empty_.size() - with[0];
    std::size_t room = 0;
    std::size_t asked = 0;
    for (std::size_t count = 1; count <= rest; ++count) {
      room += gpus;
      asked += experts_[at + count - 1].replicas;
      if (asked > room) { return false; }
      gpus -= with[count];
    }
    return true;
  }

  /// An expert, and the empty slots of each node's GPUs, whichever GPU has them.
  [[nodiscard]] std::vector<std::uint32_t> state_of(std::size_t at) const
  {
    std::vector<std::uint32_t> state = empty_;
    for (std::size_t node = 0; node + 1 < first_gpu_.size(); ++node) {
      std::sort(state.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node]),
                state.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node + 1]));
    }
    state.push_back(static_cast<std::uint32_t>(at));
    return state;
  }

  std::size_t most_nodes_;
  work_budget& left_;
  std::vector<std::uint32_t> empty_;  ///< slots of each GPU
  std::vector<std::size_t> first_gpu_;
  std::vector<expert> experts_;  ///< most replicas first
  std::vector<choice> choices_;
  std::set<std::vector<std::uint32_t>> failed_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_COUNTS_DEALER_HPP
