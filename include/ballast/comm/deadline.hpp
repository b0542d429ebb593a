// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DEADLINE_HPP
#define BALLAST_COMM_DEADLINE_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// How long a rank waits for the others by default: long enough for a checkpoint to be written,
/// short enough for a failure to be noticed the same night. milliseconds::max() stands for none; no
/// wait is longer than a year.
inline constexpr std::chrono::milliseconds default_deadline = std::chrono::minutes(10);

namespace detail {

/// What deadlines are cut to where they are added to a clock, which longer ones overflow.
inline constexpr std::chrono::milliseconds longest_deadline = std::chrono::hours(24 * 365);

inline void expect_deadline(std::chrono::milliseconds deadline)
{
  BALLAST_EXPECTS(deadline > std::chrono::milliseconds(0), "the deadline is ", deadline.count(),
                  " ms; give one above 0, milliseconds::max() for none");
}

}  // namespace detail

namespace comm_failure {

/// The deadline passed. `missing` is empty if the communicator cannot tell which ranks are missing.
[[nodiscard]] inline tl::unexpected<error> timed_out(std::string_view operation,
                                                     std::chrono::milliseconds deadline,
                                                     std::vector<rank_id> missing)
{
  std::string message = std::string(operation).append(": ");
  message += missing.empty() ? "some ranks" : ranks_text(missing);
  message += detail::concat(" did not arrive within ", deadline.count(),
                            " ms; look for what holds them up, or raise the deadline");
  return with_ranks(error_code::timed_out, std::move(message), std::move(missing));
}

}  // namespace comm_failure

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_DEADLINE_HPP
