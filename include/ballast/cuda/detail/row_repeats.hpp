// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_ROW_REPEATS_HPP
#define BALLAST_CUDA_DETAIL_ROW_REPEATS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cuda/detail/piece_sums.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

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

  /// Makes one thread's copies.
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

  /// Computes one thread's sums.
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

#endif  // BALLAST_CUDA_DETAIL_ROW_REPEATS_HPP
