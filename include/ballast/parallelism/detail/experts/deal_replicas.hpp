// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_DEAL_REPLICAS_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_DEAL_REPLICAS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/experts/replica_slots.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Numbers of replicas with which the largest share of an expert is least: one more for the expert
/// of the largest share, until there is no slot or the largest share is `enough`.
///
/// Expects     slots >= loads.size(); most >= 1.
/// Complexity  O(slots log experts).
[[nodiscard]] inline std::vector<std::size_t> even_shares(std::span<std::int64_t const> loads,
                                                          std::size_t slots, std::size_t most,
                                                          ratio enough)
{
  struct shared {
    ratio share;
    std::size_t expert;
  };
  auto const is_less = [](shared const& a, shared const& b) {
    return a.share < b.share || (a.share == b.share && b.expert < a.expert);
  };
  std::vector<std::size_t> replicas(loads.size(), 1);
  std::vector<shared> heap;
  heap.reserve(loads.size());
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    heap.push_back({{loads[expert], 1}, expert});
  }
  std::make_heap(heap.begin(), heap.end(), is_less);
  for (std::size_t left = slots - loads.size(); left > 0 && !heap.empty(); --left) {
    std::pop_heap(heap.begin(), heap.end(), is_less);
    auto& [share, expert] = heap.back();
    // The largest share is that of an expert that cannot have more: others gain nothing any more,
    // but their shares become easier to place.
    while (replicas[expert] == most && heap.size() > 1) {
      heap.pop_back();
      std::pop_heap(heap.begin(), heap.end(), is_less);
    }
    shared& largest = heap.back();
    if (largest.share <= enough || replicas[largest.expert] == most) { break; }
    largest.share.denominator = static_cast<std::int64_t>(++replicas[largest.expert]);
    std::push_heap(heap.begin(), heap.end(), is_less);
  }
  return replicas;
}

/// Puts replicas into empty slots, largest share first, each on the GPU of the most load that stays
/// within `full` with it, or else on the GPU of the least load. A replica that no GPU takes is left
/// out, but none of the experts is.
///
/// Complexity  O(slots log gpus), and more GPUs to look at where one has the expert.
inline void deal_replicas(replica_slots& slots, std::vector<std::size_t> const& replicas,
                          std::int64_t full)
{
  std::vector<std::pair<std::int64_t, std::size_t>> shares;
  for (std::size_t expert = 0; expert < replicas.size(); ++expert) {
    shares.insert(shares.end(), replicas[expert],
                  {-slots.share_of(expert, replicas[expert]), expert});
  }
  std::sort(shares.begin(), shares.end());
  std::set<std::pair<std::int64_t, std::size_t>> gpus;  // those with empty slots, by load
  for (std::size_t gpu = 0; gpu < slots.gpus(); ++gpu) {
    if (slots.first_slot(gpu) < slots.first_slot(gpu + 1)) { gpus.emplace(0, gpu); }
  }
  std::vector<std::size_t> filled(slots.gpus(), 0);
  for (auto const& dealt : shares) {
    std::int64_t const share = -dealt.first;
    std::size_t const expert = dealt.second;
    auto const takes = [&slots, expert](auto const& each) {
      return slots.admits(expert, each.second);
    };
    auto const end = gpus.upper_bound({full - share, slots.gpus()});
    auto const fullest = std::find_if(std::make_reverse_iterator(end), gpus.rend(), takes);
    auto const chosen =
        fullest != gpus.rend() ? std::prev(fullest.base()) : std::find_if(end, gpus.end(), takes);
    if (chosen == gpus.end()) { continue; }
    auto const [load, gpu] = *chosen;
    gpus.erase(chosen);
    slots.add(slots.first_slot(gpu) + filled[gpu]++, expert);
    if (slots.first_slot(gpu) + filled[gpu] < slots.first_slot(gpu + 1)) {
      gpus.emplace(load + share, gpu);
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_DEAL_REPLICAS_HPP
