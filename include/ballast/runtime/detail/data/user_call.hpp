// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_USER_CALL_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_USER_CALL_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/runtime/detail/thrown_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
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
  if (auto const thrown = thrown_by(f)) { return tl::unexpected(what_was_thrown(name, thrown)); }
  return {};
}

/// Whether such a call gave as many lengths as a sample has.
///
/// Errors      out_of_range: it gave another number, or one below 0 or above longest_sample.
[[nodiscard]] inline result<void> expect_lengths(std::string_view call, std::uint64_t sample,
                                                 std::span<tokens const> lengths,
                                                 std::size_t modules)
{
  bool const valid = std::all_of(lengths.begin(), lengths.end(), [](tokens length) {
    return length >= 0 && length <= longest_sample;
  });
  if (valid && lengths.size() == modules) { return {}; }
  return fail(error_code::out_of_range, static_cast<std::size_t>(sample), "sample ", sample,
              " has ", counted(lengths.size(), "length"), valid ? "" : ", not all in range", "; ",
              call, " has to give ", modules, ", from 0 to ", longest_sample);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_USER_CALL_HPP
