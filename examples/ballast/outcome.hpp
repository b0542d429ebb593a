// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <fmt/format.h>

namespace cli {

/// An error for people, and the exit code it ends the program with: 1 for data, 2 for usage.
struct failure {
  int exit_code = 1;
  std::string message;
};
template <class T>
using outcome = tl::expected<T, failure>;

inline tl::unexpected<failure> usage(std::string message)
{
  return tl::unexpected(failure{2, std::move(message)});
}
inline tl::unexpected<failure> usage(std::string_view option, ballast::error const& why)
{
  return usage(fmt::format("{}: {}", option, why.message));
}
inline tl::unexpected<failure> bad_data(std::string message)
{
  return tl::unexpected(failure{1, std::move(message)});
}

}  // namespace cli
