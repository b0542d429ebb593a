// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_SUBSET_WALK_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_SUBSET_WALK_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Finds a subset of one list and a subset of another whose sums differ by a wanted amount, in one
/// pass along both lists: as the taken sum grows, so does the first given sum that is larger by the
/// amount.
///
/// The amount, given minus taken, is best at `least`, then the nearer above it up to `most`, then
/// the nearer below it down to `fewest`; one from `least` to `enough` ends the pass.
///
/// Expects     each list is what `subset_sums_into` writes, with one word subset_sum::end before
///             and merge_stretches of them behind it.
///             accept(given, taken) says whether this pair of member sets is allowed; it is called
///             for few, and after 4 refusals per subset the search ends.
///             fewest >= 1; amounts are below subset_sum::sum_limit, `least` and `most` not below
///             0.
/// Ensures     (1) given() and taken() are accepted subsets of the best amount, or empty where no
///                 pair has a wanted amount, up to refusals
/// Complexity  one step per subset, in stretches that do not wait for each other.
/// Source      E. Horowitz, S. Sahni, "Computing Partitions with Applications to the Knapsack
///             Problem", J. ACM 21(2):277-292, 1974.
template <class Accept>
class subset_walk {
 public:
  struct amounts {
    cost_units fewest;
    cost_units least;
    cost_units enough;
    cost_units most;
  };

  subset_walk(std::span<std::uint64_t const> given, std::span<std::uint64_t const> taken,
              amounts wanted, Accept const& accept) noexcept
      : given_(given),
        taken_(taken),
        accept_(accept),
        least_(subset_sum::pack(wanted.least, 0)),
        over_(range(wanted.most - wanted.least + 1)),
        under_(range(wanted.least - wanted.fewest)),
        enough_(range(wanted.enough - wanted.least + 1))
  {}

  /// Runs the pass and returns how many steps it took.
  std::size_t operator()()
  {
    stretch_counts give{};
    stretch_counts take{};
    stretch_counts reached{};
    std::size_t const steps = given_.size() + taken_.size();
    std::size_t const length = (steps + merge_stretches - 1) / merge_stretches;
    for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
      std::size_t const start = std::min(stretch * length, steps);
      give[stretch] = merged_from_first(
          given_, [this](std::size_t place) { return target(place); }, taken_.size(), start);
      take[stretch] = start - give[stretch];
    }
    std::size_t step = 0;
    for (; step < length && !found_; ++step) {
      bool improves = false;
      for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
        std::uint64_t const* const sums = given_.data() + give[stretch];
        std::uint64_t const sum = target(take[stretch]);
        reached[stretch] = sums[0] >= sum ? 1 : 0;
        // Differences that would be negative wrap around to huge ones.
        improves |= sums[0] - sum < over_;
        improves |= ((sum - sums[-1] - 1) | (reached[stretch] - 1)) < under_;
      }
      if (improves) [[unlikely]] {
        for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
          if (reached[stretch] != 0) { improve(give[stretch], take[stretch]); }
        }
      }
      for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
        give[stretch] += 1 - reached[stretch];
        take[stretch] += reached[stretch];
      }
    }
    return merge_stretches * step + refusals_;
  }

  [[nodiscard]] std::uint32_t given() const noexcept { return best_given_; }
  [[nodiscard]] std::uint32_t taken() const noexcept { return best_taken_; }

 private:
  [[nodiscard]] static std::uint64_t range(cost_units amount) noexcept
  {
    return amount < 0 ? 0 : subset_sum::pack(amount, 0);
  }

  // What a given sum has to reach for the least amount; words of larger members are above it.
  [[nodiscard]] std::uint64_t target(std::size_t take) const noexcept
  {
    return (taken_.data()[take] & ~subset_sum::every_member) + least_;
  }

  // `give` is the first sum that reaches the target of `take`: the nearest lie on both sides of it.
  void improve(std::size_t give, std::size_t take)
  {
    std::uint64_t const* const sums = given_.data();
    std::uint64_t const sum = target(take);
    for (std::size_t place = give; sums[place] - sum < over_; ++place) {
      if (accepted(place, take)) {
        over_ = (sums[place] - sum) & ~subset_sum::every_member;
        under_ = 0;
        found_ = over_ < enough_;
      }
    }
    for (std::size_t place = give; sum - sums[place - 1] - 1 < under_; --place) {
      if (accepted(place - 1, take)) {
        under_ = (sum - sums[place - 1] - 1) & ~subset_sum::every_member;
      }
    }
  }

  [[nodiscard]] bool accepted(std::size_t give, std::size_t take)
  {
    std::uint32_t const given = subset_sum::members(given_[give]);
    std::uint32_t const taken = subset_sum::members(taken_[take]);
    if (!accept_(given, taken)) {
      if (++refusals_ == 4 * (given_.size() + taken_.size())) { over_ = under_ = 0; }
      return false;
    }
    best_given_ = given;
    best_taken_ = taken;
    return true;
  }

  std::span<std::uint64_t const> given_;
  std::span<std::uint64_t const> taken_;
  Accept const& accept_;
  std::uint64_t least_;
  std::uint64_t over_;   // a sum this far above its target, or further, is of no use
  std::uint64_t under_;  // and one further below
  std::uint64_t enough_;
  std::size_t refusals_ = 0;
  bool found_ = false;
  std::uint32_t best_given_ = 0;
  std::uint32_t best_taken_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_SUBSET_WALK_HPP
