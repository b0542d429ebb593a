// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast_test {

/// Balancing as reinforcement-learning trainers have it today: the differencing of
/// `get_seqlen_balanced_partitions` in volcengine/verl. Samples are sorted and each starts a tuple
/// of `bags` sets, or with equal sizes every run of `bags` samples does, one to a set; the two
/// tuples whose sets differ most are merged, heaviest set with lightest, until one is left. With
/// equal sizes `bags` must divide the number of samples.
inline std::vector<ballast::bag_id> seqlen_balanced_partitions(
    std::span<ballast::cost_units const> costs, std::size_t bags, bool equal_size)
{
  struct set {
    ballast::cost_units sum = 0;
    std::vector<std::pair<std::size_t, ballast::cost_units>> members;

    bool operator<(set const& other) const
    {
      if (sum != other.sum) { return sum < other.sum; }
      if (members.size() != other.members.size()) { return members.size() < other.members.size(); }
      return members < other.members;
    }
  };
  using tuple_of_sets = std::vector<set>;  // heaviest first
  auto const heaviest_first = [](set const& a, set const& b) { return b < a; };
  auto const spread = [](tuple_of_sets const& sets) { return sets.front().sum - sets.back().sum; };
  auto const merged_later = [&](tuple_of_sets const& a, tuple_of_sets const& b) {
    return spread(a) < spread(b) || (spread(a) == spread(b) && a.front() < b.front());
  };

  std::vector<std::pair<ballast::cost_units, std::size_t>> ascending;
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    ascending.emplace_back(costs[sample], sample);
  }
  std::ranges::sort(ascending);
  std::vector<tuple_of_sets> heap;
  std::size_t const run = equal_size ? bags : 1;
  for (std::size_t first = 0; first < ascending.size(); first += run) {
    tuple_of_sets sets(bags);
    for (std::size_t place = 0; place < run; ++place) {
      auto const [cost, sample] = ascending[first + place];
      sets[place] = {cost, {{sample, cost}}};
    }
    std::sort(sets.begin(), sets.end(), heaviest_first);
    heap.push_back(std::move(sets));
    std::push_heap(heap.begin(), heap.end(), merged_later);
  }
  while (heap.size() > 1) {
    std::pop_heap(heap.begin(), heap.end(), merged_later);
    tuple_of_sets sets = std::move(heap.back());
    heap.pop_back();
    std::pop_heap(heap.begin(), heap.end(), merged_later);
    tuple_of_sets const& other = heap.back();
    for (std::size_t place = 0; place < bags; ++place) {
      set const& lighter = other[bags - 1 - place];
      sets[place].sum += lighter.sum;
      sets[place].members.insert(sets[place].members.end(), lighter.members.begin(),
                                 lighter.members.end());
    }
    heap.pop_back();
    std::sort(sets.begin(), sets.end(), heaviest_first);
    heap.push_back(std::move(sets));
    std::push_heap(heap.begin(), heap.end(), merged_later);
  }

  std::vector<ballast::bag_id> owner(costs.size());
  if (heap.empty()) { return owner; }
  for (std::size_t bag = 0; bag < bags; ++bag) {
    for (auto const& [sample, cost] : heap.front()[bag].members) {
      owner[sample] = ballast::to_id<ballast::bag_id>(bag);
    }
  }
  return owner;
}

}  // namespace ballast_test
