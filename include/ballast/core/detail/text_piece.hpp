// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_TEXT_PIECE_HPP
#define BALLAST_CORE_DETAIL_TEXT_PIECE_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace ballast::inline v0::detail {

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
    requires(std::is_class_v<Text>)
  constexpr text_piece(Text const& text) noexcept
      : kind_(kind::counted), text_(text.data()), count_(text.size())
  {}

  template <class Number>
    requires(std::is_arithmetic_v<Number> || std::is_enum_v<Number>)
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_TEXT_PIECE_HPP
