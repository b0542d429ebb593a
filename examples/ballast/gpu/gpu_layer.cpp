// SPDX-License-Identifier: Apache-2.0
#include "gpu_layer.hpp"

#include "gpu_kernels.hpp"

#include <ballast/core.hpp>

#include <cmath>
#include <initializer_list>

namespace cli {

using ballast::result;

namespace {

/// What one head of a sequence has of an array, in numbers.
std::size_t head_size(gpu_layer_arrays const& arrays)
{
  return arrays.padded * arrays.shape.head_dim;
}

}  // namespace

gpu_layer::gpu_layer(cublas const& products, cudaStream_t stream, gpu_layer_arrays const& arrays,
                     cuda_memory memory, layer_part part)
    : products_(&products),
      stream_(stream),
      arrays_(arrays),
      memory_(std::move(memory)),
      part_(part)
{}

result<gpu_layer> gpu_layer::make(cublas const& products, cudaStream_t stream,
                                  block::shape const& shape, std::size_t sequences,
                                  std::size_t length, layer_part part, std::size_t score_bytes)
{
  gpu_layer_arrays const arrays(shape, sequences, length, part, score_bytes);
  std::string const what = (part == layer_part::attention ? "attention over " : "a layer over ") +
                           std::to_string(sequences * length) + " tokens";
  auto memory = allocate_on_gpu(what, arrays.bytes);
  if (!memory) { return tl::unexpected(memory.error()); }
  gpu_layer made(products, stream, arrays, std::move(*memory), part);
  if (auto filled = made.fill(); !filled) { return tl::unexpected(filled.error()); }
  return made;
}

/// Activations are from -1 to 1, and weights such that sums of as many products are too. Zeros
/// would be computed faster than what a trainer has, since they take less power.
result<void> gpu_layer::fill()
{
  gpu_layer_arrays const& a = arrays_;
  std::uint64_t seed = 0;
  auto const numbers_of = [&](gpu_array const& array, float most) {
    constexpr std::size_t per_row = 8192;
    ++seed;
    if (array.count == 0) { return result<void>(); }
    return rows((array.count + per_row - 1) / per_row,
                gpu_rows::fill{at(array), array.count, per_row, most, seed});
  };
  auto const weights_of = [&](gpu_array const& array, std::size_t inner) {
    return numbers_of(array, std::sqrt(3.0F / static_cast<float>(inner)));
  };
  for (gpu_array const* each : {&a.x, &a.q, &a.k, &a.v, &a.o, &a.do_, &a.dq, &a.dk, &a.dv,
                                &a.weights.norm, &a.weights.hidden_norm}) {
    if (auto done = numbers_of(*each, 1); !done) { return done; }
  }
  for (gpu_array const* each :
       {&a.weights.query, &a.weights.key, &a.weights.value, &a.weights.up}) {
    if (auto done = weights_of(*each, a.shape.width); !done) { return done; }
  }
  if (auto done = weights_of(a.weights.output, a.shape.query_width()); !done) { return done; }
  if (auto done = weights_of(a.weights.down, a.shape.hidden); !done) { return done; }
  for (gpu_array const* each :
       {&a.gradients.norm, &a.gradients.query, &a.gradients.key, &a.gradients.value,
        &a.gradients.output, &a.gradients.hidden_norm, &a.gradients.up, &a.gradients.down}) {
    // Twice as many bf16 zeros are as many fp32 zeros.
    gpu_array const zeros{each->first_byte, 2 * each->count};
    if (auto done = numbers_of(zeros, 0); !done) { return done; }
  }
  return {};
}

result<void> gpu_layer::forward()
{
  result<void> done;
  if (part_ != layer_part::attention) { done = enter(); }
  if (done && part_ != layer_part::weights) { done = attend(); }
  if (done && part_ != layer_part::attention) { done = leave(); }
  return done;
}

result<void> gpu_layer::backward()
{
  result<void> done;
  if (part_ != layer_part::attention) { done = leave_gradient(); }
  if (done && part_ != layer_part::weights) { done = attend_gradient(); }
  if (done && part_ != layer_part::attention) { done = enter_gradient(); }
  return done;
}

/// q, k and v of norm(x).
result<void> gpu_layer::enter()
{
  gpu_layer_arrays const& a = arrays_;
  block::shape const& s = a.shape;
  return norm(a.x, a.weights.norm, a.normed, a.scale)
      .and_then([&] { return linear(a.normed, a.weights.query, s.width, s.query_width(), a.q); })
      .and_then([&] { return linear(a.normed, a.weights.key, s.width, s.kv_width(), a.k); })
      .and_then([&] { return linear(a.normed, a.weights.value, s.width, s.kv_width(), a.v); });
}

/// y = h + mlp(norm(h)) with h = x + o output.
result<void> gpu_layer::leave()
{
  gpu_layer_arrays const& a = arrays_;
  block::shape const& s = a.shape;
  return copy(a.x, a.h)
      .and_then([&] { return linear(a.o, a.weights.output, s.query_width(), s.width, a.h, 1); })
      .and_then([&] { return norm(a.h, a.weights.hidden_norm, a.hidden_normed, a.hidden_scale); })
      .and_then([&] { return linear(a.hidden_normed, a.weights.up, s.width, s.hidden, a.up); })
      .and_then([&] { return rows(a.rows, gpu_rows::silu{at(a.up), at(a.activated), s.hidden}); })
      .and_then([&] { return copy(a.h, a.y); })
      .and_then([&] { return linear(a.activated, a.weights.down, s.hidden, s.width, a.y, 1); });
}

/// The gradients of h and o, where that of y is x.
result<void> gpu_layer::leave_gradient()
{
  gpu_layer_arrays const& a = arrays_;
  block::shape const& s = a.shape;
  return linear_gradient(a.activated, a.weights.down, s.hidden, s.width, a.x, a.dup,
                         a.gradients.down)
      .and_then(
          [&] { return rows(a.rows, gpu_rows::silu_gradient{at(a.up), at(a.dup), s.hidden}); })
      .and_then([&] {
        return linear_gradient(a.hidden_normed, a.weights.up, s.width, s.hidden, a.dup, a.dnormed,
                               a.gradients.up);
      })
      .and_then([&] {
        return norm_gradient(a.h, a.weights.hidden_norm, a.hidden_scale, a.dnormed, a.x, a.dh,
                             a.gradients.hidden_norm);
      })
      .and_then([&] {
        return linear_gradient(a.o, a.weights.output, s.query_width(), s.width, a.dh, a.do_,
                               a.gradients.output);
      });
}

/// The gradient of x.
result<void> gpu_layer::enter_gradient()
{
  gpu_layer_arrays const& a = arrays_;
  block::shape const& s = a.shape;
  return linear_gradient(a.normed, a.weights.query, s.width, s.query_width(), a.dq, a.dnormed,
                         a.gradients.query)
      .and_then([&] {
        return linear_gradient(a.normed, a.weights.key, s.width, s.kv_width(), a.dk, a.dnormed,
                               a.gradients.key, 1);
      })
      .and_then([&] {
        return linear_gradient(a.normed, a.weights.value, s.width, s.kv_width(), a.dv, a.dnormed,
                               a.gradients.value, 1);
      })
      .and_then([&] {
        return norm_gradient(a.x, a.weights.norm, a.scale, a.dnormed, a.dh, a.dx, a.gradients.norm);
      });
}

/// Calls visit(first query head of the batch, first key head, heads in the batch) for batches of
/// heads whose scores fit their array: of each group of query heads that share a key head, one.
/// Numbers of heads go on from sequence to sequence.
template <class Visit>
result<void> gpu_layer::for_each_group(Visit const& visit) const
{
  std::size_t const shared = arrays_.shape.query_heads / arrays_.shape.kv_heads;
  std::size_t const groups = arrays_.sequences * arrays_.shape.kv_heads;
  for (std::size_t first = 0; first < groups; first += arrays_.groups_at_once) {
    std::size_t const count = std::min(arrays_.groups_at_once, groups - first);
    for (std::size_t each = 0; each < shared; ++each) {
      if (auto done = visit(first * shared + each, first, count); !done) { return done; }
    }
  }
  return {};
}

result<void> gpu_layer::attend()
{
  gpu_layer_arrays const& a = arrays_;
  block::shape const& s = a.shape;
  std::size_t const head = head_size(a);
  std::size_t const next_query = s.query_heads / s.kv_heads * head;
  std::size_t const n = a.padded;
  auto done = to_heads(a.q, a.q_heads, s.query_heads)
                  .and_then([&] { return to_heads(a.k, a.k_heads, s.kv_heads); })
                  .and_then([&] { return to_heads(a.v, a.v_heads, s.kv_heads); });
  if (!done) { return done; }
  float const scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  done = for_each_group([&](std::size_t query, std::size_t key, std::size_t count) {
    gemm_factor const q{at(a.q_heads) + query * head, s.head_dim, false, next_query};
    gemm_factor const k{at(a.k_heads) + key * head, s.head_dim, true, head};
    gemm_factor const v{at(a.v_heads) + key * head, s.head_dim, false, head};
    gemm_product const o{at(a.o_heads) + query * head, s.head_dim, CUDA_R_16BF, next_query};
    gemm_product const scores{at(a.scores), n, CUDA_R_16BF, n * n};
    gemm_factor const weights{at(a.scores), n, false, n * n};
    return products_->multiply({n, n, s.head_dim, q, k, scores, scale, 0, count})
        .and_then([&] { return rows(count * n, gpu_rows::causal_softmax{at(a.scores), n}); })
        .and_then(
            [&] { return products_->multiply({n, s.head_dim, n, weights, v, o, 1, 0, count}); });
  });
  if (!done) { return done; }
  return from_heads(a.o_heads, a.o, s.query_heads);
}

result<void> gpu_layer::attend_gradient()
{
  gpu_layer_arrays const& a = arrays_;
  block::shape const& s = a.shape;
  std::size_t const head = head_size(a);
  std::size_t const shared = s.query_heads / s.kv_heads;
  std::size_t const next_query = shared * head;
  std::size_t const n = a.padded;
  // o is not read again, so its gradient, head by head, takes its place.
  auto done = to_heads(part_ == layer_part::attention ? a.o : a.do_, a.o_heads, s.query_heads);
  if (!done) { return done; }
  float const scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  done = for_each_group([&](std::size_t query, std::size_t key, std::size_t count) {
    float const add = query % shared == 0 ? 0.0F : 1.0F;  // to what the first of the group has left
    gemm_factor const q{at(a.q_heads) + query * head, s.head_dim, false, next_query};
    gemm_factor const k{at(a.k_heads) + key * head, s.head_dim, false, head};
    gemm_factor const v{at(a.v_heads) + key * head, s.head_dim, false, head};
    gemm_factor const do_{at(a.o_heads) + query * head, s.head_dim, false, next_query};
    gemm_product const dq{at(a.dq_heads) + query * head, s.head_dim, CUDA_R_16BF, next_query};
    gemm_product const dk{at(a.dk_heads) + key * head, s.head_dim, CUDA_R_16BF, head};
    gemm_product const dv{at(a.dv_heads) + key * head, s.head_dim, CUDA_R_16BF, head};
    gemm_product const scores{at(a.scores), n, CUDA_R_16BF, n * n};
    gemm_product const dscores{at(a.dscores), n, CUDA_R_16BF, n * n};
    auto const read = [](gemm_product const& of, bool transposed) {
      return gemm_factor{of.data, of.row_stride, transposed, of.batch_stride};
    };
    auto const turned = [](gemm_factor of) {
      of.transposed = true;
      return of;
    };
    return products_->multiply({n, n, s.head_dim, q, turned(k), scores, scale, 0, count})
        .and_then([&] { return rows(count * n, gpu_rows::causal_softmax{at(a.scores), n}); })
        .and_then([&] {
          return products_->multiply(
              {n, s.head_dim, n, read(scores, true), do_, dv, 1, add, count});
        })
        .and_then([&] {
          return products_->multiply({n, n, s.head_dim, do_, turned(v), dscores, 1, 0, count});
        })
        .and_then([&] {
          return rows(count * n, gpu_rows::causal_softmax_gradient{at(a.scores), at(a.dscores), n});
        })
        .and_then([&] {
          return products_->multiply(
              {n, s.head_dim, n, read(dscores, false), k, dq, scale, 0, count});
        })
        .and_then([&] {
          return products_->multiply(
              {n, s.head_dim, n, read(dscores, true), q, dk, scale, add, count});
        });
  });
  if (!done) { return done; }
  return from_heads(a.dq_heads, a.dq, s.query_heads)
      .and_then([&] { return from_heads(a.dk_heads, a.dk, s.kv_heads); })
      .and_then([&] { return from_heads(a.dv_heads, a.dv, s.kv_heads); });
}

result<void> gpu_layer::linear(gpu_array const& x, gpu_array const& w, std::size_t inner,
                               std::size_t columns, gpu_array const& y, float beta) const
{
  return products_->multiply(
      {arrays_.rows, columns, inner, {at(x), inner}, {at(w), columns}, {at(y), columns}, 1, beta});
}

result<void> gpu_layer::linear_gradient(gpu_array const& x, gpu_array const& w, std::size_t inner,
                                        std::size_t columns, gpu_array const& dy,
                                        gpu_array const& dx, gpu_array const& dw, float beta) const
{
  return products_
      ->multiply({arrays_.rows,
                  inner,
                  columns,
                  {at(dy), columns},
                  {at(w), columns, true},
                  {at(dx), inner},
                  1,
                  beta})
      .and_then([&] {
        return products_->multiply({inner,
                                    columns,
                                    arrays_.rows,
                                    {at(x), inner, true},
                                    {at(dy), columns},
                                    {sums_at(dw), columns, CUDA_R_32F},
                                    1,
                                    1});
      });
}

result<void> gpu_layer::norm(gpu_array const& x, gpu_array const& gain, gpu_array const& y,
                             gpu_array const& scale) const
{
  return rows(arrays_.rows,
              gpu_rows::rms_norm{at(x), at(gain), at(y), sums_at(scale), arrays_.shape.width});
}

result<void> gpu_layer::norm_gradient(gpu_array const& x, gpu_array const& gain,
                                      gpu_array const& scale, gpu_array const& dy,
                                      gpu_array const& base, gpu_array const& dx,
                                      gpu_array const& dgain) const
{
  std::size_t const n = arrays_.shape.width;
  constexpr std::size_t at_once = gpu_rows::gain_gradient::rows_at_once;
  return rows(arrays_.rows, gpu_rows::rms_norm_gradient{at(x), at(gain), sums_at(scale), at(dy),
                                                        at(base), at(dx), n})
      .and_then([&] {
        return rows((arrays_.rows + at_once - 1) / at_once,
                    gpu_rows::gain_gradient{at(x), sums_at(scale), at(dy), sums_at(dgain),
                                            arrays_.rows, n});
      });
}

result<void> gpu_layer::to_heads(gpu_array const& from, gpu_array const& to,
                                 std::size_t heads) const
{
  return rows(arrays_.rows, gpu_rows::copy_heads{at(from), at(to), arrays_.padded, heads,
                                                 arrays_.shape.head_dim, true});
}

result<void> gpu_layer::from_heads(gpu_array const& from, gpu_array const& to,
                                   std::size_t heads) const
{
  return rows(arrays_.rows, gpu_rows::copy_heads{at(from), at(to), arrays_.padded, heads,
                                                 arrays_.shape.head_dim, false});
}

result<void> gpu_layer::copy(gpu_array const& from, gpu_array const& to) const
{
  return cuda_done("cudaMemcpyAsync", cudaMemcpyAsync(at(to), at(from), from.count * bf16_bytes,
                                                      cudaMemcpyDeviceToDevice, stream_));
}

template <class Row>
result<void> gpu_layer::rows(std::size_t count, Row const& row) const
{
  return cuda_done("a kernel", for_rows(stream_, count, row));
}

}  // namespace cli
