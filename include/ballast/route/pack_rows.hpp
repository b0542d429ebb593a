// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_PACK_ROWS_HPP
#define BALLAST_ROUTE_PACK_ROWS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <cstddef>
#include <cstring>
#include <span>

namespace ballast::inline v0 {

/// Each array's block of a message begins at a multiple of this many bytes: the widest load of a
/// GPU.
inline constexpr std::size_t message_alignment = 16;

/// Returns the bytes that `rows` rows of an array take in a message, with padding.
[[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t block_bytes(tokens rows,
                                                                    std::size_t row_bytes) noexcept
{
  std::size_t const bytes = static_cast<std::size_t>(rows) * row_bytes;
  return (bytes + message_alignment - 1) / message_alignment * message_alignment;
}

/// Writes the bytes of the message to or from each peer, whose rows route_table::rows() gives.
///
/// A message has a block for each array, in the order of the arrays. A block has the peer's rows in
/// the order of the table, and zeros up to a multiple of message_alignment.
///
/// Shapes      rows[ranks], bytes[ranks].
/// Complexity  O(ranks x arrays).
inline void message_bytes(std::span<tokens const> rows, std::span<row_array const> arrays,
                          std::span<std::size_t> bytes)
{
  BALLAST_EXPECTS(bytes.size() == rows.size(), "there is room for the bytes of ",
                  detail::counted(bytes.size(), "message"), " to ",
                  detail::counted(rows.size(), "peer"));
  for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
    bytes[peer] = 0;
    for (row_array const& array : arrays) {
      bytes[peer] += block_bytes(rows[peer], array.row_bytes);
    }
  }
}

namespace detail {

/// Calls copy(array, first row, bytes, offset in the messages) for every range of every message,
/// and pad(offset, bytes) after every block. This function alone knows the layout of messages, each
/// of which begins with `head` bytes that are not its own.
template <class Copy, class Pad>
void walk_messages(route_table const& table, std::span<row_array const> arrays, std::size_t head,
                   Copy const& copy, Pad const& pad)
{
  std::size_t offset = 0;
  for (std::size_t peer = 0; peer < table.rows().size(); ++peer) {
    tokens const rows = table.rows()[peer];
    if (rows == 0) { continue; }
    offset += head;
    for (row_array const& array : arrays) {
      std::size_t const block_end = offset + block_bytes(rows, array.row_bytes);
      for (row_range const range : table[to_id<rank_id>(peer)]) {
        std::size_t const bytes = static_cast<std::size_t>(range.count) * array.row_bytes;
        copy(array, static_cast<std::size_t>(range.first) * array.row_bytes, bytes, offset);
        offset += bytes;
      }
      pad(offset, block_end - offset);
      offset = block_end;
    }
  }
}

}  // namespace detail

/// Copies the rows that leave into messages on the host: to rank 0, then to rank 1, and so on. The
/// reference of pack_rows() on the device, which makes the same bytes.
///
/// Shapes      messages: the sum of message_bytes(), and `head` bytes more for each message.
/// Ensures     the first `head` bytes of each message are left alone
/// Complexity  O(ranks + ranges x arrays) and one copy of the bytes.
inline void pack_rows(route_table const& table, std::span<row_array const> arrays,
                      std::span<std::byte> messages, std::size_t head = 0)
{
  detail::walk_messages(
      table, arrays, head,
      [&](row_array const& array, std::size_t row, std::size_t bytes, std::size_t offset) {
        std::memcpy(&messages[offset], &array.from[row], bytes);
      },
      [&](std::size_t offset, std::size_t bytes) {
        if (bytes > 0) { std::memset(&messages[offset], 0, bytes); }
      });
}

/// Copies messages into the rows that they are for: the inverse of pack_rows.
inline void unpack_rows(route_table const& table, std::span<row_array const> arrays,
                        std::span<std::byte const> messages, std::size_t head = 0)
{
  detail::walk_messages(
      table, arrays, head,
      [&](row_array const& array, std::size_t row, std::size_t bytes, std::size_t offset) {
        std::memcpy(&array.to[row], &messages[offset], bytes);
      },
      [](std::size_t, std::size_t) {});
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_PACK_ROWS_HPP
