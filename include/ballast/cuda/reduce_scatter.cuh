// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/add_pieces.cuh>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace ballast::inline v0 {

/// Adds up what all ranks have, and leaves each rank its piece of the sum: copies of equal pieces,
/// and one kernel that adds them. Over copy engines the copies take no multiprocessor.
///
///     reduce_scatter(comm, partial, pieces, sum, memory)
///
/// Collective: all ranks give as many elements of the same type.
///
/// Shapes      partial[P][n], pieces[P][n], sum[n] for P = comm.size(): rank r gets the sum of all
///             partial[r].
/// Expects     the stream's device is the current one, and reaches the arrays, which do not overlap,
///             but for sum, which may be a part of pieces. pieces is temporary. T is float, double,
///             __half, __nv_bfloat16 or an integer of 32 bits or more.
/// Ensures     (1) when the stream has done it, elements are added in the order of ranks, those of 16
///                 bits in fp32 and rounded once: the same bits in every run, with any flags of
///                 nvcc
///             (2) it waits for nothing but what the communicator's all_to_all_v waits for
///             (3) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v: where it compares sizes, mismatch on every
///             rank of elements of other types too. transport with CUDA's code and text.
/// Complexity  sends and receives (P - 1) n elements a rank, as a ring does; reads P n and writes n
///             to add them.
/// Source      StepCCL, which does the same: Zhang et al., "DistTrain", 2024, arXiv:2408.04275.
template <stream_communicator C, class T>
[[nodiscard]] result<void> reduce_scatter(C& comm, std::span<T const> partial, std::span<T> pieces,
                                          std::span<T> sum, workspace& memory)
{
  nvtx_range const range("ballast::reduce_scatter");
  BALLAST_EXPECTS(partial.size() == comm.size() * sum.size() && pieces.size() == partial.size(),
                  "of ", comm.size(), " ranks the partial sums have ", partial.size(),
                  " elements, the pieces ", pieces.size(), ", and the sum ", sum.size());
  auto scratch = memory.open();
  std::span<std::size_t> const bytes = scratch.take<std::size_t>(comm.size());
  std::fill(bytes.begin(), bytes.end(), sum.size_bytes());
  constexpr bool is_bf16 = std::is_same_v<T, __nv_bfloat16>;
  constexpr std::size_t type = sizeof(T) << 2U | (is_bf16 ? 2U : std::is_integral_v<T> ? 1U : 0U);
  auto const send = std::as_bytes(partial);
  auto const receive = std::as_writable_bytes(pieces);
  auto const exchange = [&] {
    if constexpr (requires { comm.all_to_all_v(send, bytes, receive, bytes, type); }) {
      return comm.all_to_all_v(send, bytes, receive, bytes, content_word(0, type));
    } else {
      return comm.all_to_all_v(send, bytes, receive, bytes);
    }
  };
  if (auto exchanged = exchange(); !exchanged) { return exchanged; }
  return cuda_result("add_pieces",
                     detail::add_pieces(std::span<T const>(pieces), sum, comm.stream()));
}

/// Adds up what all ranks have, and leaves the sum everywhere: reduce_scatter, then an all-gather.
///
/// Shapes      values[P][n], in place; pieces[P][n].
/// Ensures     every rank has the same bits
/// Complexity  twice the bytes of reduce_scatter.
/// The rest is as for reduce_scatter; `values` has no other array's memory.
template <stream_communicator C, class T>
[[nodiscard]] result<void> all_reduce(C& comm, std::span<T> values, std::span<T> pieces,
                                      workspace& memory)
{
  nvtx_range const range("ballast::all_reduce");
  BALLAST_EXPECTS(values.size() % comm.size() == 0 && pieces.size() == values.size(),
                  "the values have ", values.size(), " elements and the pieces ", pieces.size(),
                  "; give equal numbers, a multiple of the ", comm.size(), " ranks");
  std::span<T> const sum = pieces.first(values.size() / comm.size());
  auto scattered = reduce_scatter(comm, std::span<T const>(values), pieces, sum, memory);
  if (!scattered) { return scattered; }
  return comm.all_gather(std::as_bytes(sum), std::as_writable_bytes(values));
}

}  // namespace ballast::inline v0
