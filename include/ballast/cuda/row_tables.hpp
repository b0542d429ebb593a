// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_ROW_TABLES_HPP
#define BALLAST_CUDA_ROW_TABLES_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/units.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// Consecutive rows that travel to or from a peer: a row_range in the 16 bytes of one load. No
/// range is longer than a sample, so its rows fit 32 bits.
struct alignas(16) peer_rows {
  tokens first = 0;
  std::uint32_t count = 0;
  std::uint32_t peer = 0;
};

/// One side of an exchange where kernels read it, a route_table: how much of it there is is told by
/// memory too, so that a graph can be replayed with another step's.
///
/// Shapes      ranges[bound], of which the first *there count, by ascending peer; rows[ranks].
struct device_ranges {
  peer_rows const* ranges = nullptr;
  std::uint32_t const* there = nullptr;
  tokens const* rows = nullptr;  ///< to or from each peer
  std::uint32_t bound = 0;
  std::uint32_t ranks = 0;
};

/// The rows that stay, where kernels read them: kept[bound], of which the first *there count.
struct device_kept {
  kept_rows const* kept = nullptr;
  std::uint32_t const* there = nullptr;
  std::uint32_t bound = 0;
};

/// What a kernel must know of a row_array.
struct device_row_array {
  std::byte const* from = nullptr;
  std::byte* to = nullptr;
  std::size_t row_bytes = 0;
};

/// The arrays that travel together, by value. A launch copies them, and a graph keeps a copy for
/// each of its kernels, so that there are no more than `most`: what a transformer takes along is
/// activations, labels, positions, masks and two or three tags, and two routes carry sixteen.
///
/// Expects     arrays where the device reaches them; at most `most`.
struct device_rows {
  static constexpr std::uint32_t most = 8;

  device_row_array arrays[most] = {};
  std::uint32_t count = 0;

  explicit device_rows(std::span<row_array const> all)
      : count(static_cast<std::uint32_t>(all.size()))
  {
    BALLAST_EXPECTS(all.size() <= most);
    for (std::size_t index = 0; index < all.size(); ++index) {
      arrays[index] = {all[index].from.data(), all[index].to.data(), all[index].row_bytes};
    }
  }
};

static_assert(std::is_trivially_copyable_v<device_ranges> &&
              std::is_trivially_copyable_v<device_kept> &&
              std::is_trivially_copyable_v<device_rows>);

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_ROW_TABLES_HPP
