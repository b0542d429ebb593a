// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_QUADRATIC_WORK_HPP
#define BALLAST_TESTS_SUPPORT_QUADRATIC_WORK_HPP

#include <ballast/core/quantities.hpp>

namespace ballast_test {

/// Work that grows faster than lengths, as attention does.
inline constexpr auto quadratic_work = [](ballast::tokens length) {
  return length * length + 100 * length;
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_QUADRATIC_WORK_HPP
