// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_CONTRACT_HPP
#define BALLAST_CORE_CONTRACT_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/detail/text_piece.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace ballast::inline v0 {

/// A precondition that the caller of ballast broke. The texts live as long as the handler's call.
struct broken_precondition {
  char const* file;
  int line;
  char const* sentence;  ///< what was wrong, or the condition as written
};

/// What a broken precondition calls, on the thread that broke it, which may be several at once.
using precondition_handler = void (*)(broken_precondition const&);

namespace detail {

// Read and written at once by all threads; <atomic> would be read by all that include ballast.
inline precondition_handler handler_of_preconditions = nullptr;

}  // namespace detail

/// Has broken preconditions call this function from now on, in all threads of the process; null:
/// they write the sentence to standard error. Returns the function before.
///
/// The function may log, print a stack and end the process in its own manner. Where it returns, the
/// program aborts; where it throws, the program is terminated, since no invariant holds any more.
/// What it breaks itself is written to standard error.
inline precondition_handler set_precondition_handler(precondition_handler handler) noexcept
{
  return __atomic_exchange_n(&detail::handler_of_preconditions, handler, __ATOMIC_ACQ_REL);
}

namespace detail {

/// Ends the program with a message made of these pieces.
[[noreturn, gnu::cold]] inline void contract_failed_with(
    char const* file, int line, std::initializer_list<text_piece> pieces) noexcept
{
  constexpr std::size_t room = 511;
  char sentence[room + 1] = {};
  std::size_t at = 0;
  for (text_piece const piece : pieces) {
    text_piece::digits digits;
    auto const characters = piece.read(digits);
    std::size_t const count = characters.count < room - at ? characters.count : room - at;
    std::memcpy(&sentence[at], characters.first, count);
    at += count;
  }
  thread_local bool is_handling = false;
  precondition_handler const handler = __atomic_load_n(&handler_of_preconditions, __ATOMIC_ACQUIRE);
  if (handler != nullptr && !is_handling) {
    is_handling = true;
    handler({file, line, sentence});
  } else {
    std::fprintf(stderr, "%s:%d: ballast: the caller broke a precondition: %s\n", file, line,
                 sentence);
  }
  std::abort();
}

/// The same. The pieces are values, so that a loop need not keep in memory what a sentence could
/// mention, and a caller has little to do for a call that never comes.
template <class... Pieces>
// NOLINTNEXTLINE(performance-unnecessary-value-param)
[[noreturn, gnu::cold]] void contract_failed(char const* file, int line, Pieces... pieces)
{
  contract_failed_with(file, line, {pieces...});
}

}  // namespace detail

}  // namespace ballast::inline v0

/// A precondition that costs O(1) to check: message and abort, in every build type, or what
/// `set_precondition_handler` was given. In device code it traps. It is not for data from outside
/// the process, whose errors are a `result<T>`.
///
///     BALLAST_EXPECTS(width >= 1);
///     BALLAST_EXPECTS(bag < bags, "the policy left sample ", sample, " without a bag");
///
/// The message is the condition as written, or a sentence made of pieces: first a string literal,
/// then texts, numbers and identifiers. They are evaluated only where the condition is false.
#ifdef __CUDA_ARCH__
#define BALLAST_EXPECTS(condition, ...) ((condition) ? static_cast<void>(0) : __trap())
#else
#define BALLAST_EXPECTS(condition, ...)              \
  ((condition) ? static_cast<void>(0)         \
               : ::ballast::detail::contract_failed( \
                     __FILE__, __LINE__, __VA_OPT__(false ?) #condition __VA_OPT__(:) __VA_ARGS__))
#endif

/// A precondition that costs O(n) to check: checked only where `BALLAST_AUDIT_ENABLED` is defined
/// before the first include, as the sanitizer build does.
#ifdef BALLAST_AUDIT_ENABLED
#define BALLAST_AUDIT(condition, ...) BALLAST_EXPECTS(condition __VA_OPT__(, ) __VA_ARGS__)
#else
#define BALLAST_AUDIT(condition, ...) static_cast<void>(0)
#endif

#endif  // BALLAST_CORE_CONTRACT_HPP
