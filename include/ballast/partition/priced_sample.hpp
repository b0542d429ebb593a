// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PRICED_SAMPLE_HPP
#define BALLAST_PARTITION_PRICED_SAMPLE_HPP

#include <ballast/core/quantities.hpp>

namespace ballast::inline v0 {

/// A sample and what it costs.
struct priced_sample {
  cost_units cost = 0;
  sample_id sample{};

  friend constexpr bool operator==(priced_sample, priced_sample) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PRICED_SAMPLE_HPP
