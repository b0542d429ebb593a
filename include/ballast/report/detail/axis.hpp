// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_AXIS_HPP
#define BALLAST_REPORT_DETAIL_AXIS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/report/detail/numbers.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ballast::inline v0::detail {

/// Where values lie along one side of a chart, and which round values to name there.
///
/// Expects     bounds are finite and at most 1e30; linear: highest >= 0 and intervals >= 1;
///             logarithmic: 1e-30 <= lowest < highest.
/// Ensures     (1) fraction is 0 at the lowest value, 1 at the highest, and grows between them;
///                 a linear axis begins at 0, and one that would end below 1e-30 ends at 1
///             (2) ticks are increasing, within the bounds, and round: a linear axis names the
///                 multiples of a 1, 2 or 5 times a power of ten, the finest that makes at most
///                 `intervals` intervals
///             (3) a logarithmic axis names 1, 2 and 5 in each decade; only 1 where there are more
///                 than four decades; and linear steps where fewer than three of these lie within
///                 the bounds
class axis {
 public:
  [[nodiscard]] static axis linear(double highest, std::size_t intervals)
  {
    BALLAST_EXPECTS(in_range(highest) && highest >= 0, "the highest value of a chart is ", highest,
                    ", which is not from 0 to 1e30");
    BALLAST_EXPECTS(intervals >= 1);
    axis made(0, highest >= 1e-30 ? highest : 1, false);
    made.add_multiples(round_step(made.highest_, intervals));
    return made;
  }

  [[nodiscard]] static axis logarithmic(double lowest, double highest)
  {
    BALLAST_EXPECTS(in_range(lowest) && in_range(highest) && lowest >= 1e-30 && lowest < highest,
                    "the values of a chart go from ", lowest, " to ", highest,
                    ", which does not grow between 1e-30 and 1e30");
    axis made(lowest, highest, true);
    bool const only_decades = highest / lowest > 1e4;
    double decade = 1;
    while (decade > lowest) { decade /= 10; }
    for (; decade <= highest; decade *= 10) {
      for (double const digit : {1.0, 2.0, 5.0}) {
        double const tick = digit * decade;
        bool const within = tick >= lowest && tick <= highest;
        if (within && (digit < 2 || !only_decades)) { made.ticks_.push_back(tick); }
      }
    }
    if (made.ticks_.size() < 3) {
      made.ticks_.clear();
      made.add_multiples(round_step(highest - lowest, 6));
    }
    return made;
  }

  /// Where `value` lies between the ends; outside [0, 1] for a value beyond them.
  [[nodiscard]] double fraction(double value) const
  {
    if (!logarithmic_) { return value / highest_; }
    return std::log(value / lowest_) / std::log(highest_ / lowest_);
  }

  [[nodiscard]] double lowest() const noexcept { return lowest_; }
  [[nodiscard]] double highest() const noexcept { return highest_; }
  [[nodiscard]] std::vector<double> const& ticks() const noexcept { return ticks_; }

 private:
  axis(double lowest, double highest, bool logarithmic)
      : lowest_(lowest), highest_(highest), logarithmic_(logarithmic)
  {}

  [[nodiscard]] static bool in_range(double value) { return is_finite(value) && value <= 1e30; }

  [[nodiscard]] static double round_step(double range, std::size_t intervals)
  {
    auto const finest = range / static_cast<double>(intervals);
    double decade = 1;
    while (decade > finest) { decade /= 10; }
    while (decade * 10 <= finest) { decade *= 10; }
    for (double const digit : {1.0, 2.0, 5.0}) {
      if (digit * decade >= finest) { return digit * decade; }
    }
    return 10 * decade;
  }

  void add_multiples(double step)
  {
    // A tick that is the end itself may come out just past it.
    double const end = highest_ + step * 1e-9;
    for (double count = std::ceil(lowest_ / step); count * step <= end; ++count) {
      ticks_.push_back(std::min(count * step, highest_));
    }
  }

  double lowest_;
  double highest_;
  bool logarithmic_;
  std::vector<double> ticks_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_AXIS_HPP
