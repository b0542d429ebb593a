// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/module_times.hpp>

#include <array>
#include <vector>

bool sums(std::vector<std::vector<ballast::sample_id>> const& microbatches,
          std::vector<ballast::tokens> const& lengths)
{
#if defined(OF_NO_MODULE)
  // EXPECT: module_times_projection
  auto const times_of = [](ballast::tokens length) { return length; };
#else
  auto const times_of = [](ballast::tokens length) {
    return std::array{ballast::stage_time{length, length}};
  };
#endif
  return ballast::sum_over_samples(microbatches, lengths, times_of).has_value();
}
