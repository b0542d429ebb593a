// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_RULES_RULED_BINS_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_RULES_RULED_BINS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/packing/packing_rules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// A packing within packing_rules.
struct ruled_bins {
  std::vector<bag_id> owner;
  std::size_t bins = 0;
  std::size_t lower_bound = 0;
  std::int64_t largest_bound = 0;
};

/// The least number of bins from `bins` on that the rules allow.
[[nodiscard]] inline std::size_t allowed_bins(std::size_t bins, packing_rules const& rules)
{
  std::size_t const least = std::max(bins, rules.least_bins);
  std::size_t const more = least % rules.multiple_of;
  return more == 0 ? least : least + rules.multiple_of - more;
}

[[nodiscard]] inline bool asks_for_bins(packing_rules const& rules)
{
  return rules.least_bins > 0 || rules.multiple_of > 1;
}

/// Moves samples to bins without any, from those with most, until there are no such bins or no bin
/// has two samples. No load grows.
inline void fill_empty_bins(std::vector<bag_id>& owner, std::size_t bins)
{
  std::vector<std::vector<std::size_t>> held(bins);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    held[to_index(owner[sample])].push_back(sample);
  }
  auto const has_fewer = [&held](std::size_t a, std::size_t b) {
    return held[a].size() < held[b].size() || (held[a].size() == held[b].size() && b < a);
  };
  std::vector<std::size_t> heap;
  std::vector<std::size_t> empty;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    (held[bin].empty() ? empty : heap).push_back(bin);
  }
  std::make_heap(heap.begin(), heap.end(), has_fewer);
  for (std::size_t const bin : empty) {
    if (heap.empty() || held[heap.front()].size() < 2) { break; }
    std::pop_heap(heap.begin(), heap.end(), has_fewer);
    auto& most = held[heap.back()];
    owner[most.back()] = to_id<bag_id>(bin);
    most.pop_back();
    std::push_heap(heap.begin(), heap.end(), has_fewer);
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_RULES_RULED_BINS_HPP
