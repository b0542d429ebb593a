// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/quantities.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

namespace ballast::inline v0 {

/// Random numbers that are the same for the same seed on every standard library.
///
/// The engines of `<random>` are specified to the bit but its distributions and std::shuffle are
/// not, so a seed alone would not make two ranks agree. It is a uniform_random_bit_generator, so it
/// also drives `<random>` where that does not matter.
///
/// Complexity  O(1) per number, eight bytes of state.
/// Source      splitmix64: Steele, Lea, Flood, OOPSLA 2014. Bounded numbers: D. Lemire, "Fast
///             Random Integer Generation in an Interval", ACM TOMACS 29(1), 2019.
class random_source {
 public:
  using result_type = std::uint64_t;

  explicit constexpr random_source(std::uint64_t seed) noexcept : state_(seed) {}

  [[nodiscard]] static constexpr result_type min() noexcept { return 0; }
  [[nodiscard]] static constexpr result_type max() noexcept
  {
    return std::numeric_limits<result_type>::max();
  }

  constexpr result_type operator()() noexcept
  {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound), without bias. Expects bound >= 1.
  constexpr std::uint64_t below(std::uint64_t bound)
  {
    BALLAST_EXPECTS(bound >= 1, "a random number below 0 was asked for");
    uint128 product = static_cast<uint128>((*this)()) * bound;
    // The lowest 2^64 mod bound values of the fraction would make some results likelier.
    std::uint64_t const rejected = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < rejected) {
      product = static_cast<uint128>((*this)()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Uniform in [low, high], both included. Expects low <= high.
  constexpr std::int64_t between(std::int64_t low, std::int64_t high)
  {
    BALLAST_EXPECTS(low <= high, "a random number from ", low, " to ", high, " was asked for");
    // Unsigned arithmetic: high - low may not fit the signed type.
    auto const width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    std::uint64_t const step = width == max() ? (*this)() : below(width + 1);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + step);
  }

  /// Every order of `items` equally likely (Fisher and Yates). O(n).
  template <class T>
  constexpr void shuffle(std::span<T> items)
  {
    for (std::size_t left = items.size(); left > 1; --left) {
      using std::swap;
      swap(items[left - 1], items[static_cast<std::size_t>(below(left))]);
    }
  }

 private:
  std::uint64_t state_;
};

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
    requires(std::is_enum_v<T> || std::is_convertible_v<T, std::uint64_t>)
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
