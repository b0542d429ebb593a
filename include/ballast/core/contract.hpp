// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

// IWYU pragma: always_keep
// Every other header includes this one first, directly or through others. A header of that name
// does not exist: an error that ends the compilation, before thousands that follow from the first.
#if __cplusplus < 202002L
#error "ballast needs C++20: compile with -std=c++20 or newer"
#include "ballast needs C++20"
#endif

/// Marks leaf arithmetic that kernels may call: nothing for a host compiler, `__host__ __device__`
/// for nvcc. Callers need no `--expt-relaxed-constexpr`.
#ifdef __CUDACC__
#define BALLAST_HOST_DEVICE __host__ __device__
#else
#define BALLAST_HOST_DEVICE
#endif

/// Before the declaration of a function that ballast::compiled has: with it declared, and without it an
/// inline function whose definition the header includes.
#ifdef BALLAST_COMPILED
#define BALLAST_ONCE
#else
#define BALLAST_ONCE inline
#endif

namespace ballast::inline v0 {

namespace detail {

/// A text, a number or an identifier of a sentence. It refers to the text.
class text_piece {
 public:
  /// Room for a number.
  using digits = char[32];

  struct characters {
    char const* first;
    std::size_t count;
  };

  constexpr text_piece(char const* text) noexcept : kind_(kind::zero_ended), text_(text) {}

  template <class Text>
    requires(std::is_class_v<Text> && !std::is_convertible_v<Text, std::size_t>)
  constexpr text_piece(Text const& text) noexcept
      : kind_(kind::counted), text_(text.data()), count_(text.size())
  {}

  template <class Number>
    requires(std::is_enum_v<Number> || std::is_convertible_v<Number, std::size_t>)
  constexpr text_piece(Number number) noexcept
  {
    static_assert(!std::is_same_v<Number, char>, "write a character as a text of one");
    if constexpr (std::is_floating_point_v<Number>) {
      kind_ = kind::real;
      real_ = static_cast<double>(number);
    } else if constexpr (std::is_signed_v<Number>) {
      kind_ = kind::integer;
      integer_ = number;
    } else {
      kind_ = kind::natural;
      natural_ = static_cast<std::uint64_t>(number);
    }
  }

  /// The characters of the piece, those of a number in `room`.
  [[nodiscard]] characters read(digits& room) const
  {
    int count = 0;
    switch (kind_) {
      case kind::zero_ended: return {text_, std::strlen(text_)};
      case kind::counted: return {text_, count_};
      case kind::natural:
        count =
            std::snprintf(room, sizeof(room), "%llu", static_cast<unsigned long long>(natural_));
        break;
      case kind::integer:
        count = std::snprintf(room, sizeof(room), "%lld", static_cast<long long>(integer_));
        break;
      case kind::real: count = std::snprintf(room, sizeof(room), "%g", real_); break;
    }
    return {room, static_cast<std::size_t>(count < 0 ? 0 : count)};
  }

 private:
  enum class kind : std::uint8_t { zero_ended, counted, natural, integer, real };

  kind kind_;
  union {
    char const* text_ = nullptr;
    std::uint64_t natural_;
    std::int64_t integer_;
    double real_;
  };
  std::size_t count_ = 0;
};

}  // namespace detail

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

namespace ballast::inline v0::detail {

/// A sentence of texts, numbers and identifiers, for errors and reports.
[[nodiscard]] inline std::string concat_pieces(std::initializer_list<text_piece> pieces)
{
  std::string text;
  for (text_piece const piece : pieces) {
    text_piece::digits room;
    auto const characters = piece.read(room);
    text.append(characters.first, characters.count);
  }
  return text;
}

/// The same, of pieces that are written as those of BALLAST_EXPECTS:
///
///     concat("bag ", bag, " of ", gpus, " GPUs")
template <class... Pieces>
[[nodiscard, gnu::cold]] std::string concat(Pieces const&... pieces)
{
  return concat_pieces({pieces...});
}

/// So many of a thing, for sentences: "1 sample", "2 samples", "0 batches", "3 entries".
template <std::integral Number>
[[nodiscard]] std::string counted(Number number, std::string_view thing)
{
  if (number == 1) { return concat(number, " ", thing); }
  if (thing.ends_with("y")) {
    return concat(number, " ", thing.substr(0, thing.size() - 1), "ies");
  }
  return concat(number, " ", thing, thing.ends_with("ch") ? "es" : "s");
}

}  // namespace ballast::inline v0::detail
