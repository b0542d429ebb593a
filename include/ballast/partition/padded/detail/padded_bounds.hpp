// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_PADDED_BOUNDS_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_PADDED_BOUNDS_HPP

#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

// A batch costs at least its number of samples times the most that one of them costs alone. So
// bounds for samples of one length, their cost alone, hold for samples of two.

/// Batches that samples need of which none costs more than `limit`: exact for one length.
///
/// Expects     costs descend, and the first is at most `limit`.
[[nodiscard]] inline std::size_t fewest_padded(std::span<cost_units const> costs, cost_units limit)
{
  std::size_t batches = 0;
  for (std::size_t at = 0; at < costs.size(); ++batches) {
    std::size_t const rest = costs.size() - at;
    at += costs[at] == 0 ? rest : std::min(rest, static_cast<std::size_t>(limit / costs[at]));
  }
  return batches;
}

/// The least cost that the largest of so many batches can have.
[[nodiscard]] inline cost_units least_largest_padded(std::span<cost_units const> costs,
                                                     std::size_t batches)
{
  if (costs.empty()) { return 0; }
  cost_units low = costs.front();
  cost_units high = costs.front() * static_cast<cost_units>(costs.size());
  while (low < high) {
    cost_units const middle = low + (high - low) / 2;
    if (fewest_padded(costs, middle) <= batches) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// The least that all of at most so many batches cost together.
///
/// Batches are runs of descending costs, since each sample is best off in the batch with the least
/// longest sample that is no shorter. A fee for each batch takes the place of their number: the
/// least sum with the fee, less the fees of all batches that are allowed, is a bound for any fee, and
/// for the best fee it is the least sum, which is convex in the number of batches.
///
/// Expects     costs descend; n times the first is at most 2^61.
/// Complexity  O(n log n) for each of O(log(sum of costs)) fees: of two runs, that which begins
///             later is better from some end on, so ends are shared out among beginnings.
/// Source      F. F. Yao, "Efficient dynamic programming using quadrangle inequalities", STOC 1980;
///             the fee is a Lagrange multiplier.
class least_padded_sum {
 public:
  explicit least_padded_sum(std::span<cost_units const> costs)
      : costs_(costs), sums_(costs.size() + 1)
  {}

  [[nodiscard]] cost_units within(std::size_t batches)
  {
    if (costs_.empty()) { return 0; }
    cost_units low = 0;
    cost_units high = costs_.front() * static_cast<cost_units>(costs_.size());  // one batch
    while (low < high) {
      cost_units const fee = low + (high - low) / 2;
      cost_units const with_more = least_with_fee(fee + 1);
      if (static_cast<std::size_t>(with_more - least_with_fee(fee)) > batches) {
        low = fee + 1;
      } else {
        high = fee;
      }
    }
    // Fees may take more than 64 bits; the difference does not.
    return static_cast<cost_units>(static_cast<std::uint64_t>(least_with_fee(low)) -
                                   static_cast<std::uint64_t>(low) * batches);
  }

 private:
  struct beginning {
    std::size_t first = 0;
    std::size_t from = 0;  ///< the first end for which no earlier beginning is better
  };

  std::span<cost_units const> costs_;
  std::vector<cost_units> sums_;  // the least for so many first samples, with fees
  std::vector<beginning> best_;

  [[nodiscard]] cost_units ends_at(std::size_t first, std::size_t end) const
  {
    return sums_[first] + static_cast<cost_units>(end - first) * costs_[first];
  }

  [[nodiscard]] std::size_t takes_over(std::size_t earlier, std::size_t later) const
  {
    std::size_t low = later + 1;
    std::size_t high = costs_.size() + 1;
    while (low < high) {
      std::size_t const end = low + (high - low) / 2;
      if (ends_at(later, end) <= ends_at(earlier, end)) {
        high = end;
      } else {
        low = end + 1;
      }
    }
    return low;
  }

  [[nodiscard]] cost_units least_with_fee(cost_units fee)
  {
    best_.clear();
    std::size_t head = 0;
    for (std::size_t end = 1; end <= costs_.size(); ++end) {
      beginning next{end - 1, end};
      while (best_.size() > head) {
        next.from = takes_over(best_.back().first, next.first);
        if (best_.size() - head < 2 || next.from > best_.back().from) { break; }
        best_.pop_back();
      }
      best_.push_back(next);
      while (head + 1 < best_.size() && best_[head + 1].from <= end) { ++head; }
      sums_[end] = ends_at(best_[head].first, end) + fee;
    }
    return sums_.back();
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_PADDED_BOUNDS_HPP
