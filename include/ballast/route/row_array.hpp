// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/route_plan.hpp>

#include <functional>

namespace ballast::inline v0 {

/// An array with a row per token, before and after a route: activations, tags, positions.
///
/// Rows are moved as bytes, whatever their type.
struct row_array {
  std::span<std::byte const> from;
  std::span<std::byte> to;
  std::size_t row_bytes = 0;
  std::size_t element_bytes = 0;  ///< which ranks compare; 0 says nothing
};

namespace detail {

/// Contiguous elements of one type that can be moved as bytes, before and after an exchange:
/// vectors, spans, arrays, but no temporaries that own their elements.
template <class From, class To>
concept movable_elements =
    std::ranges::contiguous_range<From> && std::ranges::sized_range<From> &&
    std::ranges::borrowed_range<From> && std::ranges::contiguous_range<To> &&
    std::ranges::sized_range<To> && std::ranges::borrowed_range<To> &&
    std::same_as<std::ranges::range_value_t<From>, std::ranges::range_value_t<To>> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<To>>> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<To>>;

}  // namespace detail

/// Makes a row_array of `width` elements per token: rows_of(x, x_there, 3072).
///
/// Shapes      from[rows before][width], to[rows after][width].
/// Expects     width >= 1; they do not overlap.
template <class From, class To>
  requires detail::movable_elements<From const&, To>
[[nodiscard]] row_array rows_of(From const& from, To&& to, std::size_t width = 1)
{
  BALLAST_EXPECTS(width >= 1, "an array has rows of ", detail::counted(width, "element"));
  std::span const source(from);
  std::span const target(to);
  constexpr std::size_t element = sizeof(std::ranges::range_value_t<To>);
  return {std::as_bytes(source), std::as_writable_bytes(target), width * element, element};
}

namespace detail {

/// A word of how many arrays there are and how wide: the same on every rank.
[[nodiscard]] BALLAST_ONCE std::uint64_t word_of(std::span<row_array const> arrays);

[[nodiscard]] BALLAST_ONCE bool overlapping(std::span<std::byte const> one,
                                            std::span<std::byte const> other);

}  // namespace detail

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
BALLAST_ONCE void message_bytes(std::span<tokens const> rows, std::span<row_array const> arrays,
                                std::span<std::size_t> bytes);

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
      for (route_table::range const range : table[to_id<rank_id>(peer)]) {
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
BALLAST_ONCE void pack_rows(route_table const& table, std::span<row_array const> arrays,
                            std::span<std::byte> messages, std::size_t head = 0);

/// Copies messages into the rows that they are for: the inverse of pack_rows.
BALLAST_ONCE void unpack_rows(route_table const& table, std::span<row_array const> arrays,
                              std::span<std::byte const> messages, std::size_t head = 0);

/// How rows of sequences travel beside rows of tokens: one row for each sequence, such as the
/// timestep and the pooled text by which a diffusion transformer modulates all its tokens. Every GPU
/// of a bag has tokens of each of its sequences, so every one gets the row.
///
///     auto const beside = plan_sequence_rows(source, owner, bags, comm.rank());
///     repeat_rows(beside.copies, rows, repeated);                     // forward
///     route(comm, beside.route, memory, rows_of(repeated, there, width));
///     reverse_route(comm, beside.route, memory, rows_of(dthere, drepeated, width));  // backward
///     sum_rows(beside.copies, drepeated, drows);
///
/// The route is one like any other, so a staged<route_plan> takes it too.
struct sequence_rows {
  std::vector<tokens> copies;  ///< of each sequence that the rank read, in order: its bag's GPUs
  route_plan route;  ///< from all copies, to a row for each sequence of the rank's bag, in order
};

/// Plans the rows of sequences for one rank.
///
/// Shapes      source[sequences]: who read each; owner[sequences]: which bag computes it.
/// Ensures     (1) `there` has as many rows as the rank's bag has sequences, by ascending number
///             (2) all ranks that plan from the same arguments plan one exchange
/// Complexity  O(sequences x GPUs of a bag + ranks).
[[nodiscard]] BALLAST_ONCE sequence_rows plan_sequence_rows(std::span<rank_id const> source,
                                                            std::span<bag_id const> owner,
                                                            bag_layout const& bags, rank_id rank);

/// Writes each row as often as it has copies.
///
/// Shapes      rows[sequences][width], repeated[sum of copies][width]; the width follows.
template <class T>
void repeat_rows(std::span<tokens const> copies, std::span<T const> rows, std::span<T> repeated)
{
  std::size_t const width = copies.empty() ? 0 : rows.size() / copies.size();
  auto to = repeated.begin();
  for (std::size_t sequence = 0; sequence < copies.size(); ++sequence) {
    auto const row = rows.subspan(sequence * width, width);
    for (tokens copy = 0; copy < copies[sequence]; ++copy) { to = std::ranges::copy(row, to).out; }
  }
  BALLAST_EXPECTS(to == repeated.end(), "the copies take ", to - repeated.begin(),
                  " elements, and there is room for ", repeated.size());
}

/// Sums the copies of each row, in the order of the bag's GPUs: the gradient of repeat_rows.
///
/// Shapes      repeated[sum of copies][width], rows[sequences][width]; the width follows.
/// Ensures     the same bits in every run
template <class T>
void sum_rows(std::span<tokens const> copies, std::span<T const> repeated, std::span<T> rows)
{
  std::size_t const width = copies.empty() ? 0 : rows.size() / copies.size();
  std::size_t at = 0;
  for (std::size_t sequence = 0; sequence < copies.size(); ++sequence) {
    auto const row = rows.subspan(sequence * width, width);
    std::ranges::fill(row, T{});
    for (tokens copy = 0; copy < copies[sequence]; ++copy) {
      for (T& element : row) {
        T const next = repeated[at++];
        element = copy == 0 ? next : element + next;
      }
    }
  }
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0 {

namespace detail {

[[nodiscard]] BALLAST_ONCE std::uint64_t word_of(std::span<row_array const> arrays)
{
  digest all;
  for (row_array const& each : arrays) { all.add(each.row_bytes).add(each.element_bytes); }
  return all.add(arrays.size()).value();
}

[[nodiscard]] BALLAST_ONCE bool overlapping(std::span<std::byte const> one,
                                            std::span<std::byte const> other)
{
  std::less<> const before;  // orders pointers into different arrays, which < need not
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

}  // namespace detail

BALLAST_ONCE void message_bytes(std::span<tokens const> rows, std::span<row_array const> arrays,
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

BALLAST_ONCE void pack_rows(route_table const& table, std::span<row_array const> arrays,
                            std::span<std::byte> messages, std::size_t head)
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

BALLAST_ONCE void unpack_rows(route_table const& table, std::span<row_array const> arrays,
                              std::span<std::byte const> messages, std::size_t head)
{
  detail::walk_messages(
      table, arrays, head,
      [&](row_array const& array, std::size_t row, std::size_t bytes, std::size_t offset) {
        std::memcpy(&array.to[row], &messages[offset], bytes);
      },
      [](std::size_t, std::size_t) {});
}

[[nodiscard]] BALLAST_ONCE sequence_rows plan_sequence_rows(std::span<rank_id const> source,
                                                            std::span<bag_id const> owner,
                                                            bag_layout const& bags, rank_id rank)
{
  BALLAST_EXPECTS(source.size() == owner.size(), "there are sources of ",
                  detail::counted(source.size(), "sequence"), " and bags of ", owner.size());
  // A sequence with a token for each GPU of its bag is split into one token for each.
  std::vector<tokens> lengths;
  sequence_rows made;
  for (std::size_t sequence = 0; sequence < source.size(); ++sequence) {
    lengths.push_back(bags[owner[sequence]].gpus);
    if (source[sequence] == rank) { made.copies.push_back(lengths.back()); }
  }
  plan_route(made.route, place(lengths, source, bags.gpus()), place(lengths, owner, bags), rank);
  return made;
}

}  // namespace ballast::inline v0

#endif
