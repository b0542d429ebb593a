// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>

namespace ballast::inline v0 {

/// A copy of `rows` runs of `run` bytes, which begin a stride apart in the source and in the
/// destination: rows of tokens, or some heads of tokens. A single run, and runs without gaps on
/// both sides, are one contiguous copy.
///
/// Expects     from and to do not overlap; with two rows or more, to_stride >= run.
struct strided_copy {
  std::byte const* from = nullptr;
  std::byte* to = nullptr;
  std::size_t from_stride = 0;
  std::size_t to_stride = 0;
  std::size_t run = 0;
  std::size_t rows = 0;

  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr strided_copy contiguous(std::byte const* from,
                                                                             std::byte* to,
                                                                             std::size_t bytes)
  {
    return {from, to, bytes, bytes, bytes, 1};
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t bytes() const { return run * rows; }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr bool is_contiguous() const
  {
    return rows <= 1 || (from_stride == run && to_stride == run);
  }
};

/// A function that returns the i-th of many copies, on the host and on the device. The GPU computes
/// each copy when it makes it, so no list of pointers is sent to the GPU.
///
/// Kernels take it by value. Copies may be empty; no destination overlaps another or a source.
template <class List>
concept copy_list =
    std::is_trivially_copyable_v<List> && requires(List const& list, std::uint32_t index) {
      { list(index) } -> std::same_as<strided_copy>;
    };

namespace detail {

/// Promises, by `static constexpr bool contiguous = true`, that all its copies are contiguous.
template <class List>
concept contiguous_copy_list = copy_list<List> && requires { requires List::contiguous; };

/// Makes something beside its copies, such as zeros between them, that depends on none of them:
/// make_rest(thread, threads) makes one thread's part.
template <class List>
concept makes_more = copy_list<List> && requires(List const& list, std::uint32_t thread) {
  { list.make_rest(thread, thread) } -> std::same_as<void>;
};

/// Unpacks: its first from_messages() copies read messages, and the rest what a GPU keeps.
template <class List>
concept unpacking_list = copy_list<List> && requires(List const& list) {
  { list.from_messages() } -> std::same_as<std::uint32_t>;
};

}  // namespace detail

/// What an unpack function writes: all that belongs on the GPU, or only what messages bring, or only
/// what the GPU keeps.
enum class unpack_part : std::uint8_t { all, messages, kept };

/// A route_table in memory that kernels read. The number of ranges is in memory too, so that a
/// graph can be replayed with another step's table.
///
/// Shapes      ranges[bound]: the first *count are the table's, by ascending peer; rows[ranks].
struct device_ranges {
  /// Consecutive rows that are sent to or received from a peer: a route_table::range in the 16 bytes of one
  /// load. No range is longer than a sample, so 32 bits hold its count.
  struct alignas(16) peer_rows {
    tokens first = 0;
    std::uint32_t count = 0;
    std::uint32_t peer = 0;
  };

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
  route_plan::kept_rows const* kept = nullptr;
  std::uint32_t const* count = nullptr;
  std::uint32_t bound = 0;
};

/// The arrays that one route moves together, for kernels, by value: every launch copies them, and a
/// graph keeps a copy for each of its kernels. So there are at most eight: a transformer has
/// activations, labels, positions, masks and two or three tags. More take a second route.
///
/// Expects     at most `most` arrays, in memory that the device reaches.
struct device_rows {
  /// What a kernel must know of a row_array.
  struct array {
    std::byte const* from = nullptr;
    std::byte* to = nullptr;
    std::size_t row_bytes = 0;
  };

  static constexpr std::uint32_t most = 8;

  array arrays[most] = {};
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

/// A ulysses_plan as kernels read it: the lengths of sequences, and where each sequence begins in
/// the rows of each GPU. Kernels take it by value; its arrays belong to a staged<ulysses_plan>.
///
/// Shapes      lengths[sequences + 1]: 0 beyond the plan's sequences, and the last is always 0;
///             first_rows[gpus + 1][sequences + 1], see first_row(); cu_seqlens[sequences + 1]: where
///             each sequence begins in the rows of the bag, and where the last ends, for attention
///             kernels that take sequences of any lengths. Those beyond the plan's have no tokens, so
///             a captured kernel can take all.
struct ulysses_tables {
  tokens const* lengths = nullptr;
  tokens const* first_rows = nullptr;
  std::int32_t const* cu_seqlens = nullptr;
  std::uint32_t sequences = 0;
  head_split split;

  /// Where a sequence begins in the rows of a GPU or, with gpu == gpus, in the rows of the bag. For
  /// the sequence after the last it is the number of rows.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tokens first_row(std::uint32_t gpu,
                                                               std::uint32_t sequence) const
  {
    return first_rows[gpu * (sequences + 1) + sequence];
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tokens rows(std::uint32_t gpu) const
  {
    return first_row(gpu, sequences);
  }

  /// The rows of a sequence that a GPU has between attentions; the count may be 0.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr ulysses_plan::bag_chunk part(
      std::uint32_t gpu, std::uint32_t sequence) const
  {
    chunk const of_sequence = chunk_of(lengths[sequence], split.gpus, gpu);
    return {first_row(gpu, sequence), first_row(split.gpus, sequence) + of_sequence.first,
            of_sequence.count};
  }

  /// Returns which row of the bag a row of a GPU is.
  ///
  /// Expects     own_row < rows(gpu).
  /// Complexity  O(log sequences).
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tokens bag_row(std::uint32_t gpu,
                                                             tokens own_row) const
  {
    std::uint32_t sequence =
        0;  // the last that begins at the row or before: those of no rows do too
    std::uint32_t end = sequences;
    while (end - sequence > 1) {
      std::uint32_t const middle = sequence + (end - sequence) / 2;
      (first_row(gpu, middle) <= own_row ? sequence : end) = middle;
    }
    ulysses_plan::bag_chunk const here = part(gpu, sequence);
    return here.row + (own_row - here.own_row);
  }
};

static_assert(std::is_trivially_copyable_v<ulysses_tables>);

/// Where rows lie after a collective that runs chunk by chunk, and where after one that runs at
/// once.
///
/// Each of `ranks` ranks has `rows` rows, cut by chunk_of into `chunks` chunks. The rows of all
/// ranks are
///
///   by rank    [rank][row]                       after one all-gather
///   by chunk   [chunk][rank][row of the chunk]   after an all-gather of each chunk
///
/// The result of a matrix product must be by rank. By chunk, each chunk is contiguous, as
/// collectives need it.
///
/// Units       rows, `row_bytes` bytes each.
/// Expects     rows >= 0; chunks >= 1; rank < ranks; index < copies().
/// Ensures     (1) both layouts hold the same ranks x rows rows, each once
///             (2) by chunk, chunk c begins at row chunk_of(rows, chunks, c).first x ranks
struct chunk_layout {
  std::int64_t rows = 0;
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;
  std::uint32_t row_bytes = 1;

  /// A rank's part of a chunk: its first byte in each layout, and its size.
  struct part {
    std::size_t by_rank = 0;
    std::size_t by_chunk = 0;
    std::size_t bytes = 0;
  };

  /// The number of parts. Parts are ordered by chunk, then by rank.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t copies() const
  {
    return chunks * ranks;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr part operator()(std::uint32_t index) const
  {
    chunk const cut = chunk_of(rows, chunks, index / ranks);
    std::int64_t const rank = index % ranks;
    return {bytes(rank * rows + cut.first), bytes(ranks * cut.first + rank * cut.count),
            bytes(cut.count)};
  }

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t bytes(std::int64_t count) const
  {
    return static_cast<std::size_t>(count) * row_bytes;
  }
};

namespace detail {

template <bool ToRanks>
struct chunk_copies {
  static constexpr bool contiguous = true;

  chunk_layout layout;
  std::byte const* from = nullptr;
  std::byte* to = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr strided_copy operator()(std::uint32_t index) const
  {
    auto const [by_rank, by_chunk, bytes] = layout(index);
    return strided_copy::contiguous(from + (ToRanks ? by_chunk : by_rank),
                                    to + (ToRanks ? by_rank : by_chunk), bytes);
  }
};

}  // namespace detail

/// The copies from the layout by chunk to the layout by rank: after a chunked all-gather and the
/// matrix product of each chunk.
using chunks_to_ranks = detail::chunk_copies<true>;

/// The copies from the layout by rank to the layout by chunk: before a chunked exchange.
using ranks_to_chunks = detail::chunk_copies<false>;

static_assert(copy_list<chunks_to_ranks> && copy_list<ranks_to_chunks>);

}  // namespace ballast::inline v0
