// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DIGEST_HPP
#define BALLAST_CORE_DIGEST_HPP

#include <ballast/core/config.hpp>

#include <cstdint>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// A 64-bit fingerprint of a plan: ranks compare one word before the first byte moves.
///
/// Every word is mixed into the state by an xor, a multiplication and a xor-shift (the finaliser of
/// splitmix64), so that order matters and one changed bit changes about half of the result. It is
/// arithmetic on values, not on memory: padding, endianness and compiler do not matter.
///
/// Ensures     (1) equal sequences of words give equal values in every process and build
///             (2) adding spans includes their sizes: [1][2,3] and [1,2][3] differ
/// Complexity  O(1) per word.
/// Source      G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number
///             Generators", OOPSLA 2014 (the mixing function). Not cryptographic.
class digest {
 public:
  constexpr digest& add(std::uint64_t word) noexcept
  {
    state_ ^= word;
    state_ += 0x9e3779b97f4a7c15U;
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9U;
    state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111ebU;
    state_ ^= state_ >> 31;
    return *this;
  }

  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  constexpr digest& add(std::span<T const> words) noexcept
  {
    add(static_cast<std::uint64_t>(words.size()));
    for (T const word : words) { add(static_cast<std::uint64_t>(word)); }
    return *this;
  }

  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_DIGEST_HPP
