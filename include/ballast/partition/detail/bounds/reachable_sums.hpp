// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_REACHABLE_SUMS_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_REACHABLE_SUMS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// What sets of samples cost together, where few costs differ: a bag's load is one of these sums,
/// so a bound between two of them can be raised to the next.
///
/// With many different costs nearly every sum is that of some set, so those steps are left alone.
///
/// Ensures     (1) next(least) >= least, and no set of samples costs as much as a number between
///                 them
///             (2) where the costs are few and few numbers of samples of each are tried, it is the
///                 cost of a set
/// Complexity  the constructor: O(kinds log n). next: at most 4096 numbers of samples of a kind.
class reachable_sums {
 public:
  static constexpr std::size_t most_kinds = 10;

  /// Expects     costs do not increase and are not negative; together they are less than 2^63
  explicit reachable_sums(std::span<priced_sample const> heaviest_first) noexcept
  {
    auto from = heaviest_first.begin();
    while (from != heaviest_first.end() && from->cost > 0) {
      if (count_ == most_kinds) {
        are_few_ = false;
        return;
      }
      auto const to = std::partition_point(
          from, heaviest_first.end(),
          [cost = from->cost](priced_sample each) { return each.cost >= cost; });
      kinds_[count_++] = {from->cost, to - from};
      from = to;
    }
    for (std::size_t kind = count_; kind-- > 0;) {
      all_[kind] = all_[kind + 1] + kinds_[kind].cost * kinds_[kind].samples;
    }
  }

  [[nodiscard]] cost_units next(cost_units least) const noexcept
  {
    if (!are_few_ || least <= 0 || least > all_[0]) { return least; }
    search now{work_budget(4096), std::numeric_limits<cost_units>::max()};
    add_kinds(0, least, now);
    return now.nodes.spent() ? least : least + now.least_above;
  }

 private:
  struct sample_kind {
    cost_units cost;
    std::int64_t samples;
  };
  struct search {
    work_budget nodes;
    cost_units least_above;
  };

  /// Tries all numbers of samples of this kind and those after it that cost at least `missing`.
  void add_kinds(std::size_t kind, cost_units missing, search& now) const noexcept
  {
    auto const [cost, samples] = kinds_[kind];
    std::int64_t taken = std::min(samples, (missing - 1) / cost + 1);
    if (taken * cost >= missing) {
      now.least_above = std::min(now.least_above, taken * cost - missing);
      --taken;
    }
    for (; taken >= 0 && all_[kind + 1] >= missing - taken * cost; --taken) {
      if (now.least_above == 0 || now.nodes.spent()) { return; }
      now.nodes.spend(1);
      add_kinds(kind + 1, missing - taken * cost, now);
    }
  }

  std::array<sample_kind, most_kinds> kinds_{};   // heaviest first
  std::array<cost_units, most_kinds + 1> all_{};  // [k]: all samples of the kinds from k on
  std::size_t count_ = 0;
  bool are_few_ = true;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_REACHABLE_SUMS_HPP
