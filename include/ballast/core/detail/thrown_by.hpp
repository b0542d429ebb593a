// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_THROWN_BY_HPP
#define BALLAST_CORE_DETAIL_THROWN_BY_HPP

#include <ballast/core/config.hpp>

#include <exception>

namespace ballast::inline v0::detail {

/// Makes a call, and returns what it threw; null if it returned. It stands for try and catch, which
/// programs without exceptions cannot compile.
template <class Call>
[[nodiscard]] std::exception_ptr thrown_by(Call&& call)
{
#ifdef __cpp_exceptions
  try {
    call();
  } catch (...) {
    return std::current_exception();
  }
#else
  call();
#endif
  return nullptr;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_THROWN_BY_HPP
