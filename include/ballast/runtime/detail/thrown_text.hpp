// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_THROWN_TEXT_HPP
#define BALLAST_RUNTIME_DETAIL_THROWN_TEXT_HPP

#include <ballast/core/config.hpp>

#include <exception>
#include <string>

namespace ballast::inline v0::detail {

/// What a caught exception says.
[[nodiscard]] inline std::string thrown_text(std::exception_ptr const& thrown)
{
  try {
    std::rethrow_exception(thrown);
  } catch (std::exception const& problem) {
    return problem.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_THROWN_TEXT_HPP
