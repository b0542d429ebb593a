// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_CONTRACT_HPP
#define BALLAST_CORE_CONTRACT_HPP

#include <ballast/core/config.hpp>

#include <cstdio>
#include <cstdlib>

namespace ballast::inline v0::detail {

[[noreturn]] inline void contract_failed(char const* condition, char const* file, int line)
{
  std::fprintf(stderr, "%s:%d: ballast: the caller broke a precondition: %s\n", file, line,
               condition);
  std::abort();
}

}  // namespace ballast::inline v0::detail

/// A precondition that costs O(1) to check: message and abort, in every build type. In device code
/// it traps. It is not for data from outside the process, whose errors are a `result<T>`.
#ifdef __CUDA_ARCH__
#define BALLAST_EXPECTS(condition) ((condition) ? static_cast<void>(0) : __trap())
#else
#define BALLAST_EXPECTS(condition)    \
  ((condition) ? static_cast<void>(0) \
               : ::ballast::detail::contract_failed(#condition, __FILE__, __LINE__))
#endif

/// A precondition that costs O(n) to check: checked only where `BALLAST_AUDIT_ENABLED` is defined
/// before the first include, as the sanitizer build does.
#ifdef BALLAST_AUDIT_ENABLED
#define BALLAST_AUDIT(condition) BALLAST_EXPECTS(condition)
#else
#define BALLAST_AUDIT(condition) static_cast<void>(0)
#endif

#endif  // BALLAST_CORE_CONTRACT_HPP
