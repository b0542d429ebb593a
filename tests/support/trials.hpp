// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace ballast_test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
inline constexpr bool is_sanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool is_sanitized = false;
#endif

/// How many cases a dear test tries. Under the address sanitizer, without optimisation, each takes
/// some twenty times as long; it looks for wrong accesses, which one case of ten shows, or of more
/// where each is very dear.
[[nodiscard]] constexpr int trials_of(int all, int one_of = 10)
{
  return is_sanitized ? std::max(1, all / one_of) : all;
}

}  // namespace ballast_test
