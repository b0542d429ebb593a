// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_NO_LENGTH_HPP
#define BALLAST_PARTITION_NO_LENGTH_HPP

#include <ballast/core/quantities.hpp>

namespace ballast::inline v0 {

/// The length of samples that no bag splits: every bag takes them.
///
///     partition(samples, one_gpu_bags(64), refine{}, encoder_and_llm_time, no_length{})
struct no_length {
  template <class Sample>
  [[nodiscard]] constexpr tokens operator()(Sample const&) const noexcept
  {
    return 0;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_NO_LENGTH_HPP
