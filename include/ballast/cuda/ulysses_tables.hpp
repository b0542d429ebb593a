// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_ULYSSES_TABLES_HPP
#define BALLAST_CUDA_ULYSSES_TABLES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <cstdint>
#include <type_traits>

namespace ballast::inline v0 {

/// A ulysses_plan as kernels read it: the lengths of sequences, and where each sequence begins in
/// the rows of each GPU. Kernels take it by value; its arrays belong to a device_ulysses.
///
/// Shapes      lengths[sequences + 1]: 0 beyond the plan's sequences, and the last is always 0;
///             first_rows[gpus + 1][sequences + 1], see first_row().
struct ulysses_tables {
  tokens const* lengths = nullptr;
  tokens const* first_rows = nullptr;
  std::uint32_t sequences = 0;
  head_split split;

  /// Number of entries of first_rows: gpus + 1 lines of line() entries.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t items() const
  {
    return (split.gpus + 1) * line();
  }
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t line() const { return sequences + 1; }

  /// Where a sequence begins in the rows of a GPU or, with gpu == gpus, in the rows of the bag. For
  /// the sequence after the last it is the number of rows.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tokens first_row(std::uint32_t gpu,
                                                               std::uint32_t sequence) const
  {
    return first_rows[gpu * line() + sequence];
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tokens rows(std::uint32_t gpu) const
  {
    return first_row(gpu, sequences);
  }

  /// The rows of a sequence that a GPU has between attentions; the count may be 0.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr bag_chunk part(std::uint32_t gpu,
                                                             std::uint32_t sequence) const
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
    bag_chunk const here = part(gpu, sequence);
    return here.row + (own_row - here.own_row);
  }

  /// Item i of the sums: entry i of first_rows is the sum of the items before i in its line.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tokens item(std::uint32_t index) const
  {
    tokens const length = lengths[index % line()];
    std::uint32_t const gpu = index / line();
    return gpu == split.gpus ? length : chunk_of(length, split.gpus, gpu).count;
  }
};

static_assert(std::is_trivially_copyable_v<ulysses_tables>);

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_ULYSSES_TABLES_HPP
