// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_VALUE_OR_THROW_HPP
#define BALLAST_CORE_VALUE_OR_THROW_HPP

#include <ballast/core/result.hpp>

#ifdef __cpp_exceptions

#include <stdexcept>
#include <type_traits>
#include <utility>

namespace ballast::inline v0 {

/// What `value_or_throw` throws: what() is the sentence of the error.
class result_error : public std::runtime_error {
 public:
  explicit result_error(error reason)
      : std::runtime_error(reason.message), reason_(std::move(reason))
  {}

  [[nodiscard]] error const& reason() const noexcept { return reason_; }

 private:
  error reason_;
};

/// The value of a result, for programs that end where they cannot go on:
///
///     auto const plan = value_or_throw(partition(lengths, bags, refine{}, cost));
///
/// The only function of the library that throws. Without exceptions (-fno-exceptions) it does not
/// exist.
///
/// Ensures     (1) where there is no value it throws a result_error with the error; `value()` of the
///                 result would throw without the sentence
template <class T>
[[nodiscard]] T value_or_throw(result<T> from)
{
  if (!from) { throw result_error(std::move(from).error()); }
  if constexpr (!std::is_void_v<T>) { return *std::move(from); }
}

}  // namespace ballast::inline v0

#endif  // __cpp_exceptions

#endif  // BALLAST_CORE_VALUE_OR_THROW_HPP
