// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_PRODUCER_COUNT_HPP
#define BALLAST_RUNTIME_DATA_PRODUCER_COUNT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstddef>

namespace ballast::inline v0 {

/// How many loaders a data pipeline needs, from measured rates: the seconds that loading the
/// samples of a step takes, over those that ranks compute one, and a quarter more.
///
/// Ensures     (1) from least to most; most where ranks compute nothing, least before the first step
///             (2) a larger number at once; a smaller one by one loader, after four steps in a row
///                 for which fewer were enough
class producer_count {
 public:
  /// Expects     1 <= least <= most.
  producer_count(std::size_t least, std::size_t most) : least_(least), most_(most), now_(least)
  {
    BALLAST_EXPECTS(least >= 1 && least <= most, "a data pipeline of ", least, " to ", most,
                    " loaders");
  }

  /// After a step: `loading` is what its samples took one loader, `computing` the time that ranks
  /// computed, both in one unit.
  std::size_t after(time_units loading, time_units computing)
  {
    BALLAST_EXPECTS(loading >= 0 && computing >= 0);
    std::size_t const needed = enough(loading, computing);
    if (needed >= now_) {
      now_ = needed;
      fewer_ = 0;
    } else if (++fewer_ == 4) {
      --now_;
      fewer_ = 0;
    }
    return now_;
  }

  [[nodiscard]] std::size_t now() const { return now_; }

 private:
  [[nodiscard]] std::size_t enough(time_units loading, time_units computing) const
  {
    auto const load = static_cast<uint128>(loading) * 5;
    auto const compute = static_cast<uint128>(computing) * 4;
    if (load > compute * most_ || compute == 0) { return loading == 0 ? least_ : most_; }
    return std::max(least_, static_cast<std::size_t>((load + compute - 1) / compute));
  }

  std::size_t least_;
  std::size_t most_;
  std::size_t now_;
  std::size_t fewer_ = 0;  // steps in a row
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_PRODUCER_COUNT_HPP
