// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../common/block_weights.hpp"
#include "../layer_part.hpp"
#include "cublas.hpp"
#include "cuda_memory.hpp"
#include "gpu_layer_arrays.hpp"
#include "gpu_rows.hpp"

#include <ballast/core.hpp>

#include <cuda_runtime_api.h>

namespace cli {

/// The layer of cpu_layer on a GPU: bf16, sums in fp32, products by cuBLAS. It computes sequences
/// of one length, which attend to themselves alone, and adds to the gradients of the parameters.
///
/// Attention computes all scores of a sequence and leaves out those of later tokens, so it does
/// twice the work of a causal mask; in the backward pass it computes them again.
class gpu_layer {
 public:
  /// The layer with numbers of no meaning. Both outlive it. Errors: out_of_memory, where its arrays
  /// do not fit; those of CUDA.
  [[nodiscard]] static ballast::result<gpu_layer> make(
      cublas const& products, cudaStream_t stream, block::shape const& shape, std::size_t sequences,
      std::size_t length, layer_part part,
      std::size_t score_bytes = gpu_layer_arrays::most_score_bytes);

  /// Both queue their work on the stream. The gradient that arrives is x, or o in attention alone.
  [[nodiscard]] ballast::result<void> forward();
  [[nodiscard]] ballast::result<void> backward();

  [[nodiscard]] gpu_layer_arrays const& arrays() const { return arrays_; }
  /// The numbers of an array, which only the GPU may read.
  template <class Number>
  [[nodiscard]] std::span<Number> numbers(gpu_array const& array) const
  {
    return {reinterpret_cast<Number*>(memory_.get() + array.first_byte), array.count};
  }

 private:
  using bf16 = gpu_rows::bf16;

  gpu_layer(cublas const& products, cudaStream_t stream, gpu_layer_arrays const& arrays,
            cuda_memory memory, layer_part part);

  [[nodiscard]] ballast::result<void> fill();
  [[nodiscard]] ballast::result<void> enter();
  [[nodiscard]] ballast::result<void> attend();
  [[nodiscard]] ballast::result<void> leave();
  [[nodiscard]] ballast::result<void> leave_gradient();
  [[nodiscard]] ballast::result<void> attend_gradient();
  [[nodiscard]] ballast::result<void> enter_gradient();

  template <class Visit>
  [[nodiscard]] ballast::result<void> for_each_group(Visit const& visit) const;

  /// y = (or +=) x w, of all rows.
  [[nodiscard]] ballast::result<void> linear(gpu_array const& x, gpu_array const& w,
                                             std::size_t inner, std::size_t columns,
                                             gpu_array const& y, float beta = 0) const;
  /// dx = (or +=) dy w^T and dw += x^T dy.
  [[nodiscard]] ballast::result<void> linear_gradient(gpu_array const& x, gpu_array const& w,
                                                      std::size_t inner, std::size_t columns,
                                                      gpu_array const& dy, gpu_array const& dx,
                                                      gpu_array const& dw, float beta = 0) const;
  [[nodiscard]] ballast::result<void> norm(gpu_array const& x, gpu_array const& gain,
                                           gpu_array const& y, gpu_array const& scale) const;
  /// dx = base + that of x, and adds to that of the gain.
  [[nodiscard]] ballast::result<void> norm_gradient(gpu_array const& x, gpu_array const& gain,
                                                    gpu_array const& scale, gpu_array const& dy,
                                                    gpu_array const& base, gpu_array const& dx,
                                                    gpu_array const& dgain) const;
  [[nodiscard]] ballast::result<void> to_heads(gpu_array const& from, gpu_array const& to,
                                               std::size_t heads) const;
  [[nodiscard]] ballast::result<void> from_heads(gpu_array const& from, gpu_array const& to,
                                                 std::size_t heads) const;
  [[nodiscard]] ballast::result<void> copy(gpu_array const& from, gpu_array const& to) const;

  template <class Row>
  [[nodiscard]] ballast::result<void> rows(std::size_t count, Row const& row) const;

  [[nodiscard]] bf16* at(gpu_array const& array) const { return numbers<bf16>(array).data(); }
  [[nodiscard]] float* sums_at(gpu_array const& array) const
  {
    return numbers<float>(array).data();
  }

  cublas const* products_;
  cudaStream_t stream_;
  gpu_layer_arrays arrays_;
  cuda_memory memory_;
  layer_part part_;
};

}  // namespace cli
