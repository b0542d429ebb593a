// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_USER_CALL_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_USER_CALL_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/detail/thrown_text.hpp>

#include <exception>
#include <string_view>

namespace ballast::inline v0::detail {

/// The error that stands for an exception of a user's call.
[[nodiscard]] inline error what_was_thrown(std::string_view call, std::exception_ptr const& thrown)
{
  return {error_code::failed, 0, concat(call, " threw: ", thrown_text(thrown))};
}

/// Calls what a user gave; `name` says what that is.
///
/// Errors      failed: it threw.
template <class F>
[[nodiscard]] result<void> call_user(std::string_view name, F f)
{
  try {
    f();
  } catch (...) {
    return tl::unexpected(what_was_thrown(name, std::current_exception()));
  }
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_USER_CALL_HPP
