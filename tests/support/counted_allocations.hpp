// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_COUNTED_ALLOCATIONS_HPP
#define BALLAST_TESTS_SUPPORT_COUNTED_ALLOCATIONS_HPP

#include <cstddef>

namespace ballast_test {

/// How often this program has called operator new: a steady state must leave it as it is. A program
/// that calls this gets a counting operator new.
[[nodiscard]] std::size_t allocations() noexcept;

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_COUNTED_ALLOCATIONS_HPP
