// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/quantities.hpp>

#include <exception>

#if __has_include(<tl/expected.hpp>)
#include <tl/expected.hpp>
#else
#error "ballast needs tl/expected.hpp, one header (Debian: libexpected-dev): add its folder with -I"
#include <tl_expected_is_missing>  // stops g++, which goes on after #error
#endif

#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// What kind of thing went wrong, for code that reacts; people read `error::message`.
enum class error_code {
  syntax,         ///< text does not follow its grammar; position is a byte offset from 0
  bad_row,        ///< a row of a file cannot be used; position is its line number from 1
  unknown_name,   ///< a column, policy or parameter does not exist; position is a byte offset
  out_of_range,   ///< a value is outside what can be handled; position is its index or offset
  infeasible,     ///< no valid plan exists; position is the index of the sample or bag
                  ///< that does not fit
  unreadable,     ///< a file cannot be opened or read; position is 0
  unwritable,     ///< a file cannot be written; position is 0
  mismatch,       ///< ranks asked for different things, and nothing was moved; position is 0
  timed_out,      ///< ranks did not come within the deadline; position is 0
  peer_lost,      ///< ranks died or gave up; position is 0
  transport,      ///< MPI, NCCL or CUDA failed; position is that library's own code
  out_of_memory,  ///< the memory of a device does not suffice; position is 0
  wrong_order,    ///< a call came before one that it needs, or after one that it excludes; position
                  ///< is 0
  failed,         ///< what the caller gave to be run threw an exception; position is 0
  cancelled,      ///< the caller's `cancellable` stopped the planner; position is 0
};

/// The name of a code, for logs.
[[nodiscard]] constexpr char const* name_of(error_code code) noexcept
{
  switch (code) {
    case error_code::syntax: return "syntax";
    case error_code::bad_row: return "bad_row";
    case error_code::unknown_name: return "unknown_name";
    case error_code::out_of_range: return "out_of_range";
    case error_code::infeasible: return "infeasible";
    case error_code::unreadable: return "unreadable";
    case error_code::unwritable: return "unwritable";
    case error_code::mismatch: return "mismatch";
    case error_code::timed_out: return "timed_out";
    case error_code::peer_lost: return "peer_lost";
    case error_code::transport: return "transport";
    case error_code::out_of_memory: return "out_of_memory";
    case error_code::wrong_order: return "wrong_order";
    case error_code::failed: return "failed";
    case error_code::cancelled: return "cancelled";
  }
  return "unknown";
}

/// Why an operation on data from outside the process failed.
struct error {
  error_code code{};
  std::size_t position = 0;         ///< see each code for what it counts
  std::string message;              ///< one sentence: what was wrong, where, and what to do
  std::vector<rank_id> ranks = {};  ///< that differ (mismatch), are missing (timed_out) or lost

  friend bool operator==(error const&, error const&) = default;
};

}  // namespace ballast::inline v0

/// What `value()` of a `ballast::result` throws where there is no value: what() is the sentence.
template <>
class tl::bad_expected_access<ballast::error> : public std::exception {
 public:
  explicit bad_expected_access(ballast::error reason) : reason_(std::move(reason)) {}

  [[nodiscard]] char const* what() const noexcept override { return reason_.message.c_str(); }
  [[nodiscard]] ballast::error const& error() const noexcept { return reason_; }

 private:
  ballast::error reason_;
};

namespace ballast::inline v0 {

/// A value or an error. Every function that reads data from outside the process returns one, so
/// that bad input is neither overlooked nor ends the process. A program that cannot go on without
/// the value takes `or_throw(...)`, which throws the sentence; what it wrote itself it constructs.
template <class T>
using result = tl::expected<T, error>;

/// The failed side of every `result`. Its sentence is made of pieces, as that of BALLAST_EXPECTS:
/// texts, numbers and identifiers.
///
///     return fail(error_code::infeasible, sample, "sample ", sample, " fits no bag; ...");
template <class... Pieces>
  requires(sizeof...(Pieces) > 0)
[[nodiscard, gnu::cold]] tl::unexpected<error> fail(error_code code, std::size_t position,
                                                    Pieces const&... pieces)
{
  return tl::unexpected<error>(error{code, position, detail::concat_pieces({pieces...})});
}

#ifdef __cpp_exceptions
/// The value of a result, or the sentence, thrown. (`.value()` is the same; tl::expected 1.0 leaves
/// it out where there is no value.)
template <class T>
  requires(!std::is_void_v<T>)
[[nodiscard]] T or_throw(result<T> made)
{
  return std::move(made).value();
}
inline void or_throw(result<void> const& done)
{
  if (!done) { throw tl::bad_expected_access<error>(done.error()); }
}
#endif

namespace detail {

/// What a planner returns that was told to stop.
[[nodiscard, gnu::cold]] inline tl::unexpected<error> cancelled()
{
  return fail(error_code::cancelled, 0, "the caller stopped the search before it had a plan");
}

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

}  // namespace detail

}  // namespace ballast::inline v0
