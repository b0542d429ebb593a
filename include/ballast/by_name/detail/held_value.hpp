// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_DETAIL_HELD_VALUE_HPP
#define BALLAST_BY_NAME_DETAIL_HELD_VALUE_HPP

#include <ballast/core/config.hpp>

#include <concepts>
#include <utility>

namespace ballast::inline v0::detail {

/// What the interface of a value of unknown type begins with: it can be compared with another.
struct comparable_interface {
  comparable_interface() = default;
  comparable_interface(comparable_interface const&) = delete;
  comparable_interface& operator=(comparable_interface const&) = delete;
  virtual ~comparable_interface() = default;

  /// Whether both hold equal values of the same type; where these have no ==, whether both are one.
  [[nodiscard]] virtual bool equals(comparable_interface const& other) const = 0;
};

/// A value behind an interface that derives from comparable_interface.
template <class Interface, class Value>
struct held_value : Interface {
  explicit held_value(Value held) : value(std::move(held)) {}

  [[nodiscard]] bool equals(comparable_interface const& other) const final
  {
    if constexpr (std::equality_comparable<Value>) {
      auto const* const same = dynamic_cast<held_value const*>(&other);
      return same != nullptr && value == same->value;
    } else {
      return this == &other;
    }
  }

  Value value;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_BY_NAME_DETAIL_HELD_VALUE_HPP
