// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_LOADER_OPTIONS_HPP
#define BALLAST_RUNTIME_DATA_LOADER_OPTIONS_HPP

#include <ballast/core/config.hpp>

#include <chrono>
#include <cstddef>

namespace ballast::inline v0 {

/// How many loaders fetch samples, and when one of them is given up.
struct loader_options {
  /// Bounds of their number, which follows measured rates; at least 1.
  std::size_t least = 1;
  std::size_t most = 4;
  /// A loader that says nothing for so long while it is waited for is lost: its samples go to
  /// others. Longer than any sample takes to load.
  std::chrono::milliseconds late_after = std::chrono::minutes(5);
  /// So many loaders may be lost; one more is an error of the step.
  std::size_t most_lost = 64;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_LOADER_OPTIONS_HPP
