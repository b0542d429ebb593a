// SPDX-License-Identifier: Apache-2.0
// Trains a small GPT in one file, in the manner of llm.c, on documents of uneven length:
//
//   nvcc -std=c++20 -O2 -I include -o train examples/train_single_file.cu
//   nvcc -std=c++20 -O2 -I include -DUSE_NCCL -o train examples/train_single_file.cu -lnccl
//
// The same steps are taken twice, from the same parameters: once every rank computes the documents
// that it has read, once they go where ballast's plan wants them. There a bag of several GPUs may
// share them, with Ulysses around attention, and the backward pass may compute layers again. Losses
// and gradients must not change. Ranks are threads. Each has a GPU or shares one with others;
// without a GPU, or with --host, all compute on the host.

#include <ballast/comm/concepts.hpp>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/config.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/gamma_correction.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/transformer_shape.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/stream_communicator.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/step_balancer.cuh>
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/lay_out.hpp>
#include <ballast/workload/batch_sampler.hpp>
#include <ballast/workload/data_code.hpp>
#include <ballast/workload/length_distribution.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/sample_batch.hpp>
#include <ballast/workload/synthetic_lengths.hpp>
#ifdef USE_NCCL
#include <ballast/gpu/nccl_communicator.hpp>
#endif

#include <cuda_runtime.h>
#ifdef USE_NCCL
#include <nccl.h>
#endif

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using ballast::tokens;

void check(cudaError_t code)
{
  if (code != cudaSuccess) { throw std::runtime_error(cudaGetErrorString(code)); }
}

/// The larger of two errors; NaN, which is an error too, where one is NaN.
double larger(double a, double b)
{
  return a >= b || a != a ? a : b;
}

// -------------------------------------------------------------------------------------------------
// Where a rank computes: a stream of a GPU, or its thread of the host

struct device {
  bool is_gpu = false;
  cudaStream_t stream = nullptr;
  std::mutex* turn = nullptr;  ///< of the ranks that share a GPU: see milliseconds_of
};

// [train_single_file_kernels]
template <class F>
__global__ void __launch_bounds__(256) call_for_each(std::size_t count, F f)
{
  std::size_t const stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t const first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::size_t index = first; index < count; index += stride) { f(index); }
}

/// Calls f(0) to f(count - 1): all of the model's arithmetic is started here. Float64 is for the
/// check of gradients, on the host alone, since kernels take time to compile.
template <class T = float, class F>
void for_each(device const& on, std::size_t count, F const& f)
{
  if constexpr (std::is_same_v<T, float>) {
    if (on.is_gpu && count > 0) {
      std::size_t const blocks = std::min((count + 255) / 256, std::size_t{1} << 20);
      call_for_each<<<static_cast<unsigned>(blocks), 256, 0, on.stream>>>(count, f);
      check(cudaGetLastError());
    }
    if (on.is_gpu) { return; }
  }
  for (std::size_t index = 0; index < count; ++index) { f(index); }
}
// [train_single_file_kernels]

template <class T>
void copy(device const& on, T* to, T const* from, std::size_t count)
{
  if (count == 0) { return; }
  if (on.is_gpu) {
    check(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDefault, on.stream));
  } else {
    std::memcpy(to, from, count * sizeof(T));
  }
}

void wait(device const& on)
{
  if (on.is_gpu) { check(cudaStreamSynchronize(on.stream)); }
}

/// Memory that the rank's kernels reach, zeros at first.
template <class T>
class array {
 public:
  explicit array(device const& on, std::size_t count = 0) : on_(on), count_(count)
  {
    void* memory = nullptr;
    if (count == 0) { return; }
    if (on.is_gpu) {
      check(cudaMalloc(&memory, count * sizeof(T)));
      memory_.reset(static_cast<T*>(memory));
      check(cudaMemsetAsync(memory, 0, count * sizeof(T), on.stream));
    } else {
      memory = std::calloc(count, sizeof(T));
      if (memory == nullptr) { throw std::bad_alloc(); }
      memory_.reset(static_cast<T*>(memory));
    }
    memory_.get_deleter().is_gpu = on.is_gpu;
  }

  /// Makes room for as many elements; where that is more than ever before, what was there is lost.
  void make_room(std::size_t count)
  {
    if (count > count_) { *this = array(on_, count + count / 8); }
  }

  [[nodiscard]] T* data() const { return memory_.get(); }
  [[nodiscard]] std::span<T> first(std::size_t count) const { return {memory_.get(), count}; }

 private:
  struct release {
    bool is_gpu = true;
    void operator()(T* memory) const
    {
      if (is_gpu) {
        (void)cudaFree(memory);
      } else {
        std::free(memory);
      }
    }
  };

  device on_;
  std::size_t count_;
  std::unique_ptr<T[], release> memory_;
};

template <class T>
std::vector<T> to_host(device const& on, T const* from, std::size_t count)
{
  std::vector<T> all(count);
  copy(on, all.data(), from, count);
  wait(on);
  return all;
}

/// How long a rank computes, without what it waits for others: on the host its thread's time on a
/// core. Ranks on one GPU take turns, or each would be timed with what the others do meanwhile.
template <class F>
double milliseconds_of(device const& on, F const& compute)
{
  auto const now = [&on] {
    timespec time{};
    clock_gettime(on.is_gpu ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  };
  wait(on);
  std::unique_lock<std::mutex> turn;
  if (on.turn != nullptr) { turn = std::unique_lock(*on.turn); }
  double const start = now();
  compute();
  wait(on);
  return now() - start;
}

// -------------------------------------------------------------------------------------------------
// Kernels: what is done for one element, or for a small tile, of an output. None uses atomics, so
// every sum has one order and a step gives the same bits each time.
//
// Arrays are row-major, a row per token. The documents of a rank lie one after the other, without
// padding; first[t] and end[t] are the rows between which the document of row t lies. A rank in a
// bag of several GPUs has chunks of documents, and in attention whole ones with some of the heads.

constexpr std::size_t head_size = 32;

template <class T>
BALLAST_HOST_DEVICE T dot(T const* a, T const* b)
{
  T sum = 0;
  for (std::size_t i = 0; i < head_size; ++i) { sum += a[i] * b[i]; }
  return sum;
}

/// out[t] = embedding[token[t]] + the sines of its position, which no document is too long for
template <class T>
struct embed {
  T* out;
  T const* embedding;
  int const* token;
  int const* position;  // in the document
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    std::size_t const t = index / channels;
    std::size_t const c = index % channels;
    auto const place = static_cast<T>(c / 2 * 2) / static_cast<T>(channels);
    T const power = std::exp(place * T(-9.210340371976184));  // 10000^-place
    T const angle = static_cast<T>(position[t]) * power;
    T const wave = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    out[index] = embedding[static_cast<std::size_t>(token[t]) * channels + c] + T(0.02) * wave;
  }
};

/// dembedding[v][c] += the sum of dout[t][c] over the rows t with token v
template <class T>
struct embed_backward {
  T* dembedding;
  T const* dout;
  int const* token;
  std::size_t rows;
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    auto const v = static_cast<int>(index / channels);
    T sum = 0;
    for (std::size_t t = 0; t < rows; ++t) {
      if (token[t] == v) { sum += dout[t * channels + index % channels]; }
    }
    dembedding[index] += sum;
  }
};

/// out[t] = (x[t] - mean) / deviation * gain + bias
template <class T>
struct layer_norm {
  T* out;
  T* mean;
  T* scale;  // 1 / deviation
  T const* x;
  T const* gain;
  T const* bias;
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t t) const
  {
    T const* const row = x + t * channels;
    T sum = 0;
    for (std::size_t c = 0; c < channels; ++c) { sum += row[c]; }
    T const m = sum / static_cast<T>(channels);
    T squares = 0;
    for (std::size_t c = 0; c < channels; ++c) { squares += (row[c] - m) * (row[c] - m); }
    T const s = 1 / std::sqrt(squares / static_cast<T>(channels) + T(1e-5));
    for (std::size_t c = 0; c < channels; ++c) {
      out[t * channels + c] = (row[c] - m) * s * gain[c] + bias[c];
    }
    mean[t] = m;
    scale[t] = s;
  }
};

/// dx += the gradient by x. dout leaves as the rows whose sum is the gradient by gain.
template <class T>
struct layer_norm_backward {
  T* dx;
  T* dout;
  T const* x;
  T const* mean;
  T const* scale;
  T const* gain;
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t t) const
  {
    T const m = mean[t];
    T const s = scale[t];
    T sum = 0;
    T along = 0;  // of x in what arrives
    for (std::size_t i = t * channels; i < (t + 1) * channels; ++i) {
      T const dnorm = dout[i] * gain[i - t * channels];
      sum += dnorm;
      along += dnorm * (x[i] - m) * s;
    }
    sum /= static_cast<T>(channels);
    along /= static_cast<T>(channels);
    for (std::size_t i = t * channels; i < (t + 1) * channels; ++i) {
      T const norm = (x[i] - m) * s;
      dx[i] += (dout[i] * gain[i - t * channels] - sum - norm * along) * s;
      dout[i] *= norm;
    }
  }
};

/// A matrix that is walked over in either direction.
template <class T>
struct matrix {
  T const* at;
  std::size_t row_step;
  std::size_t column_step;
};

template <class T>
matrix<T> row_major(T const* at, std::size_t columns)
{
  return {at, columns, 1};
}

template <class T>
matrix<T> transposed(matrix<T> m)
{
  return {m.at, m.column_step, m.row_step};
}

/// out[i][j] = sum over k of a[i][k] b[k][j], + bias[j], + added[i][j], a tile of 4 x 4 at a time.
///
/// Of several parts, part p sums over the p-th stretch of k, and has a matrix of its own in out.
template <class T>
struct matrix_product {
  static constexpr std::size_t tile = 4;

  T* out;
  matrix<T> a;
  matrix<T> b;
  std::size_t rows;
  std::size_t columns;
  std::size_t depth;
  std::size_t part_depth;
  T const* bias = nullptr;
  T const* added = nullptr;

  [[nodiscard]] std::size_t tiles() const
  {
    return (rows + tile - 1) / tile * ((columns + tile - 1) / tile);
  }

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    std::size_t const across = (columns + tile - 1) / tile;
    std::size_t const down = (rows + tile - 1) / tile;
    std::size_t const part = index / (across * down);
    std::size_t const i = index / across % down * tile;
    std::size_t const j = index % across * tile;
    std::size_t const k_begin = part * part_depth;
    std::size_t const k_end = k_begin + part_depth < depth ? k_begin + part_depth : depth;
    T const* x[tile];  // where a tile juts out it computes a last row or column again
    T const* y[tile];
    for (std::size_t s = 0; s < tile; ++s) {
      x[s] = a.at + (i + s < rows ? i + s : rows - 1) * a.row_step + k_begin * a.column_step;
      y[s] = b.at + (j + s < columns ? j + s : columns - 1) * b.column_step + k_begin * b.row_step;
    }
    T sums[tile][tile] = {};
    for (std::size_t k = k_begin; k < k_end; ++k) {
      T y_now[tile];
      for (std::size_t s = 0; s < tile; ++s) {
        y_now[s] = *y[s];
        y[s] += b.row_step;
      }
      for (std::size_t r = 0; r < tile; ++r) {
        T const x_now = *x[r];
        x[r] += a.column_step;
        for (std::size_t s = 0; s < tile; ++s) { sums[r][s] += x_now * y_now[s]; }
      }
    }
    for (std::size_t r = 0; r < tile && i + r < rows; ++r) {
      for (std::size_t s = 0; s < tile && j + s < columns; ++s) {
        std::size_t const at = (i + r) * columns + j + s;
        T sum = sums[r][s];
        if (bias != nullptr) { sum += bias[j + s]; }
        if (added != nullptr) { sum += added[at]; }
        out[part * rows * columns + at] = sum;
      }
    }
  }
};

template <class T>
struct fill {
  T* out;
  T value;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const { out[i] = value; }
};

/// out[p][c] = the sum of x[t][c] over the p-th stretch of rows
template <class T>
struct column_sums {
  T* out;
  T const* x;
  std::size_t rows;
  std::size_t columns;
  std::size_t part_rows;

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    std::size_t const begin = index / columns * part_rows;
    std::size_t const end = begin + part_rows < rows ? begin + part_rows : rows;
    T sum = 0;
    for (std::size_t t = begin; t < end; ++t) { sum += x[t * columns + index % columns]; }
    out[index] = sum;
  }
};

/// out[i] = parts[0][i] + parts[1][i] + ..., in this order; 0 where there is none.
template <class T>
struct sum_of_parts {
  T* out;
  T const* parts;
  std::size_t count;
  std::size_t length;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    T sum = 0;
    for (std::size_t part = 0; part < count; ++part) { sum += parts[part * length + i]; }
    out[i] = sum;
  }
};

/// Causal attention within documents, of one head in one row. Neighbouring indices are neighbouring
/// rows of one head, which read the same keys at the same time. Query, key and value of a head lie
/// together, so that one exchange moves all three.
///
/// Shapes      qkv[rows][heads][3][head_size], out[rows][heads][head_size], log_sum[heads][rows].
template <class T>
struct attention {
  T* out;
  T* log_sum;  // of the exponentials of all scores, for the backward pass
  T const* qkv;
  int const* first;
  std::size_t rows;
  std::size_t heads;

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    std::size_t const t = index % rows;
    std::size_t const head = index / rows;
    std::size_t const step = heads * 3 * head_size;
    T const scale = 1 / std::sqrt(T(head_size));
    T query[head_size];
    T mean[head_size] = {};  // of the values, not yet divided by the sum of the weights
    for (std::size_t i = 0; i < head_size; ++i) {
      query[i] = qkv[t * step + head * 3 * head_size + i] * scale;
    }
    T const* key = qkv + static_cast<std::size_t>(first[t]) * step + (head * 3 + 1) * head_size;
    T largest = dot(query, key);
    T sum = 0;
    for (auto u = static_cast<std::size_t>(first[t]); u <= t; ++u, key += step) {
      T const score = dot(query, key);
      if (score > largest) {
        T const less = std::exp(largest - score);
        for (std::size_t i = 0; i < head_size; ++i) { mean[i] *= less; }
        sum *= less;
        largest = score;
      }
      T const weight = std::exp(score - largest);
      T const* const value = key + head_size;
      for (std::size_t i = 0; i < head_size; ++i) { mean[i] += weight * value[i]; }
      sum += weight;
    }
    T* const row = out + (t * heads + head) * head_size;
    for (std::size_t i = 0; i < head_size; ++i) { row[i] = mean[i] / sum; }
    log_sum[index] = largest + std::log(sum);
  }
};

/// The gradient by the queries; `along`, that of the output along itself, is for the keys' pass.
template <class T>
struct attention_backward_queries {
  T* dqkv;
  T* along;
  T const* dout;
  T const* out;
  T const* log_sum;
  T const* qkv;
  int const* first;
  std::size_t rows;
  std::size_t heads;

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    std::size_t const t = index % rows;
    std::size_t const head = index / rows;
    std::size_t const step = heads * 3 * head_size;
    std::size_t const row = (t * heads + head) * head_size;
    T const scale = 1 / std::sqrt(T(head_size));
    T query[head_size];
    T dmean[head_size];
    T dquery[head_size] = {};
    for (std::size_t i = 0; i < head_size; ++i) {
      query[i] = qkv[row * 3 + i] * scale;
      dmean[i] = dout[row + i];
    }
    T const dmean_along = dot(dmean, out + row);
    T const* key = qkv + static_cast<std::size_t>(first[t]) * step + (head * 3 + 1) * head_size;
    for (auto u = static_cast<std::size_t>(first[t]); u <= t; ++u, key += step) {
      T const weight = std::exp(dot(query, key) - log_sum[index]);
      T const dscore = weight * (dot(dmean, key + head_size) - dmean_along);
      for (std::size_t i = 0; i < head_size; ++i) { dquery[i] += dscore * key[i]; }
    }
    for (std::size_t i = 0; i < head_size; ++i) { dqkv[row * 3 + i] = dquery[i] * scale; }
    along[index] = dmean_along;
  }
};

/// The gradients by the key and the value of row u, from all rows that look at them.
template <class T>
struct attention_backward_keys {
  T* dqkv;
  T const* along;
  T const* dout;
  T const* log_sum;
  T const* qkv;
  int const* end;
  std::size_t rows;
  std::size_t heads;

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    std::size_t const u = index % rows;
    std::size_t const head = index / rows;
    std::size_t const of_head = index - u;
    std::size_t const own = (u * heads + head) * 3 * head_size;
    T const scale = 1 / std::sqrt(T(head_size));
    T key[head_size];
    T value[head_size];
    T dkey[head_size] = {};
    T dvalue[head_size] = {};
    for (std::size_t i = 0; i < head_size; ++i) {
      key[i] = qkv[own + head_size + i] * scale;
      value[i] = qkv[own + 2 * head_size + i];
    }
    for (auto t = static_cast<std::size_t>(end[u]); t-- > u;) {  // all begin at the same end
      T const* const query = qkv + (t * heads + head) * 3 * head_size;
      T const* const dmean = dout + (t * heads + head) * head_size;
      T const weight = std::exp(dot(query, key) - log_sum[of_head + t]);
      T const dscore = weight * (dot(dmean, value) - along[of_head + t]);
      for (std::size_t i = 0; i < head_size; ++i) {
        dkey[i] += dscore * query[i];
        dvalue[i] += weight * dmean[i];
      }
    }
    for (std::size_t i = 0; i < head_size; ++i) {
      dqkv[own + head_size + i] = dkey[i] * scale;
      dqkv[own + 2 * head_size + i] = dvalue[i];
    }
  }
};

/// GELU by its tanh formula, as GPT-2 has it.
template <class T>
struct gelu {
  static constexpr double slope = 0.7978845608028654;  // sqrt(2 / pi)

  T* out;
  T const* x;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    T const v = x[i];
    out[i] = v / 2 * (1 + std::tanh(T(slope) * (v + T(0.044715) * v * v * v)));
  }
};

template <class T>
struct gelu_backward {
  T* dx;  // enters as dout
  T const* x;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    T const v = x[i];
    T const th = std::tanh(T(gelu<T>::slope) * (v + T(0.044715) * v * v * v));
    T const inner = T(gelu<T>::slope) * (1 + T(3 * 0.044715) * v * v);
    dx[i] *= (1 + th) / 2 + v / 2 * (1 - th * th) * inner;
  }
};

/// loss[t] = -log softmax(logits[t])[target[t]]; logits become the gradient of weight x their sum.
template <class T>
struct cross_entropy {
  T* logits;
  T* loss;
  int const* target;
  std::size_t vocabulary;
  T weight;

  BALLAST_HOST_DEVICE void operator()(std::size_t t) const
  {
    T* const row = logits + t * vocabulary;
    T largest = row[0];
    for (std::size_t v = 1; v < vocabulary; ++v) { largest = row[v] > largest ? row[v] : largest; }
    T sum = 0;
    for (std::size_t v = 0; v < vocabulary; ++v) { sum += std::exp(row[v] - largest); }
    auto const right = static_cast<std::size_t>(target[t]);
    loss[t] = largest + std::log(sum) - row[right];
    for (std::size_t v = 0; v < vocabulary; ++v) {
      row[v] = weight * (std::exp(row[v] - largest) / sum - T(v == right ? 1 : 0));
    }
  }
};

template <class T>
struct adamw {
  T* parameter;
  T* mean;
  T* square;
  T const* gradient;
  T rate;
  T mean_correction;  // 1 / (1 - beta1^step)
  T square_correction;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    T const g = gradient[i];
    mean[i] = T(0.9) * mean[i] + T(0.1) * g;
    square[i] = T(0.95) * square[i] + T(0.05) * g * g;
    T const step = mean[i] * mean_correction / (std::sqrt(square[i] * square_correction) + T(1e-8));
    parameter[i] -= rate * (step + T(0.01) * parameter[i]);
  }
};

// -------------------------------------------------------------------------------------------------
// The model

struct gpt_shape {
  std::size_t layers;
  std::size_t channels;
  std::size_t vocabulary;

  [[nodiscard]] std::size_t heads() const { return channels / head_size; }
};

/// Cuts an array into consecutive pieces; without memory it only counts what they need.
template <class T>
struct cutter {
  T* memory;
  std::size_t used = 0;

  T* operator()(std::size_t count)
  {
    T* const piece = memory == nullptr ? nullptr : memory + used;
    used += count;
    return piece;
  }
};

template <class T>
struct linear {  // y[rows][outputs] = x[rows][inputs] weight[inputs][outputs] + bias[outputs]
  std::size_t inputs;
  std::size_t outputs;
  T* weight;
  T* bias;

  linear(cutter<T>& cut, std::size_t in, std::size_t out)
      : inputs(in), outputs(out), weight(cut(in * out)), bias(cut(out))
  {}
};

template <class T>
struct norm {
  T* gain;
  T* bias;

  norm(cutter<T>& cut, std::size_t channels) : gain(cut(channels)), bias(cut(channels)) {}
};

template <class T>
struct layer {
  norm<T> before_attention;
  linear<T> qkv;
  linear<T> projection;
  norm<T> before_mlp;
  linear<T> up;
  linear<T> down;

  layer(cutter<T>& cut, std::size_t channels)
      : before_attention(cut, channels),
        qkv(cut, channels, 3 * channels),
        projection(cut, channels, channels),
        before_mlp(cut, channels),
        up(cut, channels, 4 * channels),
        down(cut, 4 * channels, channels)
  {}
};

/// Where each tensor is in an array of all parameters, or of all their gradients.
template <class T>
struct tensors {
  T* embedding;  // [vocabulary][channels], and the output head as well
  norm<T> last;
  std::vector<layer<T>> layers;

  tensors(gpt_shape const& shape, cutter<T>& cut)
      : embedding(cut(shape.vocabulary * shape.channels)), last(cut, shape.channels)
  {
    for (std::size_t i = 0; i < shape.layers; ++i) { layers.emplace_back(cut, shape.channels); }
  }

  tensors(gpt_shape const& shape, cutter<T>&& cut) : tensors(shape, cut) {}
};

std::size_t parameters_of(gpt_shape const& shape)
{
  cutter<float> count{nullptr};
  tensors<float> const all(shape, count);
  return count.used;
}

/// Parameters as GPT-2 starts from them: small random weights, gains of one, no biases.
std::vector<float> first_parameters(gpt_shape const& shape, std::uint64_t seed)
{
  std::vector<float> memory(parameters_of(shape));
  tensors<float> const model(shape, cutter<float>{memory.data()});
  ballast::random_source random(seed);
  auto const draw = [&](float* weights, std::size_t count, double deviation) {
    std::normal_distribution<float> normal(0, static_cast<float>(deviation));
    std::generate_n(weights, count, [&] { return normal(random); });
  };
  // What is added to the residual stream is the smaller, the more additions there are.
  double const added = 0.02 / std::sqrt(static_cast<double>(2 * shape.layers));
  draw(model.embedding, shape.vocabulary * shape.channels, 0.02);
  std::fill_n(model.last.gain, shape.channels, 1.0F);
  for (layer<float> const& each : model.layers) {
    std::fill_n(each.before_attention.gain, shape.channels, 1.0F);
    std::fill_n(each.before_mlp.gain, shape.channels, 1.0F);
    draw(each.qkv.weight, each.qkv.inputs * each.qkv.outputs, 0.02);
    draw(each.projection.weight, each.projection.inputs * each.projection.outputs, added);
    draw(each.up.weight, each.up.inputs * each.up.outputs, 0.02);
    draw(each.down.weight, each.down.inputs * each.down.outputs, added);
  }
  return memory;
}

/// A GPU of a bag, and how many of the heads it has in attention.
struct seat {
  std::uint32_t gpus;
  std::uint32_t gpu;
  std::size_t heads;
};

/// The documents that a rank has, or its chunks of them, one after the other: what the model reads.
struct documents {
  std::size_t rows = 0;
  array<int> token;
  array<int> target;    // the token that follows
  array<int> position;  // in the document
  seat in_bag{};
  std::size_t all_rows = 0;  // of the bag, which attention sees
  array<int> first;          // the row where each row's document begins
  array<int> end;            // and the one behind its last

  explicit documents(device const& on) : token(on), target(on), position(on), first(on), end(on) {}

  /// Makes room for this rank's part of documents of these lengths, and says where they lie.
  void lay_out(device const& on, std::span<tokens const> lengths, seat const& own)
  {
    std::vector<int> positions;
    std::vector<int> begins;
    std::vector<int> ends;
    for (tokens const length : lengths) {
      auto const part = ballast::chunk_of(length, own.gpus, own.gpu);
      for (tokens i = 0; i < part.count; ++i) {
        positions.push_back(static_cast<int>(part.first + i));
      }
      auto const count = static_cast<std::size_t>(length);
      begins.insert(begins.end(), count, static_cast<int>(ends.size()));
      ends.insert(ends.end(), count, static_cast<int>(begins.size()));
    }
    in_bag = own;
    rows = positions.size();
    all_rows = begins.size();
    for (array<int>* const each : {&token, &target, &position}) { each->make_room(rows); }
    for (array<int>* const each : {&first, &end}) { each->make_room(all_rows); }
    copy(on, position.data(), positions.data(), rows);
    copy(on, first.data(), begins.data(), all_rows);
    copy(on, end.data(), ends.data(), all_rows);
    wait(on);  // before the host's arrays go
  }
};

/// What the forward pass leaves for the backward pass, and what that one needs in between.
template <class T>
class activations {
 public:
  struct of_layer {
    T* x;  // the residual stream that enters
    T* x_norm;
    T* x_mean;
    T* x_scale;
    T* qkv;
    T* attended;
    T* all_qkv;  // all rows of the bag, with this rank's heads
    T* all_attended;
    T* log_sum;
    T* y;  // the residual stream behind attention
    T* y_norm;
    T* y_mean;
    T* y_scale;
    T* up;
    T* active;
  };

  std::vector<of_layer> layers;
  T* last;  // the residual stream that leaves
  T* last_norm;
  T* last_mean;
  T* last_scale;
  T* logits;
  T* loss;
  T* dx;  // of the residual stream
  T* dnorm;
  T* dwide;
  T* dqkv;
  T* all_dattended;
  T* all_dqkv;
  T* along;
  T* parts;  // of sums over rows
  std::size_t part_rows;
  bool recompute;  ///< of a layer only x is kept; all layers share the rest

  explicit activations(device const& on) : memory_(on) {}

  void make_room(gpt_shape const& shape, documents const& read, bool keep_inputs_only)
  {
    recompute = keep_inputs_only;
    cutter<T> count{nullptr};
    lay_out(shape, read, count);
    memory_.make_room(count.used);
    cutter<T> cut{memory_.data()};
    lay_out(shape, read, cut);
  }

 private:
  void lay_out(gpt_shape const& shape, documents const& read, cutter<T>& cut)
  {
    std::size_t const rows = read.rows;
    std::size_t const c = rows * shape.channels;
    std::size_t const h = read.all_rows * read.in_bag.heads;
    // In a bag of one GPU there is nothing to exchange, and the arrays are the same.
    auto const all = [&](std::size_t of_head, T* own) {
      return read.in_bag.gpus == 1 ? own : cut(h * of_head);
    };
    layers.clear();
    for (std::size_t i = 0; i < shape.layers; ++i) {
      of_layer l = recompute && i > 0 ? layers.front() : of_layer{};
      l.x = cut(c);
      if (!recompute || i == 0) {
        l.x_norm = cut(c);
        l.x_mean = cut(rows);
        l.x_scale = cut(rows);
        l.qkv = cut(3 * c);
        l.attended = cut(c);
        l.all_qkv = all(3 * head_size, l.qkv);
        l.all_attended = all(head_size, l.attended);
        l.log_sum = cut(h);
        l.y = cut(c);
        l.y_norm = cut(c);
        l.y_mean = cut(rows);
        l.y_scale = cut(rows);
        l.up = cut(4 * c);
        l.active = cut(4 * c);
      }
      layers.push_back(l);
    }
    last = cut(c);
    last_norm = cut(c);
    last_mean = cut(rows);
    last_scale = cut(rows);
    logits = cut(rows * shape.vocabulary);
    loss = cut(rows);
    dx = cut(c);
    dnorm = cut(c);
    dwide = cut(4 * c);
    dqkv = cut(3 * c);
    all_dattended = all(head_size, dnorm);
    all_dqkv = all(3 * head_size, dqkv);
    along = cut(h);
    part_rows = std::max<std::size_t>(256, (rows + 31) / 32);
    std::size_t const largest = std::max(4 * shape.channels, shape.vocabulary) * shape.channels;
    parts = cut((rows + part_rows - 1) / part_rows * largest);
  }

  array<T> memory_;
};

/// What is exchanged within a bag, around attention. Nothing in a bag of one GPU.
struct no_exchange {
  void to_heads(auto const* /*own*/, auto* /*all*/, std::size_t /*of_head*/) const {}
  void to_tokens(auto const* /*all*/, auto* /*own*/, std::size_t /*of_head*/) const {}
};

/// A small GPT, forward and backward. Both are collective in the bag.
template <class T>
class gpt {
 public:
  gpt(device const& on, gpt_shape const& shape, T* parameters, T* gradients)
      : on_(on),
        shape_(shape),
        weights_(shape, cutter<T>{parameters}),
        gradients_(shape, cutter<T>{gradients})
  {}

  /// Leaves the loss of every row, and the gradients of `weight` times their sum by the logits.
  /// Expects room for as many rows in `a`.
  template <class Exchange>
  void forward(documents const& read, activations<T>& a, T weight, Exchange const& exchange) const
  {
    std::size_t const rows = read.rows;
    std::size_t const c = shape_.channels;
    T* const x = a.layers.front().x;
    for_each<T>(on_, rows * c,
                embed<T>{x, weights_.embedding, read.token.data(), read.position.data(), c});
    for (std::size_t i = 0; i < shape_.layers; ++i) {
      forward_to_active(i, read, a, exchange);
      T* const next = i + 1 < shape_.layers ? a.layers[i + 1].x : a.last;
      forward(weights_.layers[i].down, a.layers[i].active, a.layers[i].y, next, rows);
    }
    forward(weights_.last, a.last, a.last_norm, a.last_mean, a.last_scale, rows);
    multiply(a.logits, row_major(a.last_norm, c), transposed(row_major(weights_.embedding, c)),
             rows, shape_.vocabulary, c);
    for_each<T>(on_, rows,
                cross_entropy<T>{a.logits, a.loss, read.target.data(), shape_.vocabulary, weight});
  }

  /// Leaves the gradients of all parameters: of the rows of this rank, and zeros if it has none.
  template <class Exchange>
  void backward(documents const& read, activations<T>& a, Exchange const& exchange) const
  {
    std::size_t const rows = read.rows;
    std::size_t const c = shape_.channels;
    std::size_t const v = shape_.vocabulary;
    multiply(a.dnorm, row_major(a.logits, v), row_major(weights_.embedding, c), rows, c, v);
    multiply_over_rows(gradients_.embedding, a.logits, v, a.last_norm, c, rows, a);
    for_each<T>(on_, rows * c, fill<T>{a.dx, 0});
    backward(weights_.last, gradients_.last, a.last, a.last_mean, a.last_scale, rows, a);
    for (std::size_t i = shape_.layers; i-- > 0;) {
      // The last layer's are still there. The bag's ranks repeat the others' exchanges together.
      if (a.recompute && i + 1 < shape_.layers) { forward_to_active(i, read, a, exchange); }
      backward(i, read, a, exchange);
    }
    for_each<T>(on_, v * c,
                embed_backward<T>{gradients_.embedding, a.dx, read.token.data(), rows, c});
  }

 private:
  // [train_single_file_layer]
  /// From x to what the layer's last matrix multiplies: all that its backward pass reads.
  template <class Exchange>
  void forward_to_active(std::size_t i, documents const& read, activations<T>& a,
                         Exchange const& exchange) const
  {
    layer<T> const& w = weights_.layers[i];
    auto const& l = a.layers[i];
    std::size_t const rows = read.rows;
    std::size_t const all = read.all_rows;
    std::size_t const heads = read.in_bag.heads;
    forward(w.before_attention, l.x, l.x_norm, l.x_mean, l.x_scale, rows);
    forward(w.qkv, l.x_norm, nullptr, l.qkv, rows);
    exchange.to_heads(l.qkv, l.all_qkv, 3 * head_size);
    for_each<T>(on_, all * heads,
                attention<T>{l.all_attended, l.log_sum, l.all_qkv, read.first.data(), all, heads});
    exchange.to_tokens(l.all_attended, l.attended, head_size);
    forward(w.projection, l.attended, l.x, l.y, rows);
    forward(w.before_mlp, l.y, l.y_norm, l.y_mean, l.y_scale, rows);
    forward(w.up, l.y_norm, nullptr, l.up, rows);
    for_each<T>(on_, rows * 4 * shape_.channels, gelu<T>{l.active, l.up});
  }
  // [train_single_file_layer]

  template <class Exchange>
  void backward(std::size_t i, documents const& read, activations<T>& a,
                Exchange const& exchange) const
  {
    layer<T> const& w = weights_.layers[i];
    layer<T> const& g = gradients_.layers[i];
    auto const& l = a.layers[i];
    std::size_t const rows = read.rows;
    std::size_t const all = read.all_rows;
    std::size_t const heads = read.in_bag.heads;
    backward(w.down, g.down, l.active, a.dx, a.dwide, rows, a);
    for_each<T>(on_, rows * 4 * shape_.channels, gelu_backward<T>{a.dwide, l.up});
    backward(w.up, g.up, l.y_norm, a.dwide, a.dnorm, rows, a);
    backward(w.before_mlp, g.before_mlp, l.y, l.y_mean, l.y_scale, rows, a);
    backward(w.projection, g.projection, l.attended, a.dx, a.dnorm, rows, a);
    exchange.to_heads(a.dnorm, a.all_dattended, head_size);
    for_each<T>(on_, all * heads,
                attention_backward_queries<T>{a.all_dqkv, a.along, a.all_dattended, l.all_attended,
                                              l.log_sum, l.all_qkv, read.first.data(), all, heads});
    for_each<T>(on_, all * heads,
                attention_backward_keys<T>{a.all_dqkv, a.along, a.all_dattended, l.log_sum,
                                           l.all_qkv, read.end.data(), all, heads});
    exchange.to_tokens(a.all_dqkv, a.dqkv, 3 * head_size);
    backward(w.qkv, g.qkv, l.x_norm, a.dqkv, a.dnorm, rows, a);
    backward(w.before_attention, g.before_attention, l.x, l.x_mean, l.x_scale, rows, a);
  }

  void multiply(T* out, matrix<T> a, matrix<T> b, std::size_t rows, std::size_t columns,
                std::size_t depth, T const* bias = nullptr, T const* added = nullptr) const
  {
    matrix_product<T> const product{out, a, b, rows, columns, depth, depth, bias, added};
    for_each<T>(on_, product.tiles(), product);
  }

  /// out[n][m] = the sum over rows of x[row][n] y[row][m]
  void multiply_over_rows(T* out, T const* x, std::size_t n, T const* y, std::size_t m,
                          std::size_t rows, activations<T>& a) const
  {
    std::size_t const parts = (rows + a.part_rows - 1) / a.part_rows;
    matrix_product<T> const product{
        a.parts, transposed(row_major(x, n)), row_major(y, m), n, m, rows, a.part_rows};
    for_each<T>(on_, parts * product.tiles(), product);
    for_each<T>(on_, n * m, sum_of_parts<T>{out, a.parts, parts, n * m});
  }

  void sum_over_rows(T* out, T const* x, std::size_t columns, std::size_t rows,
                     activations<T>& a) const
  {
    std::size_t const parts = (rows + a.part_rows - 1) / a.part_rows;
    for_each<T>(on_, parts * columns, column_sums<T>{a.parts, x, rows, columns, a.part_rows});
    for_each<T>(on_, columns, sum_of_parts<T>{out, a.parts, parts, columns});
  }

  void forward(linear<T> const& w, T const* x, T const* added, T* y, std::size_t rows) const
  {
    multiply(y, row_major(x, w.inputs), row_major(w.weight, w.outputs), rows, w.outputs, w.inputs,
             w.bias, added);
  }

  void backward(linear<T> const& w, linear<T> const& g, T const* x, T const* dy, T* dx,
                std::size_t rows, activations<T>& a) const
  {
    multiply(dx, row_major(dy, w.outputs), transposed(row_major(w.weight, w.outputs)), rows,
             w.inputs, w.outputs);
    multiply_over_rows(g.weight, x, w.inputs, dy, w.outputs, rows, a);
    sum_over_rows(g.bias, dy, w.outputs, rows, a);
  }

  void forward(norm<T> const& w, T const* x, T* y, T* mean, T* scale, std::size_t rows) const
  {
    for_each<T>(on_, rows, layer_norm<T>{y, mean, scale, x, w.gain, w.bias, shape_.channels});
  }

  /// From a.dnorm to a.dx, which the residual stream goes by as well.
  void backward(norm<T> const& w, norm<T> const& g, T const* x, T const* mean, T const* scale,
                std::size_t rows, activations<T>& a) const
  {
    sum_over_rows(g.bias, a.dnorm, shape_.channels, rows, a);
    for_each<T>(on_, rows,
                layer_norm_backward<T>{a.dx, a.dnorm, x, mean, scale, w.gain, shape_.channels});
    sum_over_rows(g.gain, a.dnorm, shape_.channels, rows, a);
  }

  device on_;
  gpt_shape shape_;
  tensors<T> weights_;
  tensors<T> gradients_;
};

/// Compares the backward pass with differences of losses, on the host in float64.
bool check_gradients()
{
  device const host;
  gpt_shape const shape{.layers = 2, .channels = 2 * head_size, .vocabulary = 17};
  std::size_t const count = parameters_of(shape);
  std::vector<double> parameters(count);
  std::vector<double> gradients(count);
  ballast::random_source random(1);
  std::normal_distribution<double> normal(0, 0.2);  // so large that attention is not even
  std::ranges::generate(parameters, [&] { return normal(random); });
  documents read(host);
  read.lay_out(host, std::vector<tokens>{5, 1, 0, 9}, {1, 0, shape.heads()});
  for (std::size_t t = 0; t < read.rows; ++t) {
    read.token.data()[t] = static_cast<int>(random.below(shape.vocabulary));
    read.target.data()[t] = static_cast<int>(random.below(shape.vocabulary));
  }
  activations<double> a(host);
  gpt<double> const model(host, shape, parameters.data(), gradients.data());
  auto const pass = [&](bool recompute) {
    a.make_room(shape, read, recompute);
    model.forward(read, a, 1.0, no_exchange{});
    model.backward(read, a, no_exchange{});
  };
  pass(true);
  std::vector<double> const recomputed = gradients;
  pass(false);

  auto const loss_with = [&](std::size_t index, double value) {
    double const before = std::exchange(parameters[index], value);
    model.forward(read, a, 1.0, no_exchange{});
    parameters[index] = before;
    return std::reduce(a.loss, a.loss + read.rows);
  };
  // A difference over 2 h is off by some h^2 and by the rounding of two losses, 1e-14 / h.
  double const h = 1e-5;
  double worst = 0;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < count; i += 61, ++compared) {  // none has fewer than 64 elements
    double const x = parameters[i];
    double const slope = (loss_with(i, x + h) - loss_with(i, x - h)) / (2 * h);
    worst = larger(worst, std::abs(slope - gradients[i]) / std::max(1.0, std::abs(slope)));
  }
  bool const good = worst <= 1e-6 && recomputed == gradients;
  std::printf(
      "%zu of %zu derivatives differ from the backward pass by %.1e at most,\n"
      "which finds %s bits if it computes layers again: %s\n",
      compared, count, worst, recomputed == gradients ? "the same" : "OTHER",
      good ? "right" : "WRONG");
  return good;
}

// -------------------------------------------------------------------------------------------------
// Data

struct options {
  std::size_t ranks = 4;
  std::size_t steps = 10;
  std::size_t documents = 24;  ///< of a step, over all ranks
  std::size_t median = 48;     ///< of lognormal lengths
  std::size_t longest = 384;
  std::size_t seed = 1;
  gpt_shape shape{.layers = 2, .channels = 64, .vocabulary = 64};
  double gamma = 1.0;
  double rate = 1e-3;
  std::string trace;
  std::string length;
  std::vector<ballast::data_code> codes;  ///< what each rank reads, instead of documents
  std::string bags;                       ///< of several GPUs
  bool recompute = false;
};

ballast::bag_layout bags_of(options const& chosen)
{
  if (chosen.bags.empty()) { return ballast::one_gpu_bags(chosen.ranks); }
  return ballast::lay_out(ballast::parse_bags(chosen.bags).value(), chosen.ranks).value();
}

/// Lengths of documents, from a trace or lognormal ones; none is above --longest, as in a context
/// window.
std::vector<tokens> document_lengths(options const& chosen)
{
  std::vector<tokens> lengths;
  if (chosen.trace.empty()) {
    ballast::random_source random(chosen.seed);
    ballast::lognormal_lengths const drawn{static_cast<tokens>(chosen.median), 1.0};
    lengths = ballast::draw_lengths(drawn, 4096, random);
  } else {
    lengths = ballast::load_length_trace(chosen.trace, chosen.length).value();
  }
  for (tokens& length : lengths) { length = std::min(length, static_cast<tokens>(chosen.longest)); }
  return lengths;
}

/// The text of a document and what follows each token: most tokens follow from the one before, so
/// that there is something to learn.
void read_text(std::uint64_t seed, tokens length, std::size_t vocabulary, std::vector<int>& token,
               std::vector<int>& target)
{
  ballast::random_source random(seed);
  std::size_t next = random.below(vocabulary);
  for (tokens place = 0; place < length; ++place) {
    token.push_back(static_cast<int>(next));
    next = random.below(8) > 0 ? (5 * next + 3) % vocabulary : random.below(vocabulary);
    target.push_back(static_cast<int>(next));
  }
}

/// What the model charges for a document: the FLOP of its products, and gamma times those of
/// attention.
ballast::quadratic_cost cost_of(gpt_shape const& shape, double gamma)
{
  auto const number = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  auto const flops = ballast::forward_flops({.hidden = number(shape.channels),
                                             .layers = number(shape.layers),
                                             .heads = number(shape.heads()),
                                             .kv_heads = number(shape.heads()),
                                             .head_dim = number(head_size),
                                             .ffn_hidden = number(4 * shape.channels),
                                             .mask = ballast::attention_mask::causal,
                                             .vocabulary = number(shape.vocabulary)})
                         .value();
  return ballast::gamma_corrected(flops, gamma).value().cost;
}

// -------------------------------------------------------------------------------------------------
// Training

/// A model whose optimizer is spread over the ranks, as in llm.c: each sums up one shard of the
/// gradients, in rank order, and updates the parameters that it is of.
class sharded_model {
 public:
  sharded_model(device const& on, gpt_shape const& shape, std::size_t ranks, std::size_t rank,
                std::vector<float> initial)
      : on_(on),
        shard_((initial.size() + ranks - 1) / ranks),
        parameters_(on, ranks * shard_),
        gradients_(on, ranks * shard_),
        pieces_(on, ranks * shard_),
        gradient_(on, shard_),
        own_(on, shard_),
        mean_(on, shard_),
        square_(on, shard_),
        model_(on, shape, parameters_.data(), gradients_.data())
  {
    initial.resize(ranks * shard_);
    copy(on, parameters_.data(), initial.data(), initial.size());
    copy(on, own_.data(), &initial[rank * shard_], shard_);
    wait(on);
  }

  [[nodiscard]] gpt<float> const& model() const { return model_; }

  template <ballast::communicator Comm>
  void update(Comm& comm, std::size_t step, double rate)
  {
    std::vector<std::size_t> const bytes(comm.size(), shard_ * sizeof(float));
    auto const all = [&](array<float>& each) { return each.first(comm.size() * shard_); };
    or_throw(comm.all_to_all_v(std::as_bytes(all(gradients_)), bytes,
                               std::as_writable_bytes(all(pieces_)), bytes));
    for_each(on_, shard_,
             sum_of_parts<float>{gradient_.data(), pieces_.data(), comm.size(), shard_});
    auto const correction = [&](double beta) {
      return static_cast<float>(1 / (1 - std::pow(beta, static_cast<double>(step))));
    };
    for_each(on_, shard_,
             adamw<float>{own_.data(), mean_.data(), square_.data(), gradient_.data(),
                          static_cast<float>(rate), correction(0.9), correction(0.95)});
    or_throw(comm.all_gather(std::as_bytes(own_.first(shard_)),
                             std::as_writable_bytes(all(parameters_))));
  }

  /// This rank's shard of the gradients, of all ranks.
  [[nodiscard]] std::vector<float> gradient() const
  {
    return to_host(on_, gradient_.data(), shard_);
  }

 private:
  device on_;
  std::size_t shard_;
  array<float> parameters_;
  array<float> gradients_;
  array<float> pieces_;
  array<float> gradient_;
  array<float> own_;
  array<float> mean_;
  array<float> square_;
  gpt<float> model_;
};

/// Plans steps and moves rows: on the communicator's stream where it has one.
template <ballast::communicator Comm>
auto balancer_over(Comm& comm, options const& chosen)
{
  auto const bags = bags_of(chosen);
  auto const cost = cost_of(chosen.shape, chosen.gamma);
  ballast::longest_processing_time const policy;
  bool const split = !chosen.bags.empty();
  ballast::step_options<> const all{
      .query_heads = split ? static_cast<std::uint32_t>(chosen.shape.heads()) : 0,
      .most_samples = chosen.documents};
  if constexpr (ballast::stream_communicator<Comm>) {
    return ballast::device_step_balancer(comm, bags, cost, policy, all);
  } else {
    return ballast::step_balancer(comm, bags, cost, policy, all);
  }
}

struct step_figures {
  std::vector<double> losses;       ///< what the documents that each rank has read add to the loss
  double milliseconds = 0;          ///< from beginning to end, plan and exchanges included
  double compute_milliseconds = 0;  ///< of the forward and the backward pass, by the slowest rank
  double imbalance = 0;             ///< work of the busiest rank over that of a mean one

  [[nodiscard]] double loss() const { return std::reduce(losses.begin(), losses.end()); }
};

/// The same step, every rank computing what it has read, and balanced.
struct step_pair {
  step_figures as_read;
  step_figures balanced;
};

/// What the training leaves behind, the same on every rank.
struct outcome {
  std::vector<step_pair> steps;
  double gradient_difference = 0;  ///< in step 1, relative to the largest element
};

/// Ulysses: a rank of a bag gives its chunks with all heads for all rows with some of the heads.
template <class Balancer>
struct exchange_in_bag {
  Balancer& balancer;
  documents const& there;
  std::uint32_t heads;

  void to_heads(float const* own, float* all, std::size_t of_head) const
  {
    if (own == all) { return; }
    or_throw(balancer.to_heads(
        ballast::heads_of(own_heads(own, of_head), all_rows(all, of_head), heads, of_head)));
  }
  void to_tokens(float const* all, float* own, std::size_t of_head) const
  {
    if (own == all) { return; }
    or_throw(balancer.to_tokens(
        ballast::heads_of(all_rows(all, of_head), own_heads(own, of_head), heads, of_head)));
  }

  template <class T>
  [[nodiscard]] std::span<T> own_heads(T* own, std::size_t of_head) const
  {
    return {own, there.rows * heads * of_head};
  }
  template <class T>
  [[nodiscard]] std::span<T> all_rows(T* all, std::size_t of_head) const
  {
    return {all, there.all_rows * there.in_bag.heads * of_head};
  }
};

/// One rank.
template <ballast::communicator Comm>
class trainer {
 public:
  trainer(Comm& comm, device const& on, options const& chosen, std::vector<tokens> const& lengths)
      : comm_(comm),
        chosen_(chosen),
        on_(on),
        shape_(chosen.shape),
        random_(chosen.seed),
        sampler_(lengths, chosen.documents, comm.size(), chosen.seed),
        as_read_(on, shape_, comm.size(), to_index(comm.rank()),
                 first_parameters(shape_, chosen.seed)),
        balanced_(on, shape_, comm.size(), to_index(comm.rank()),
                  first_parameters(shape_, chosen.seed)),
        read_(on),
        there_(on),
        activations_(on),
        loss_(on),
        balancer_(balancer_over(comm, chosen))
  {}

  outcome train()
  {
    outcome result;
    for (std::size_t step = 1; step <= chosen_.steps; ++step) {
      read_next();
      step_pair pair;
      pair.as_read = timed([&] { return step_as_read(step); });
      pair.balanced = timed([&] { return step_balanced(step); });
      auto const& plan = balancer_.planned();
      pair.as_read.imbalance =
          ballast::report::measure_as_read(batch_, plan.costs, comm_.size()).balance_ratio();
      pair.balanced.imbalance =
          ballast::report::measure_balance(plan.loads, balancer_.bags().speeds()).balance_ratio();
      if (step == 1) { result.gradient_difference = gradient_difference(); }
      if (comm_.rank() == ballast::rank_id{0}) { print(step, pair); }
      result.steps.push_back(pair);
    }
    return result;
  }

 private:
  /// What a rank adds to the figures of a step.
  struct share {
    double loss = 0;
    double compute_milliseconds = 0;
  };

  /// What this rank's data loader brings for the next step.
  void read_next()
  {
    draw_next();
    std::vector<int> token;
    std::vector<int> target;
    mine_.clear();
    for (std::size_t i = 0; i < batch_.lengths.size(); ++i) {
      if (batch_.source[i] != comm_.rank()) { continue; }
      mine_.push_back(batch_.lengths[i]);
      read_text(batch_.rows[i] + (chosen_.seed << 32), batch_.lengths[i], shape_.vocabulary, token,
                target);
    }
    read_.lay_out(on_, mine_, {1, 0, shape_.heads()});
    copy(on_, read_.token.data(), token.data(), token.size());
    copy(on_, read_.target.data(), target.data(), target.size());
    wait(on_);
    auto const all = std::reduce(batch_.lengths.begin(), batch_.lengths.end());
    weight_ = 1.0 / static_cast<double>(std::max(all, tokens{1}));
  }

  /// A batch of all ranks: documents of the trace, or what the data codes say.
  void draw_next()
  {
    if (chosen_.codes.empty()) { return sampler_.next_into(batch_); }
    auto const longest = static_cast<tokens>(chosen_.longest);
    or_throw(ballast::draw_batch_into(batch_, chosen_.codes, comm_.size(),
                                      {.longest_text = std::min(tokens{392}, longest)}, random_));
    for (tokens& length : batch_.lengths) {
      length = std::min(length, longest);
      batch_.rows.push_back(texts_++);
    }
  }

  share step_as_read(std::size_t step)
  {
    double const milliseconds = compute(as_read_.model(), read_, false, no_exchange{});
    double const loss = sum(activations_.loss, read_.rows);
    as_read_.update(comm_, step, chosen_.rate);
    return {loss, milliseconds};
  }

  // [train_single_file_step]
  share step_balanced(std::size_t step)
  {
    // Every rank gathers the same lengths and finds the same plan.
    or_throw(balancer_.plan(mine_));

    // Tokens and targets go where the plan wants them,
    there_.lay_out(on_, balancer_.lengths(), own_seat());
    or_throw(balancer_.route(
        ballast::rows_of(read_.token.first(read_.rows), there_.token.first(there_.rows)),
        ballast::rows_of(read_.target.first(read_.rows), there_.target.first(there_.rows))));
    exchange_in_bag const exchange{balancer_, there_, heads_of_model()};
    double const milliseconds = compute(balanced_.model(), there_, chosen_.recompute, exchange);

    // and losses go home, to the rank that has read the document.
    loss_.make_room(read_.rows);
    std::span<float> const losses(activations_.loss, there_.rows);
    or_throw(balancer_.reverse_route(ballast::rows_of(losses, loss_.first(read_.rows))));
    double const loss = sum(loss_.data(), read_.rows);
    balanced_.update(comm_, step, chosen_.rate);
    return {loss, milliseconds};
  }
  // [train_single_file_step]

  [[nodiscard]] seat own_seat() const
  {
    std::uint32_t const gpus = balancer_.bags()[balancer_.bag()].gpus;
    std::uint32_t const gpu = balancer_.gpu();
    if (gpus == 1) { return {gpus, gpu, shape_.heads()}; }
    auto const own = balancer_.heads().share(gpu, heads_of_model());
    return {gpus, gpu, static_cast<std::size_t>(own.count)};
  }

  [[nodiscard]] std::uint32_t heads_of_model() const
  {
    return static_cast<std::uint32_t>(shape_.heads());
  }

  template <class Exchange>
  double compute(gpt<float> const& model, documents const& each, bool recompute,
                 Exchange const& exchange)
  {
    activations_.make_room(shape_, each, recompute);
    return milliseconds_of(on_, [&] {
      model.forward(each, activations_, static_cast<float>(weight_), exchange);
      model.backward(each, activations_, exchange);
    });
  }

  [[nodiscard]] double sum(float const* losses, std::size_t count) const
  {
    auto const all = to_host(on_, losses, count);
    return std::accumulate(all.begin(), all.end(), 0.0) * weight_;
  }

  /// Takes a step on all ranks at once, and the time of the slowest.
  template <class Step>
  step_figures timed(Step const& step)
  {
    or_throw(comm_.barrier());
    auto const start = std::chrono::steady_clock::now();
    share const own = step();
    or_throw(comm_.barrier());
    std::chrono::duration<double, std::milli> const taken =
        std::chrono::steady_clock::now() - start;
    or_throw(ballast::gather_samples_into(shares_, comm_, std::span(&own, 1), 1));
    step_figures figures;
    figures.milliseconds = taken.count();
    for (share const& each : shares_.samples) {
      figures.losses.push_back(each.loss);
      figures.compute_milliseconds =
          std::max(figures.compute_milliseconds, each.compute_milliseconds);
    }
    return figures;
  }

  /// The largest over all ranks' shards, relative to the largest element.
  double gradient_difference()
  {
    struct extremes {
      double difference = 0;
      double element = 0;
    };
    auto const expected = as_read_.gradient();
    auto const found = balanced_.gradient();
    extremes largest;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double const element = expected[i];
      largest.element = std::max(largest.element, std::abs(element));
      largest.difference = larger(largest.difference, std::abs(found[i] - element));
    }
    ballast::gathered_samples<extremes> all;
    or_throw(ballast::gather_samples_into(all, comm_, std::span(&largest, 1), 1));
    for (extremes const& each : all.samples) {
      largest.element = std::max(largest.element, each.element);
      largest.difference = larger(largest.difference, each.difference);
    }
    return largest.difference / largest.element;
  }

  void print(std::size_t step, step_pair const& pair) const
  {
    auto const& [as_read, balanced] = pair;
    std::printf("%3zu/%-3zu %10.7f %10.7f %10.1f %10.1f %10.1f %10.1f %9.3f %9.3f\n", step,
                chosen_.steps, as_read.loss(), balanced.loss(), as_read.milliseconds,
                balanced.milliseconds, as_read.compute_milliseconds, balanced.compute_milliseconds,
                as_read.imbalance, balanced.imbalance);
    std::fflush(stdout);
  }

  Comm& comm_;
  options chosen_;
  device on_;
  gpt_shape shape_;
  ballast::random_source random_;  // the same on every rank
  ballast::batch_sampler sampler_;
  ballast::sample_batch batch_;  // of all ranks, of which this one reads its own
  std::uint32_t texts_ = 0;
  std::vector<tokens> mine_;
  double weight_ = 0;  // of a token in the loss
  sharded_model as_read_;
  sharded_model balanced_;
  documents read_;
  documents there_;
  activations<float> activations_;
  array<float> loss_;  // at home
  ballast::gathered_samples<share> shares_;

  decltype(balancer_over(std::declval<Comm&>(), std::declval<options const&>())) balancer_;
};

/// Runs every rank on a thread of its own, and says what rank 0 has found. Of several exceptions
/// the first comes out: others may be its consequences.
template <class Comm>
outcome train_together(std::vector<Comm> ranks, std::vector<device> const& devices,
                       std::vector<int> const& gpus, options const& chosen,
                       std::vector<tokens> const& lengths)
{
  outcome found;
  std::exception_ptr first_thrown;
  std::mutex thrown;
  auto const run = [&](std::size_t rank, Comm comm) {
    // comm outlives the handler: peers notice that this rank left after its exception was stored.
    try {
      if (devices[rank].is_gpu) { check(cudaSetDevice(gpus[rank])); }
      trainer<Comm> one(comm, devices[rank], chosen, lengths);
      outcome own = one.train();
      if (rank == 0) { found = std::move(own); }
    } catch (...) {
      std::lock_guard const lock(thrown);
      if (!first_thrown) { first_thrown = std::current_exception(); }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      threads.emplace_back(run, rank, std::move(ranks[rank]));
    }
  }
  if (first_thrown) { std::rethrow_exception(first_thrown); }
  return found;
}

outcome train_on_host(options const& chosen, std::vector<tokens> const& lengths)
{
  return train_together(ballast::thread_communicator::make(chosen.ranks),
                        std::vector<device>(chosen.ranks), {}, chosen, lengths);
}

/// A stream for each rank, rank after rank on the GPUs in turn.
class gpu_ranks {
 public:
  /// Ranks of a bag wait for each other while they compute, so they cannot take turns.
  gpu_ranks(std::size_t ranks, int gpus, bool take_turns) : turns_(static_cast<std::size_t>(gpus))
  {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      gpus_.push_back(static_cast<int>(rank % turns_.size()));
      check(cudaSetDevice(gpus_.back()));
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      streams_.push_back(stream);
      devices_.push_back({true, stream, take_turns ? &turns_[rank % turns_.size()] : nullptr});
    }
  }
  gpu_ranks(gpu_ranks const&) = delete;
  gpu_ranks& operator=(gpu_ranks const&) = delete;
  ~gpu_ranks()
  {
    for (cudaStream_t const stream : streams_) { (void)cudaStreamDestroy(stream); }
  }

  [[nodiscard]] std::vector<int> const& gpus() const { return gpus_; }
  [[nodiscard]] std::vector<cudaStream_t> const& streams() const { return streams_; }
  [[nodiscard]] std::vector<device> const& devices() const { return devices_; }

 private:
  std::vector<std::mutex> turns_;
  std::vector<int> gpus_;
  std::vector<cudaStream_t> streams_;
  std::vector<device> devices_;
};

#ifdef USE_NCCL
void check(ncclResult_t code)
{
  if (code != ncclSuccess) { throw std::runtime_error(ncclGetErrorString(code)); }
}

/// NCCL has one rank on a GPU at most.
outcome train_over_nccl(gpu_ranks const& ranks, options const& chosen,
                        std::vector<tokens> const& lengths)
{
  struct group {
    std::vector<ncclComm_t> comms;
    ~group()
    {
      for (ncclComm_t const comm : comms) {
        if (comm != nullptr) { (void)ncclCommDestroy(comm); }
      }
    }
  };
  group all{std::vector<ncclComm_t>(chosen.ranks)};
  check(ncclCommInitAll(all.comms.data(), static_cast<int>(chosen.ranks), ranks.gpus().data()));
  // Each on a thread of its own, since they compare what they were made with.
  std::vector<std::optional<ballast::nccl_communicator<>>> made(chosen.ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < chosen.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        check(cudaSetDevice(ranks.gpus()[rank]));
        auto comm = ballast::nccl_communicator<>::over(all.comms[rank], ranks.streams()[rank]);
        if (comm) { made[rank].emplace(*std::move(comm)); }
      });
    }
  }
  std::vector<ballast::nccl_communicator<>> communicators;
  for (auto& each : made) { communicators.push_back(std::move(each).value()); }
  return train_together(std::move(communicators), ranks.devices(), ranks.gpus(), chosen, lengths);
}
#endif

outcome train_on_gpus(int gpus, options const& chosen, std::vector<tokens> const& lengths)
{
  gpu_ranks const ranks(chosen.ranks, gpus, chosen.bags.empty());
#ifdef USE_NCCL
  if (chosen.ranks <= static_cast<std::size_t>(gpus)) {
    return train_over_nccl(ranks, chosen, lengths);
  }
#endif
  return train_together(ballast::copy_engine_communicator<>::make(ranks.streams()).value(),
                        ranks.devices(), ranks.gpus(), chosen, lengths);
}

// -------------------------------------------------------------------------------------------------
// The program

/// How far losses and gradients may be apart, relative to the loss and to the largest element. A
/// token's loss is computed from the same numbers in the same order wherever its document is; only
/// gradients are added up in another order, in float32, where each addition rounds by 2^-24. Of a
/// few thousand additions that is some 1e-6. The optimizer enlarges it, since it divides a gradient
/// by its own size, however small, and each step starts from what the one before has left.
constexpr double loss_tolerance = 1e-5;
constexpr double gradient_tolerance = 1e-5;

/// Prints a summary, and says whether it was the same training.
bool is_the_same(outcome const& found)
{
  double difference = 0;
  step_figures as_read;
  step_figures balanced;
  // The first step warms up: it allocates, and loads kernels.
  std::size_t const first = found.steps.size() > 1 ? 1 : 0;
  auto const add = [&](step_figures& mean, step_figures const& each) {
    auto const steps = static_cast<double>(found.steps.size() - first);
    mean.milliseconds += each.milliseconds / steps;
    mean.compute_milliseconds += each.compute_milliseconds / steps;
    mean.imbalance += each.imbalance / steps;
  };
  for (std::size_t step = 0; step < found.steps.size(); ++step) {
    auto const& [read, planned] = found.steps[step];
    for (std::size_t rank = 0; rank < read.losses.size(); ++rank) {
      double const apart = planned.losses[rank] - read.losses[rank];
      difference = larger(difference, std::abs(apart) / read.loss());
    }
    if (step < first) { continue; }
    add(as_read, read);
    add(balanced, planned);
  }
  std::printf("%7s %21s %10.1f %10.1f %10.1f %10.1f %9.3f %9.3f\n\n", "mean", "",
              as_read.milliseconds, balanced.milliseconds, as_read.compute_milliseconds,
              balanced.compute_milliseconds, as_read.imbalance, balanced.imbalance);
  bool const same = difference <= loss_tolerance && found.gradient_difference <= gradient_tolerance;
  std::printf("losses     differ by %.1e of the loss at most, tolerance %.0e\n", difference,
              loss_tolerance);
  std::printf("gradients  differ by %.1e of the largest in step 1, tolerance %.0e\n",
              found.gradient_difference, gradient_tolerance);
  std::printf("%s\n", same ? "the same training" : "NOT THE SAME TRAINING");
  return same;
}

struct wrong_usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The words of the command line, from which each option is taken.
class arguments {
 public:
  arguments(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  bool flag(std::string_view name) { return std::erase(words_, name) > 0; }

  std::string text(std::string const& name, std::string otherwise = {})
  {
    auto const at = std::ranges::find(words_, name);
    if (at == words_.end()) { return otherwise; }
    if (at + 1 == words_.end()) { throw wrong_usage(name + " wants a value"); }
    std::string value = at[1];
    words_.erase(at, at + 2);
    return value;
  }

  template <class T>
  T number(std::string const& name, T otherwise, T least, T most)
  {
    std::string const word = text(name);
    if (word.empty()) { return otherwise; }
    T value{};
    char const* const end = word.data() + word.size();
    auto const [stop, failed] = std::from_chars(word.data(), end, value);
    if (failed != std::errc{} || stop != end || !(least <= value && value <= most)) {
      throw wrong_usage(name + " wants a number from " + std::to_string(least) + " to " +
                        std::to_string(most) + ", not '" + word + "'");
    }
    return value;
  }

  std::size_t count(std::string const& name, std::size_t otherwise, std::size_t most)
  {
    return number<std::size_t>(name, otherwise, 1, most);
  }

  void finish() const
  {
    if (!words_.empty()) {
      throw wrong_usage("there is no option '" + words_.front() + "'; --help lists them");
    }
  }

 private:
  std::vector<std::string> words_;
};

constexpr char const* usage = R"(usage: train [option]...

Trains the same GPT twice, every rank computing what it has read and balanced, and compares.

  --check           compare the backward pass with differences of losses instead
  --host            compute on the host even where there are GPUs
  --ranks N         threads, dealt to the GPUs in turn
  --steps N         of the training
  --documents N     of a step, over all ranks
  --median N        tokens: lengths are lognormal
  --longest N       tokens: longer documents are cut
  --trace FILE      CSV file with a row per document, instead of lognormal lengths
  --length COLUMNS  their lengths: a column of the trace, or a sum of columns
  --codes CODES     data codes, what each rank reads: g2b4i128f1s0,g2b1i256f1s0
  --bags SPEC       bags of GPUs which share their documents: g2n2, g1n2+g2n1
  --recompute       keep only what enters each layer, and compute the rest again
  --layers N        of the model
  --channels N      of the model, a multiple of 32
  --vocabulary N    of the model
  --gamma X         how many times as long as other FLOP those of attention take
  --rate X          learning rate
  --seed N          of lengths, texts and parameters
)";

options options_from(arguments& words, std::size_t gpus)
{
  options chosen;
  if (gpus > 0) {  // which want more to do
    chosen.ranks = std::max<std::size_t>(gpus, 4);
    chosen.documents = 16 * chosen.ranks;
    chosen.median = 512;
    chosen.longest = 8192;
    chosen.shape = {.layers = 4, .channels = 256, .vocabulary = 256};
  }
  chosen.ranks = words.count("--ranks", chosen.ranks, 256);
  chosen.steps = words.count("--steps", chosen.steps, 1'000'000);
  chosen.documents = words.count("--documents", chosen.documents, 100'000);
  chosen.median = words.count("--median", chosen.median, 1'000'000);
  chosen.longest = words.count("--longest", chosen.longest, 1'000'000);
  chosen.shape.layers = words.count("--layers", chosen.shape.layers, 256);
  chosen.shape.channels = words.count("--channels", chosen.shape.channels, 8192);
  chosen.shape.vocabulary = words.count("--vocabulary", chosen.shape.vocabulary, 65536);
  chosen.seed = words.count("--seed", chosen.seed, 1'000'000'000);
  chosen.gamma = words.number("--gamma", chosen.gamma, 0.0, 1000.0);
  chosen.rate = words.number("--rate", chosen.rate, 0.0, 1.0);
  chosen.trace = words.text("--trace");
  chosen.length = words.text("--length");
  chosen.bags = words.text("--bags");
  chosen.recompute = words.flag("--recompute");
  if (std::string const codes = words.text("--codes"); !codes.empty()) {
    chosen.codes = ballast::parse_data_codes(codes).value();
    std::size_t most = 1;
    for (auto const& code : chosen.codes) { most = std::max<std::size_t>(most, code.samples); }
    chosen.documents = most * chosen.ranks;
  }
  words.finish();
  if (chosen.shape.channels % head_size != 0) {
    throw wrong_usage("--channels wants a multiple of 32, the channels of a head, not " +
                      std::to_string(chosen.shape.channels));
  }
  if (chosen.trace.empty() != chosen.length.empty()) {
    throw wrong_usage("--trace and --length go together: a file, and its columns to add up");
  }
  if (!chosen.trace.empty() && !chosen.codes.empty()) {
    throw wrong_usage("--trace and --codes both say what is read; give one of them");
  }
  (void)bags_of(chosen);  // which may refuse
  if (chosen.documents * chosen.longest > std::numeric_limits<int>::max()) {
    throw wrong_usage("--documents times --longest is above 2147483647 rows; lower one of them");
  }
  return chosen;
}

int run(arguments words)
{
  if (words.flag("--help")) { return std::fputs(usage, stdout), 0; }
  bool const on_host = words.flag("--host");
  if (words.flag("--check")) {
    words.finish();
    return check_gradients() ? 0 : 1;
  }
  int gpus = 0;
  if (on_host || cudaGetDeviceCount(&gpus) != cudaSuccess) { gpus = 0; }
  options const chosen = options_from(words, static_cast<std::size_t>(gpus));
  auto const lengths = document_lengths(chosen);

  std::string where = "the host";
  if (gpus > 0) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0));
    where = std::to_string(gpus) + " x " + properties.name;
  }
  std::printf("model      %zu layers, %zu channels, %zu heads, %zu tokens: %zu parameters\n",
              chosen.shape.layers, chosen.shape.channels, chosen.shape.heads(),
              chosen.shape.vocabulary, parameters_of(chosen.shape));
  if (chosen.codes.empty()) {
    std::printf("documents  %zu a step, %ld to %ld tokens each, %s\n", chosen.documents,
                std::ranges::min(lengths), std::ranges::max(lengths),
                chosen.trace.empty() ? "lognormal lengths" : chosen.trace.c_str());
  } else {
    std::printf("documents  by %zu data codes, at most %zu tokens each\n", chosen.codes.size(),
                chosen.longest);
  }
  std::printf("ranks      %zu on %s\n\n", chosen.ranks, where.c_str());
  std::printf(
      "                       loss            step in ms    slowest rank in ms"
      "      busiest / mean\n"
      "   step    as read   balanced    as read   balanced    as read   balanced"
      "   as read  balanced\n");
  outcome const found =
      gpus > 0 ? train_on_gpus(gpus, chosen, lengths) : train_on_host(chosen, lengths);
  return is_the_same(found) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    return run(arguments(argc, argv));
  } catch (wrong_usage const& problem) {
    return std::fprintf(stderr, "train: %s\n", problem.what()), 2;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "train: %s\n", problem.what()), 1;
  }
}
