// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_RULES_PADDED_BINS_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_RULES_PADDED_BINS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/packing/detail/rules/ruled_bins.hpp>
#include <ballast/partition/packing/packing_rules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ballast::inline v0::detail {

/// How many bins of padded samples one needs, longest first, where none takes more than the limit;
/// writes the bin of each into `bins`, in their order.
///
/// It is the fewest: the bin of the longest sample can hold no more than this many, and samples that
/// it holds in any packing can be exchanged for the next longest ones, which makes no bin longer.
[[nodiscard]] inline std::size_t fill_padded(std::vector<std::int64_t> const& longest_first,
                                             std::int64_t limit, std::size_t most_samples,
                                             std::vector<bag_id>& bins)
{
  std::size_t opened = 0;
  for (std::size_t at = 0; at < longest_first.size();) {
    std::int64_t const longest = longest_first[at];
    std::size_t const rest = longest_first.size() - at;
    std::size_t const fits = longest == 0 ? rest : static_cast<std::size_t>(limit / longest);
    for (std::size_t left = std::min({fits, most_samples, rest}); left > 0; --left) {
      bins[at++] = to_id<bag_id>(opened);
    }
    ++opened;
  }
  return opened;
}

/// The fewest bins in which count x longest is at most the capacity, and of as many bins those whose
/// largest is least, where bins are asked for.
///
/// Expects     no length is above the capacity.
/// Complexity  O(n log n + n log(capacity)).
[[nodiscard]] inline ruled_bins padded_bins(std::vector<std::int64_t> const& lengths,
                                            packing_rules const& rules)
{
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&lengths](std::size_t a, std::size_t b) {
    return lengths[b] < lengths[a] || (lengths[a] == lengths[b] && a < b);
  });
  std::vector<std::int64_t> longest_first;
  longest_first.reserve(lengths.size());
  for (std::size_t const sample : order) { longest_first.push_back(lengths[sample]); }
  std::vector<bag_id> bin_of(lengths.size());
  auto const bins_within = [&](std::int64_t limit) {
    return fill_padded(longest_first, limit, rules.most_samples, bin_of);
  };
  ruled_bins found;
  found.bins = allowed_bins(bins_within(rules.capacity), rules);
  found.lower_bound = found.bins;
  std::int64_t low = longest_first.empty() ? 0 : longest_first.front();
  std::int64_t high = rules.capacity;
  while (low < high) {
    std::int64_t const limit = low + (high - low) / 2;
    if (bins_within(limit) <= found.bins) {
      high = limit;
    } else {
      low = limit + 1;
    }
  }
  static_cast<void>(bins_within(asks_for_bins(rules) ? high : rules.capacity));
  found.owner.resize(lengths.size());
  for (std::size_t at = 0; at < order.size(); ++at) { found.owner[order[at]] = bin_of[at]; }
  if (asks_for_bins(rules)) { fill_empty_bins(found.owner, found.bins); }
  found.largest_bound = longest_first.empty() ? 0 : high;
  return found;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_RULES_PADDED_BINS_HPP
