// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_RULES_EVEN_BINS_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_RULES_EVEN_BINS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/capped.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/no_length.hpp>
#include <ballast/partition/packing/detail/rules/ruled_bins.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/packing/packing_rules.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace ballast::inline v0::detail {

/// Bins of sums that keep to packing_rules, from a packing that keeps to the capacity.
///
/// Where rules ask for more, samples are partitioned into each number of bins from the bound on:
/// freely, and with equal counts, which is within most_samples if anything is. Where neither works
/// out, samples are put heaviest first into the first bin that has room for one.
class even_bins {
 public:
  /// Expects     both outlive it.
  even_bins(packing_plan const& packed, packing_rules const& rules) : packed_(packed), rules_(rules)
  {}

  [[nodiscard]] ruled_bins find() const
  {
    std::size_t const samples = packed_.weights.size();
    ruled_bins found;
    std::size_t const least = std::max(
        packed_.lower_bound,
        samples / rules_.most_samples + (samples % rules_.most_samples != 0 ? std::size_t{1} : 0));
    found.lower_bound = allowed_bins(least, rules_);
    found.owner.assign(packed_.owner.begin(), packed_.owner.end());
    found.bins = packed_.bins();
    if (counts_fit(found.owner, found.bins)) {
      if (!asks_for_bins(rules_)) {
        found.largest_bound = std::max(mean_load(found.bins), heaviest());
        return found;
      }
    } else {
      found.bins = first_fit(found.owner);
    }
    std::size_t const most = allowed_bins(found.bins, rules_);
    // A few numbers of bins are tried; the packing itself is the last of them.
    std::size_t bins = found.lower_bound;
    for (int tried = 0; tried < most_tried && bins < most; ++tried) {
      if (try_bins(bins, found)) { return found; }
      bins = allowed_bins(bins + 1, rules_);
    }
    if (try_bins(most, found)) { return found; }
    found.bins = most;
    found.largest_bound = std::max(mean_load(most), heaviest());
    if (asks_for_bins(rules_)) { fill_empty_bins(found.owner, most); }
    return found;
  }

 private:
  static constexpr int most_tried = 8;

  [[nodiscard]] std::int64_t heaviest() const
  {
    return packed_.weights.empty()
               ? 0
               : *std::max_element(packed_.weights.begin(), packed_.weights.end());
  }

  [[nodiscard]] std::int64_t mean_load(std::size_t bins) const
  {
    if (bins == 0) { return 0; }
    std::int64_t const total =
        std::accumulate(packed_.weights.begin(), packed_.weights.end(), std::int64_t{0});
    auto const count = static_cast<std::int64_t>(bins);
    return total / count + (total % count != 0 ? 1 : 0);
  }

  template <class Owners>
  [[nodiscard]] bool counts_fit(Owners const& owner, std::size_t bins) const
  {
    if (rules_.most_samples >= owner.size()) { return true; }
    std::vector<std::size_t> counts(bins, 0);
    return std::all_of(owner.begin(), owner.end(),
                       [&](bag_id bin) { return ++counts[to_index(bin)] <= rules_.most_samples; });
  }

  /// Whether a partition into so many bins keeps to the rules; then it is the packing found.
  [[nodiscard]] bool try_bins(std::size_t bins, ruled_bins& found) const
  {
    if (bins == 0) {
      found.bins = 0;
      return true;
    }
    auto const bags = one_gpu_bags(bins);
    auto const keep = [&](partition_plan const& plan) {
      if (std::any_of(plan.loads.begin(), plan.loads.end(),
                      [&](std::int64_t load) { return load > rules_.capacity; }) ||
          !counts_fit(plan.owner, bins)) {
        return false;
      }
      found.owner.assign(plan.owner.begin(), plan.owner.end());
      found.bins = bins;
      auto const [numerator, denominator] = plan.lower_bound;
      found.largest_bound = numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
      fill_empty_bins(found.owner, bins);
      return true;
    };
    partition_constraints const within{.most_per_gpu = rules_.capacity, .weights = packed_.weights};
    auto const free =
        partition(packed_.weights, bags, capped{refine{}}, std::identity{}, no_length{}, within);
    if (free && keep(*free)) { return true; }
    std::int64_t const bound = std::max(mean_load(bins), heaviest());
    auto const counted = partition(packed_.weights, bags, capped{equal_count{}}, std::identity{},
                                   no_length{}, within);
    if (!counted || !keep(*counted)) { return false; }
    found.largest_bound = bound;  // that of the policy holds for equal counts
    return true;
  }

  /// Heaviest first, each into the first bin with room for its weight and one more sample.
  [[nodiscard]] std::size_t first_fit(std::vector<bag_id>& owner) const
  {
    std::vector<std::size_t> order(owner.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      auto const& weights = packed_.weights;
      return weights[b] < weights[a] || (weights[a] == weights[b] && a < b);
    });
    std::vector<std::int64_t> room;
    std::vector<std::size_t> places;
    std::size_t first_open = 0;
    for (std::size_t const sample : order) {
      std::int64_t const weight = packed_.weights[sample];
      while (first_open < room.size() && places[first_open] == 0) { ++first_open; }
      std::size_t bin = first_open;
      while (bin < room.size() && (places[bin] == 0 || room[bin] < weight)) { ++bin; }
      if (bin == room.size()) {
        room.push_back(rules_.capacity);
        places.push_back(rules_.most_samples);
      }
      room[bin] -= weight;
      --places[bin];
      owner[sample] = to_id<bag_id>(bin);
    }
    return room.size();
  }

  packing_plan const& packed_;
  packing_rules const& rules_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_RULES_EVEN_BINS_HPP
