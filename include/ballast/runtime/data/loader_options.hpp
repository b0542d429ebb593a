// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_LOADER_OPTIONS_HPP
#define BALLAST_RUNTIME_DATA_LOADER_OPTIONS_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

namespace ballast::inline v0 {

/// How many loaders fetch samples, and when one of them is given up.
struct loader_options {
  /// Bounds of their number, which follows measured rates; at least 1.
  std::size_t least = 1;
  std::size_t most = 4;
  /// A loader that says nothing for so long while it is waited for is lost: its samples go to
  /// others. Longer than any sample takes to load, and above 0; the largest value is never.
  std::chrono::milliseconds late_after = std::chrono::minutes(5);
  /// So many loaders may be lost; one more is an error of the step.
  std::size_t most_lost = 64;
};

namespace detail {

/// The same options, with times that a clock can be asked to wait.
[[nodiscard]] inline loader_options checked(loader_options options)
{
  BALLAST_EXPECTS(options.late_after > std::chrono::milliseconds(0), "late_after is ",
                  options.late_after.count(),
                  " ms; give one above 0, milliseconds::max() for never");
  options.late_after = std::min(options.late_after, longest_deadline);
  return options;
}

[[nodiscard]] inline std::string loaders_lost(std::size_t lost)
{
  return concat(counted(lost, "loader"), lost == 1 ? " was" : " were", " lost");
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_LOADER_OPTIONS_HPP
