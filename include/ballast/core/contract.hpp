// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_CONTRACT_HPP
#define BALLAST_CORE_CONTRACT_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace ballast::inline v0::detail {

/// Writes a text, a number or an identifier at `text`, which has room for `room` characters and a
/// zero. Returns how many characters it wrote.
template <class Piece>
[[nodiscard]] std::size_t write_piece(char* text, std::size_t room, Piece piece)
{
  int written = 0;
  if constexpr (std::is_convertible_v<Piece, char const*>) {
    written = std::snprintf(text, room + 1, "%s", static_cast<char const*>(piece));
  } else if constexpr (std::is_floating_point_v<Piece>) {
    written = std::snprintf(text, room + 1, "%g", static_cast<double>(piece));
  } else if constexpr (std::is_signed_v<Piece>) {
    static_assert(std::is_integral_v<Piece>);
    written = std::snprintf(text, room + 1, "%lld", static_cast<long long>(piece));
  } else {
    static_assert(std::is_integral_v<Piece> || std::is_enum_v<Piece>);
    written = std::snprintf(text, room + 1, "%llu", static_cast<unsigned long long>(piece));
  }
  auto const wanted = static_cast<std::size_t>(written < 0 ? 0 : written);
  return wanted < room ? wanted : room;
}

/// Ends the program with a message made of these pieces. They are values, so that a loop need not
/// keep in memory what a sentence could mention.
template <class... Pieces>
[[noreturn, gnu::cold]] void contract_failed(char const* file, int line, Pieces... pieces)
{
  constexpr std::size_t room = 511;
  char sentence[room + 1] = {};
  std::size_t at = 0;
  ((at += write_piece(&sentence[at], room - at, pieces)), ...);
  std::fprintf(stderr, "%s:%d: ballast: the caller broke a precondition: %s\n", file, line,
               sentence);
  std::abort();
}

}  // namespace ballast::inline v0::detail

/// A precondition that costs O(1) to check: message and abort, in every build type. In device code
/// it traps. It is not for data from outside the process, whose errors are a `result<T>`.
///
///     BALLAST_EXPECTS(width >= 1);
///     BALLAST_EXPECTS(bag < bags, "the policy left sample ", sample, " without a bag");
///
/// The message is the condition as written, or a sentence made of pieces: first a string literal, then
/// texts, numbers and identifiers. They are evaluated only where the condition is false.
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
