// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_ROW_COPIES_HPP
#define BALLAST_CUDA_DETAIL_COPY_ROW_COPIES_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cuda/row_tables.hpp>
#include <ballast/cuda/strided_copy.hpp>
#include <ballast/route/pack_rows.hpp>
#include <ballast/route/route_plan.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// Returns the rows of the i-th range, 0 beyond the last. A scan of them gives the ranges' offsets.
struct rows_of_range {
  device_ranges table;

  [[nodiscard]] BALLAST_HOST_DEVICE tokens operator()(std::uint32_t index) const
  {
    return index < *table.count ? tokens{table.ranges[index].count} : tokens{0};
  }
};

/// Sums over all peers before one.
struct peer_sums {
  tokens rows = 0;
  std::size_t bytes = 0;  ///< of their messages

  [[nodiscard]] BALLAST_HOST_DEVICE friend constexpr peer_sums operator+(peer_sums const& one,
                                                                         peer_sums const& other)
  {
    return {one.rows + other.rows, one.bytes + other.bytes};
  }
};

/// Finds where the block of each array begins in each peer's message, by the layout of
/// pack_rows.hpp.
///
/// For each block it stores its origin: where row 0 of the whole table would be if the block held
/// all rows. So a range's place is the origin plus the rows before it in the whole table. The
/// origin may lie before the messages; the sums are modulo 2^64, so places are right.
///
/// Shapes      origins[ranks][arrays].
struct message_blocks {
  device_ranges table;
  device_rows rows;
  std::size_t* origins = nullptr;
  std::byte* padded = nullptr;  ///< messages that get zeros behind each block, or null

  [[nodiscard]] BALLAST_HOST_DEVICE peer_sums of(std::uint32_t peer) const
  {
    peer_sums own{table.rows[peer], 0};
    for (std::uint32_t array = 0; array < rows.count; ++array) {
      own.bytes += block_bytes(own.rows, rows.arrays[array].row_bytes);
    }
    return own;
  }

  BALLAST_HOST_DEVICE void write(std::uint32_t peer, peer_sums const& before) const
  {
    std::size_t begin = before.bytes;
    for (std::uint32_t array = 0; array < rows.count; ++array) {
      std::size_t const row_bytes = rows.arrays[array].row_bytes;
      std::size_t const end = begin + block_bytes(table.rows[peer], row_bytes);
      origins[std::size_t{peer} * rows.count + array] =
          begin - static_cast<std::size_t>(before.rows) * row_bytes;
      if (padded != nullptr) {
        std::size_t const used = static_cast<std::size_t>(table.rows[peer]) * row_bytes;
        for (std::size_t at = begin + used; at < end; ++at) { padded[at] = std::byte{0}; }
      }
      begin = end;
    }
  }
};

/// Returns where the i-th piece of the messages lies: range i mod bound of array i / bound. So
/// neighbouring pieces of a message are neighbours in the list.
struct message_pieces {
  device_ranges table;
  device_rows rows;
  tokens const* rows_before = nullptr;   ///< [bound], of each range
  std::size_t const* origins = nullptr;  ///< of message_blocks

  struct piece {
    device_row_array array;
    std::size_t row = 0;      ///< bytes from the beginning of the array
    std::size_t message = 0;  ///< and of the messages
    std::size_t bytes = 0;
  };

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const { return table.bound * rows.count; }

  [[nodiscard]] BALLAST_HOST_DEVICE piece operator[](std::uint32_t index) const
  {
    std::uint32_t const array = index / table.bound;
    std::uint32_t const range = index - array * table.bound;
    if (range >= *table.count) { return {}; }
    peer_rows const found = table.ranges[range];
    std::size_t const row_bytes = rows.arrays[array].row_bytes;
    std::size_t const origin = origins[std::size_t{found.peer} * rows.count + array];
    return {rows.arrays[array], static_cast<std::size_t>(found.first) * row_bytes,
            origin + static_cast<std::size_t>(rows_before[range]) * row_bytes,
            found.count * row_bytes};
  }
};

/// Copies of the rows that leave into messages, as pack_rows() of the host makes them.
struct pack_copies {
  static constexpr bool contiguous = true;

  message_pieces pieces;
  std::byte* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    auto const piece = pieces[index];
    return strided_copy::contiguous(piece.array.from + piece.row, messages + piece.message,
                                    piece.bytes);
  }
};

/// Copies of messages into the rows that they are for, as unpack_rows() of the host makes them.
struct unpack_copies {
  static constexpr bool contiguous = true;

  message_pieces pieces;
  std::byte const* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    auto const piece = pieces[index];
    return strided_copy::contiguous(messages + piece.message, piece.array.to + piece.row,
                                    piece.bytes);
  }
};

/// Copies of the rows that stay on their rank.
struct keep_copies {
  static constexpr bool contiguous = true;

  device_kept table;
  device_rows rows;
  bool reverse = false;  ///< from where they go to where they come from

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const { return table.bound * rows.count; }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    std::uint32_t const array = index / table.bound;
    std::uint32_t const range = index - array * table.bound;
    if (range >= *table.count) { return {}; }
    kept_rows const found = table.kept[range];
    auto const& [from, to, row_bytes] = rows.arrays[array];
    auto const source = static_cast<std::size_t>(reverse ? found.to_row : found.from_row);
    auto const target = static_cast<std::size_t>(reverse ? found.from_row : found.to_row);
    return strided_copy::contiguous(from + source * row_bytes, to + target * row_bytes,
                                    static_cast<std::size_t>(found.count) * row_bytes);
  }
};

static_assert(copy_list<pack_copies> && copy_list<unpack_copies> && copy_list<keep_copies>);

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_ROW_COPIES_HPP
