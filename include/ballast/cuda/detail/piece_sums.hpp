// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_PIECE_SUMS_HPP
#define BALLAST_CUDA_DETAIL_PIECE_SUMS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/cuda/detail/heads/head_sums.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ballast::inline v0::detail {

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

  /// Computes one thread's sums.
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_PIECE_SUMS_HPP
