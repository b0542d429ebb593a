// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <memory>

namespace by_name {

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

/// A value that holds any policy behind an Interface: what any_policy and any_order_policy are.
/// Copies share the policy, which never changes.
///
/// Ensures     (1) two are equal when they hold equal policies of the same type
template <class Interface>
class any_held {
 public:
  // There is no move, which would leave one without a policy.
  any_held(any_held const&) = default;
  any_held& operator=(any_held const&) = default;

  friend bool operator==(any_held const& a, any_held const& b) { return a.held_->equals(*b.held_); }

 protected:
  // One type of shared pointer for all policies compiles faster than std::make_shared of each.
  explicit any_held(Interface const* held) : held_(held) {}
  ~any_held() = default;

  [[nodiscard]] Interface const& held() const noexcept { return *held_; }

 private:
  std::shared_ptr<Interface const> held_;
};

}  // namespace by_name
