// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_THROWN_TEXT_HPP
#define BALLAST_RUNTIME_DETAIL_THROWN_TEXT_HPP

#include <ballast/core/config.hpp>
#include <ballast/text/detail/text_escape.hpp>

#include <exception>
#include <string>

namespace ballast::inline v0::detail {

/// What a caught exception says, in one line.
[[nodiscard]] inline std::string thrown_text(std::exception_ptr const& thrown)
{
#ifdef __cpp_exceptions
  try {
    std::rethrow_exception(thrown);
  } catch (std::exception const& problem) {
    return in_one_line(problem.what());
  } catch (...) {
    return "something that is no std::exception";
  }
#else
  static_cast<void>(thrown);
  return {};  // nothing throws
#endif
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_THROWN_TEXT_HPP
