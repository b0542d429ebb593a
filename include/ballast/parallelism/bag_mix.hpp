// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_BAG_MIX_HPP
#define BALLAST_PARALLELISM_BAG_MIX_HPP

#include <ballast/topology/bag_layout.hpp>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

/// How many bags of 1, 2, 4 and 8 GPUs a job has.
///
/// Shapes      bags[k] counts those of gpus_of(k) = 2^k GPUs.
/// Ensures     (1) ordered by the bags of one GPU, then of two, and so on
struct bag_mix {
  static constexpr std::size_t sizes = 4;
  static constexpr std::uint32_t largest = std::uint32_t{1} << (sizes - 1);

  std::array<std::uint32_t, sizes> bags{};

  [[nodiscard]] static constexpr std::uint32_t gpus_of(std::size_t size) noexcept
  {
    return std::uint32_t{1} << size;
  }

  [[nodiscard]] constexpr std::size_t gpus() const noexcept
  {
    std::size_t sum = 0;
    for (std::size_t size = 0; size < sizes; ++size) {
      sum += std::size_t{bags[size]} * gpus_of(size);
    }
    return sum;
  }

  /// Whether all bags have one size.
  [[nodiscard]] constexpr bool is_uniform() const noexcept
  {
    std::size_t different = 0;
    for (std::uint32_t const count : bags) { different += count != 0 ? 1 : 0; }
    return different <= 1;
  }

  /// The mix as a specification of one replica, larger bags first: `g4n2+g1n8`.
  ///
  /// Expects     gpus() <= bag_spec::max_gpus.
  [[nodiscard]] constexpr bag_spec spec() const
  {
    bag_spec written;
    for (std::size_t size = sizes; size-- > 0;) {
      if (bags[size] != 0) { (void)written.add({gpus_of(size), bags[size]}); }
    }
    return written;
  }

  friend constexpr bool operator==(bag_mix const&, bag_mix const&) = default;
  friend constexpr std::strong_ordering operator<=>(bag_mix const&, bag_mix const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_BAG_MIX_HPP
