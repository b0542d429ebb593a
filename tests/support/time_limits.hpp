// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace ballast_test {

/// How long a test waits for what is expected to come: all of it where the test fails.
inline constexpr std::chrono::minutes time_bound{1};

}  // namespace ballast_test
