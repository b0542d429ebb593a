// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_ROW_TABLES_HPP
#define BALLAST_CUDA_ROW_TABLES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// Consecutive rows that are sent to or received from a peer: a row_range in the 16 bytes of one
/// load. No range is longer than a sample, so 32 bits hold its count.
struct alignas(16) peer_rows {
  tokens first = 0;
  std::uint32_t count = 0;
  std::uint32_t peer = 0;
};

/// A route_table in memory that kernels read. The number of ranges is in memory too, so that a
/// graph can be replayed with another step's table.
///
/// Shapes      ranges[bound]: the first *count are the table's, by ascending peer; rows[ranks].
struct device_ranges {
  peer_rows const* ranges = nullptr;
  std::uint32_t const* count = nullptr;
  tokens const* rows = nullptr;  ///< to or from each peer
  std::uint32_t bound = 0;
  std::uint32_t ranks = 0;
};

/// The rows that stay on their rank, in memory that kernels read.
///
/// Shapes      kept[bound]: the first *count are the plan's.
struct device_kept {
  kept_rows const* kept = nullptr;
  std::uint32_t const* count = nullptr;
  std::uint32_t bound = 0;
};

/// What a kernel must know of a row_array.
struct device_row_array {
  std::byte const* from = nullptr;
  std::byte* to = nullptr;
  std::size_t row_bytes = 0;
};

/// The arrays that one route moves together, for kernels, by value: every launch copies them, and a
/// graph keeps a copy for each of its kernels. So there are at most eight: a transformer has
/// activations, labels, positions, masks and two or three tags. More take a second route.
///
/// Expects     at most `most` arrays, in memory that the device reaches.
struct device_rows {
  static constexpr std::uint32_t most = 8;

  device_row_array arrays[most] = {};
  std::uint32_t count = 0;

  explicit device_rows(std::span<row_array const> all)
      : count(static_cast<std::uint32_t>(all.size()))
  {
    BALLAST_EXPECTS(all.size() <= most, "a call exchanges ", all.size(),
                    " arrays, and the most is ", most);
    for (std::size_t index = 0; index < all.size(); ++index) {
      arrays[index] = {all[index].from.data(), all[index].to.data(), all[index].row_bytes};
    }
  }

  /// Returns whether these are as many arrays of the same widths, wherever they are.
  [[nodiscard]] bool has_shapes_of(device_rows const& other) const
  {
    return std::equal(
        arrays, arrays + count, other.arrays, other.arrays + other.count,
        [](auto const& one, auto const& two) { return one.row_bytes == two.row_bytes; });
  }
};

static_assert(std::is_trivially_copyable_v<device_ranges> &&
              std::is_trivially_copyable_v<device_kept> &&
              std::is_trivially_copyable_v<device_rows>);

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_ROW_TABLES_HPP
