// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_CHUNK_LAYOUT_HPP
#define BALLAST_CUDA_CHUNK_LAYOUT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/cuda/strided_copy.hpp>
#include <ballast/route/placement.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

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

/// The copies from the layout by chunk to the layout by rank: after a chunked all-gather and the
/// matrix product of each chunk.
struct chunks_to_ranks {
  static constexpr bool contiguous = true;

  chunk_layout layout;
  std::byte const* from = nullptr;
  std::byte* to = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr strided_copy operator()(std::uint32_t index) const
  {
    chunk_layout::part const each = layout(index);
    return strided_copy::contiguous(from + each.by_chunk, to + each.by_rank, each.bytes);
  }
};

/// The copies from the layout by rank to the layout by chunk: before a chunked exchange.
struct ranks_to_chunks {
  static constexpr bool contiguous = true;

  chunk_layout layout;
  std::byte const* from = nullptr;
  std::byte* to = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr strided_copy operator()(std::uint32_t index) const
  {
    chunk_layout::part const each = layout(index);
    return strided_copy::contiguous(from + each.by_rank, to + each.by_chunk, each.bytes);
  }
};

static_assert(copy_list<chunks_to_ranks> && copy_list<ranks_to_chunks>);

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_CHUNK_LAYOUT_HPP
