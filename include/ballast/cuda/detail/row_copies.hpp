// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/head_copies.hpp>

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

/// Where the rows of one table lie in its messages, by the layout of pack_rows(), in memory that
/// kernels read. It depends on the table and on the widths of rows alone.
///
/// For the block of each array in each peer's message there is its origin: where row 0 of the whole
/// table would be if the block held all rows. So a range's place is the origin plus the rows before
/// it in the whole table. The origin may lie before the messages; the sums are modulo 2^64, so
/// places are right.
///
/// Shapes      rows_before[bound], of each range; origins[ranks][arrays]; ends[ranks][arrays]: where
///             the rows of the block end.
struct message_places {
  tokens* rows_before = nullptr;
  std::size_t* origins = nullptr;
  std::size_t* ends = nullptr;
};

/// Finds where the block of each array lies in each peer's message.
struct message_blocks {
  device_ranges table;
  device_rows rows;  ///< whose pointers are not read
  message_places places;

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
      std::size_t const at = std::size_t{peer} * rows.count + array;
      places.origins[at] = begin - static_cast<std::size_t>(before.rows) * row_bytes;
      places.ends[at] = begin + static_cast<std::size_t>(table.rows[peer]) * row_bytes;
      begin += block_bytes(table.rows[peer], row_bytes);
    }
  }
};

/// Returns where the i-th piece of the messages lies: range i mod bound of array i / bound. So
/// neighbouring pieces of a message are neighbours in the list.
struct message_pieces {
  device_ranges table;
  device_rows rows;
  message_places places;

  struct piece {
    device_rows::array array;
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
    device_ranges::peer_rows const found = table.ranges[range];
    std::size_t const row_bytes = rows.arrays[array].row_bytes;
    std::size_t const origin = places.origins[std::size_t{found.peer} * rows.count + array];
    return {rows.arrays[array], static_cast<std::size_t>(found.first) * row_bytes,
            origin + static_cast<std::size_t>(places.rows_before[range]) * row_bytes,
            found.count * row_bytes};
  }
};

/// Copies of the rows that leave into messages, and the zeros behind blocks, as pack_rows() of the
/// host makes them.
struct pack_copies {
  static constexpr bool contiguous = true;

  message_pieces pieces;
  std::byte* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const { return pieces.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    auto const piece = pieces[index];
    return strided_copy::contiguous(piece.array.from + piece.row, messages + piece.message,
                                    piece.bytes);
  }

  BALLAST_HOST_DEVICE void make_rest(std::uint32_t thread, std::uint32_t threads) const
  {
    std::size_t const blocks = std::size_t{pieces.table.ranks} * pieces.rows.count;
    for (std::size_t block = thread; block < blocks; block += threads) {
      for (std::size_t at = pieces.places.ends[block]; at % message_alignment != 0; ++at) {
        messages[at] = std::byte{0};
      }
    }
  }
};

/// Copies of messages into the rows that they are for, as unpack_rows() of the host makes them, and
/// then of the rows that stay on their rank: range i mod bound of array i / bound.
struct unpack_copies {
  static constexpr bool contiguous = true;

  message_pieces pieces;
  device_kept kept;
  bool reverse = false;  ///< kept rows go from where they go to, to where they come from
  std::byte const* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return from_messages() + kept.bound * pieces.rows.count;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t from_messages() const { return pieces.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    if (index >= from_messages()) { return staying(index - from_messages()); }
    auto const piece = pieces[index];
    return strided_copy::contiguous(messages + piece.message, piece.array.to + piece.row,
                                    piece.bytes);
  }

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy staying(std::uint32_t index) const
  {
    std::uint32_t const array = index / kept.bound;
    std::uint32_t const range = index - array * kept.bound;
    if (range >= *kept.count) { return {}; }
    route_plan::kept_rows const found = kept.kept[range];
    auto const& [from, to, row_bytes] = pieces.rows.arrays[array];
    auto const source = static_cast<std::size_t>(reverse ? found.to_row : found.from_row);
    auto const target = static_cast<std::size_t>(reverse ? found.from_row : found.to_row);
    return strided_copy::contiguous(from + source * row_bytes, to + target * row_bytes,
                                    static_cast<std::size_t>(found.count) * row_bytes);
  }
};

static_assert(makes_more<pack_copies> && copy_list<unpack_copies>);

/// The sums of equal pieces that lie one after the other: element by element, piece after piece, so
/// that every run gives the same bits. Elements of less than 32 bits are added in fp32 and rounded
/// once.
///
/// Shapes      pieces[count][elements], sum[elements]; sum may be one of the pieces.
template <class T>
struct piece_sums {
  using wide = std::conditional_t<(sizeof(T) < sizeof(float)), float, T>;

  T const* pieces = nullptr;
  T* sum = nullptr;
  std::uint32_t count = 0;
  std::size_t elements = 0;

  BALLAST_HOST_DEVICE void add(std::size_t thread, std::size_t threads) const
  {
    for (std::size_t at = thread; at < elements; at += threads) { add_at(at); }
  }

  /// Computes the sum of one element; 0 if there are no pieces.
  BALLAST_HOST_DEVICE void add_at(std::size_t at) const
  {
    auto all = count == 0 ? wide{} : static_cast<wide>(pieces[at]);
    for (std::uint32_t piece = 1; piece < count; ++piece) {
      auto const next = static_cast<wide>(pieces[piece * elements + at]);
      if constexpr (std::is_integral_v<wide>) {
        all += next;
      } else {
        all = rounded_sum(all, next);
      }
    }
    sum[at] = static_cast<T>(all);
  }
};

/// How many copies each of some rows has, in memory that kernels read. The number of rows is in
/// memory too, so that a graph can be replayed with another step's table.
///
/// Shapes      begins[bound + 1]: copy begins[r] is the first of row r, for r < *count.
struct repeat_table {
  tokens const* count = nullptr;
  tokens const* begins = nullptr;
};

/// Threads take elements of the rows in turn, and each all copies of its element: neighbours read
/// and write neighbours, and a row is read or written once.
///
/// Shapes      rows[*count][width], repeated[begins[*count]][width].
template <class T>
struct repeated_rows {
  repeat_table table;
  T const* rows = nullptr;
  T* repeated = nullptr;
  std::size_t width = 0;

  BALLAST_HOST_DEVICE void run(std::size_t thread, std::size_t threads) const
  {
    std::size_t const elements = static_cast<std::size_t>(*table.count) * width;
    for (std::size_t at = thread; at < elements; at += threads) {
      std::size_t const row = at / width;
      T const value = rows[at];
      for (tokens copy = table.begins[row]; copy < table.begins[row + 1]; ++copy) {
        repeated[static_cast<std::size_t>(copy) * width + at % width] = value;
      }
    }
  }
};

/// The sums of a row's copies, copy after copy: the same bits in every run.
template <class T>
struct summed_rows {
  repeat_table table;
  T const* repeated = nullptr;
  T* rows = nullptr;
  std::size_t width = 0;

  BALLAST_HOST_DEVICE void run(std::size_t thread, std::size_t threads) const
  {
    std::size_t const elements = static_cast<std::size_t>(*table.count) * width;
    for (std::size_t at = thread; at < elements; at += threads) {
      std::size_t const row = at / width;
      auto const first = static_cast<std::size_t>(table.begins[row]);
      auto const copies = static_cast<std::uint32_t>(table.begins[row + 1] - table.begins[row]);
      piece_sums<T>{repeated + first * width, rows + row * width, copies, width}.add_at(at % width);
    }
  }
};

}  // namespace ballast::inline v0::detail
