// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../examples/ballast/gpu/gpu_layer.hpp"
#include "../../examples/common/block_attention.hpp"
#include "../../examples/common/block_math.hpp"
#include "../../examples/common/block_weights.hpp"
#include "test.hpp"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

/// The layer on a GPU against the arithmetic of cpu_layer, which is that of the block in
/// examples/common, from the same numbers. The tests on a GPU and on the host's stand-ins are
/// these.
namespace ballast_test {

inline double as_bf16(double value)
{
  return static_cast<double>(__bfloat162float(__float2bfloat16(static_cast<float>(value))));
}

/// Numbers that bf16 has, from -most to most.
inline block::values bf16_values(std::size_t count, std::uint64_t seed, double most = 1)
{
  ballast::random_source random(seed);
  block::values made(count);
  for (double& value : made) {
    value = as_bf16(most * static_cast<double>(random.between(-1000, 1000)) / 1000);
  }
  return made;
}

/// A layer, its input, and what forward() and backward() of cpu_layer make of them.
struct layer_reference {
  layer_reference(block::shape const& of_shape, std::size_t of_sequences, std::size_t of_length)
      : s(of_shape),
        sequences(of_sequences),
        length(of_length),
        weights(s),
        gradients(s),
        x(bf16_values(sequences * length * s.width, 2)),
        y(x.size()),
        dx(x.size()),
        q(sequences * length * s.query_width()),
        k(sequences * length * s.kv_width()),
        v(k.size()),
        o(q.size()),
        do_(q.size()),
        dq(q.size()),
        dk(k.size()),
        dv(k.size())
  {
    std::uint64_t seed = 10;
    for (block::values* each : weights.all()) {
      bool const is_gain = each->size() == s.width;
      double const inner = each == &weights.down     ? static_cast<double>(s.hidden)
                           : each == &weights.output ? static_cast<double>(s.query_width())
                                                     : static_cast<double>(s.width);
      *each = bf16_values(each->size(), ++seed, is_gain ? 1 : std::sqrt(3 / inner));
    }
  }

  void compute_all()
  {
    block::block_weights layer(s, weights);
    layer.enter(x, q, k, v);
    attention().forward(lengths(), q, k, v, o);
    layer.leave(o, y);
    layer.leave_gradient(x, do_, gradients);
    attention().gradient(lengths(), q, k, v, do_, dq, dk, dv);
    layer.enter_gradient(dq, dk, dv, dx, gradients);
  }

  /// Attention alone, whose gradient that arrives is what it made.
  void compute_attention()
  {
    q = bf16_values(q.size(), 3);
    k = bf16_values(k.size(), 4);
    v = bf16_values(v.size(), 5);
    attention().forward(lengths(), q, k, v, o);
    attention().gradient(lengths(), q, k, v, o, dq, dk, dv);
  }

  [[nodiscard]] block::block_attention attention() const
  {
    std::vector<std::size_t> keys(s.query_heads);
    for (std::size_t head = 0; head < keys.size(); ++head) {
      keys[head] = head * s.kv_heads / s.query_heads;
    }
    return {s.head_dim, s.kv_heads, keys};
  }
  [[nodiscard]] std::vector<ballast::tokens> lengths() const
  {
    return std::vector<ballast::tokens>(sequences, static_cast<ballast::tokens>(length));
  }

  block::shape s;
  std::size_t sequences, length;
  block::parameters weights, gradients;
  block::values x, y, dx, q, k, v, o, do_, dq, dk, dv;
};

/// Reads and writes the arrays of a layer, whose sequences have rows of zeros at their end.
class layer_numbers {
 public:
  layer_numbers(cli::gpu_layer const& layer, cudaStream_t stream, std::size_t length)
      : layer_(layer), stream_(stream), length_(length)
  {}

  void write(cli::gpu_array const& array, block::values const& values) const
  {
    std::vector<__nv_bfloat16> numbers(values.size());
    for (std::size_t at = 0; at < values.size(); ++at) {
      numbers[at] = __float2bfloat16(static_cast<float>(values[at]));
    }
    ASSERT_EQ(numbers.size(), array.count);
    copy(layer_.numbers<__nv_bfloat16>(array).data(), numbers.data(),
         numbers.size() * sizeof(__nv_bfloat16));
  }

  void write_rows(cli::gpu_array const& array, block::values const& values) const
  {
    std::size_t const width = array.count / layer_.arrays().rows;
    block::values padded(array.count);
    for_each_number(width, [&](std::size_t in_padded, std::size_t in_values) {
      padded[in_padded] = values[in_values];
    });
    write(array, padded);
  }

  [[nodiscard]] block::values read_rows(cli::gpu_array const& array) const
  {
    std::size_t const width = array.count / layer_.arrays().rows;
    std::vector<__nv_bfloat16> numbers(array.count);
    copy(numbers.data(), layer_.numbers<__nv_bfloat16>(array).data(),
         numbers.size() * sizeof(__nv_bfloat16));
    block::values values(layer_.arrays().sequences * length_ * width);
    for_each_number(width, [&](std::size_t in_padded, std::size_t in_values) {
      values[in_values] = static_cast<double>(__bfloat162float(numbers[in_padded]));
    });
    return values;
  }

  [[nodiscard]] block::values read_sums(cli::gpu_array const& array) const
  {
    std::vector<float> numbers(array.count);
    copy(numbers.data(), layer_.numbers<float>(array).data(), numbers.size() * sizeof(float));
    return {numbers.begin(), numbers.end()};
  }

 private:
  template <class Visit>
  void for_each_number(std::size_t width, Visit const& visit) const
  {
    std::size_t const padded = layer_.arrays().padded;
    for (std::size_t row = 0; row < layer_.arrays().sequences * length_; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        visit((row / length_ * padded + row % length_) * width + i, row * width + i);
      }
    }
  }

  void copy(void* to, void const* from, std::size_t bytes) const
  {
    EXPECT_EQ(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  cli::gpu_layer const& layer_;
  cudaStream_t stream_;
  std::size_t length_;
};

/// How far numbers are off, in root mean squares: a share of the reference's where that is not all
/// 0.
inline double distance(block::values const& numbers, block::values const& reference)
{
  EXPECT_EQ(numbers.size(), reference.size());
  double squares = 0;
  double all = 0;
  for (std::size_t at = 0; at < reference.size(); ++at) {
    squares += (numbers[at] - reference[at]) * (numbers[at] - reference[at]);
    all += reference[at] * reference[at];
  }
  // NaN, which is below no limit, where one of the numbers is.
  return std::sqrt(all > 0 ? squares / all : squares);
}

// bf16 has 8 bits: each step of the layer rounds by 0.2 % at most.
inline constexpr double layer_tolerance = 0.02;

#define BALLAST_EXPECT_NEAR_REFERENCE(numbers, reference) \
  EXPECT_LT(distance(numbers, reference), layer_tolerance) << #reference

/// Both parts, run twice: the passes read nothing that they have overwritten, and gradients add up.
inline void expect_layer_like_reference(cli::cublas const& products, cudaStream_t stream,
                                        block::shape const& s, std::size_t sequences,
                                        std::size_t length)
{
  layer_reference r(s, sequences, length);
  r.compute_all();
  auto made = cli::gpu_layer::make(products, stream, s, sequences, length, cli::layer_part::both);
  ASSERT_TRUE(made) << made.error().message;
  auto const& a = made->arrays();
  layer_numbers const numbers(*made, stream, length);
  auto const arrays_of = [](cli::gpu_layer_arrays::parameter_arrays const& all) {
    return std::array<cli::gpu_array, 8>{all.norm,   all.query,       all.key, all.value,
                                         all.output, all.hidden_norm, all.up,  all.down};
  };
  for (std::size_t each = 0; each < 8; ++each) {
    numbers.write(arrays_of(a.weights)[each], *r.weights.all()[each]);
  }
  numbers.write_rows(a.x, r.x);
  for (int run = 1; run <= 2; ++run) {
    for (auto const& done : {made->forward(), made->backward()}) {
      ASSERT_TRUE(done) << done.error().message;
    }
    BALLAST_EXPECT_NEAR_REFERENCE(numbers.read_rows(a.y), r.y);
    BALLAST_EXPECT_NEAR_REFERENCE(numbers.read_rows(a.dx), r.dx);
    for (std::size_t each = 0; each < 8; ++each) {
      block::values expected = *r.gradients.all()[each];
      for (double& value : expected) { value *= run; }
      block::values const sums = numbers.read_sums(arrays_of(a.gradients)[each]);
      EXPECT_LT(distance(sums, expected), layer_tolerance) << "parameter " << each;
    }
  }
}

/// Expects a length that needs no padding: in attention alone, the padding's output is its gradient
/// too.
inline void expect_attention_like_reference(
    cli::cublas const& products, cudaStream_t stream, block::shape const& s, std::size_t sequences,
    std::size_t length, std::size_t score_bytes = cli::gpu_layer_arrays::most_score_bytes)
{
  layer_reference r(s, sequences, length);
  r.compute_attention();
  auto made = cli::gpu_layer::make(products, stream, s, sequences, length,
                                   cli::layer_part::attention, score_bytes);
  ASSERT_TRUE(made) << made.error().message;
  auto const& a = made->arrays();
  layer_numbers const numbers(*made, stream, length);
  numbers.write_rows(a.q, r.q);
  numbers.write_rows(a.k, r.k);
  numbers.write_rows(a.v, r.v);
  for (int run = 1; run <= 2; ++run) {
    for (auto const& done : {made->forward(), made->backward()}) {
      ASSERT_TRUE(done) << done.error().message;
    }
    BALLAST_EXPECT_NEAR_REFERENCE(numbers.read_rows(a.o), r.o);
    BALLAST_EXPECT_NEAR_REFERENCE(numbers.read_rows(a.dq), r.dq);
    BALLAST_EXPECT_NEAR_REFERENCE(numbers.read_rows(a.dk), r.dk);
    BALLAST_EXPECT_NEAR_REFERENCE(numbers.read_rows(a.dv), r.dv);
  }
}

#undef BALLAST_EXPECT_NEAR_REFERENCE

}  // namespace ballast_test
