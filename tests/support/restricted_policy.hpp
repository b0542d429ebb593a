// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_RESTRICTED_POLICY_HPP
#define BALLAST_TESTS_SUPPORT_RESTRICTED_POLICY_HPP

#include <ballast/partition/longest_processing_time.hpp>

namespace ballast_test {

/// A policy that says that its plans are restricted, which others must not change.
struct restricted_policy : ballast::longest_processing_time {
  [[nodiscard]] static constexpr bool restricts() { return true; }
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_RESTRICTED_POLICY_HPP
