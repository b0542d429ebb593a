// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PADDING_FINISHING_TIMES_HPP
#define BALLAST_PARTITION_DETAIL_PADDING_FINISHING_TIMES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// When bags of several speeds finish, in whole numbers, for searches over the finishing time.
///
/// Units       in the time t, a bag of speed s does floor(t * s / unit). The unit is the least
///             common multiple of the speeds, so that no finishing time has a fraction; where that
///             takes more than 32 bits it is the largest speed, and finishing times are rounded up.
/// Expects     loads and work are not negative; times are at most enough().
/// Ensures     (1) work_until(t, b) is the largest w for which finish(b, w) <= t; 0 where the bag
///                 does not even finish what it has
///             (2) no plan finishes before least(): the mean, the heaviest sample, what bags have;
///                 of finishing times that are rounded up, as these are
///             (3) by enough() every bag can do n times the heaviest sample, or 2^63 - 1 units
/// Complexity  O(n + m) to build, 8 m bytes of scratch; O(1) to ask.
class finishing_times {
 public:
  finishing_times(partition_problem const& problem, std::span<cost_units const> starting_loads,
                  workspace::frame& scratch)
      : loads_(scratch.take<cost_units>(starting_loads.size())), speeds_(problem.speeds)
  {
    BALLAST_EXPECTS(!loads_.empty() && loads_.size() == speeds_.size());
    std::copy(starting_loads.begin(), starting_loads.end(), loads_.begin());
    std::uint32_t const fastest = *std::max_element(speeds_.begin(), speeds_.end());
    for (std::uint32_t const speed : speeds_) {
      if (unit_ % speed == 0) { continue; }
      std::uint64_t const multiple = std::lcm(unit_, std::uint64_t{speed});
      exact_ = multiple <= std::numeric_limits<std::uint32_t>::max();
      unit_ = exact_ ? multiple : fastest;
      if (!exact_) { break; }
    }

    cost_units const heaviest =
        problem.heaviest_first.empty() ? 0 : problem.heaviest_first.front().cost;
    // Where attention alone pads, the heaviest sample as often as there are samples may not fit.
    auto const all = static_cast<cost_units>(
        std::min(uint128{unsigned_of(heaviest)} * problem.heaviest_first.size(), uint128{no_cost}));
    least_ = uint128{unsigned_of(heaviest)} * unit_ / fastest;
    std::uint64_t work = 0;
    std::uint64_t all_speeds = 0;
    for (cost_units const cost : problem.costs) { work += unsigned_of(cost); }
    for (std::size_t bag = 0; bag < loads_.size(); ++bag) {
      work += unsigned_of(loads_[bag]);
      all_speeds += speeds_[bag];
      least_ = std::max(least_, finish(bag, 0));
      enough_ = std::max(enough_, finish(bag, all));
    }
    least_ = std::max(least_, (uint128{work} * unit_ + all_speeds - 1) / all_speeds);
  }

  /// When this bag finishes what it has and `work` besides.
  [[nodiscard]] uint128 finish(std::size_t bag, cost_units work) const noexcept
  {
    uint128 const load = uint128{unsigned_of(loads_[bag])} + unsigned_of(work);
    std::uint32_t const speed = speeds_[bag];
    return speed == unit_ ? load : (load * unit_ + speed - 1) / speed;
  }

  /// How much this bag can do besides what it has.
  [[nodiscard]] cost_units work_until(uint128 time, std::size_t bag) const noexcept
  {
    std::uint32_t const speed = speeds_[bag];
    uint128 const work = speed == unit_ ? time : time * speed / unit_;
    uint128 const load = unsigned_of(loads_[bag]);
    return work <= load ? 0 : static_cast<cost_units>(std::min<uint128>(work - load, no_cost));
  }

  /// When every bag could finish what it has and this work besides.
  [[nodiscard]] uint128 finish_anywhere(cost_units work) const noexcept
  {
    uint128 latest = 0;
    for (std::size_t bag = 0; bag < loads_.size(); ++bag) {
      latest = std::max(latest, finish(bag, work));
    }
    return latest;
  }

  /// What a bag of this speed does in this time, rounded up.
  [[nodiscard]] uint128 work_of_speed(uint128 time, std::uint32_t speed) const noexcept
  {
    return (time * speed + unit_ - 1) / unit_;
  }

  /// A time before which no plan finishes, as policies state what they prove; 0, which proves
  /// nothing, where finishing times are rounded up or 63 bits do not hold it.
  [[nodiscard]] ratio makespan(uint128 time) const noexcept
  {
    constexpr auto most = static_cast<uint128>(std::numeric_limits<std::int64_t>::max());
    if (!exact_ || time > most) { return {}; }
    return {static_cast<std::int64_t>(time), static_cast<std::int64_t>(unit_)};
  }

  /// The same also where finishing times are rounded up: they are by less than a unit.
  [[nodiscard]] ratio makespan_of_rounded(uint128 time) const noexcept
  {
    constexpr auto most = static_cast<uint128>(std::numeric_limits<std::int64_t>::max());
    if (exact_ || time == 0 || time > most) { return makespan(time); }
    return {static_cast<std::int64_t>(time - 1), static_cast<std::int64_t>(unit_)};
  }

  [[nodiscard]] uint128 least() const noexcept { return least_; }
  [[nodiscard]] uint128 enough() const noexcept { return enough_; }

  /// Whether finishing times are not rounded, so that the least time is an optimum.
  [[nodiscard]] bool exact() const noexcept { return exact_; }

  /// Whether two bags have the same speed and load, so that they differ in size at most.
  [[nodiscard]] bool alike(std::size_t a, std::size_t b) const noexcept
  {
    return speeds_[a] == speeds_[b] && loads_[a] == loads_[b];
  }

 private:
  [[nodiscard]] static std::uint64_t unsigned_of(cost_units work) noexcept
  {
    return static_cast<std::uint64_t>(work);
  }

  std::span<cost_units> loads_;
  std::span<std::uint32_t const> speeds_;
  std::uint64_t unit_ = 1;
  bool exact_ = true;
  uint128 least_ = 0;
  uint128 enough_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PADDING_FINISHING_TIMES_HPP
