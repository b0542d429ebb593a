// SPDX-License-Identifier: Apache-2.0
// Where a rank computes, a stream of a GPU or its thread of the host, and what it computes there.
#pragma once

#include <ballast/core.hpp>

#include <cuda_runtime.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>

namespace single_file {

inline void check(cudaError_t code)
{
  if (code != cudaSuccess) { throw std::runtime_error(cudaGetErrorString(code)); }
}

/// The larger of two errors; NaN, which is an error too, where one is NaN.
inline double larger(double a, double b)
{
  return a >= b || a != a ? a : b;
}

struct device {
  bool is_gpu = false;
  cudaStream_t stream = nullptr;
  std::mutex* turn = nullptr;  ///< of the ranks that share a GPU: see milliseconds_of
};

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

inline void wait(device const& on)
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

/// By what a row is multiplied, and what is added to it: the same for all rows, or, in an adaptive
/// norm, from a row of its sequence, by one plus the gain.
template <class T>
struct gains {
  T const* gain;
  T const* bias;
  int const* sequence = nullptr;
  std::size_t step = 0;  // from sequence to sequence

  BALLAST_HOST_DEVICE std::size_t first(std::size_t t) const
  {
    return sequence == nullptr ? 0 : static_cast<std::size_t>(sequence[t]) * step;
  }
  BALLAST_HOST_DEVICE T factor(std::size_t at) const
  {
    return sequence == nullptr ? gain[at] : 1 + gain[at];
  }
};

/// out[t] = (x[t] - mean) / deviation * gain + bias
template <class T>
struct layer_norm {
  T* out;
  T* mean;
  T* scale;  // 1 / deviation
  T const* x;
  gains<T> by;
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t t) const
  {
    T const* const row = x + t * channels;
    std::size_t const first = by.first(t);
    T sum = 0;
    for (std::size_t c = 0; c < channels; ++c) { sum += row[c]; }
    T const m = sum / static_cast<T>(channels);
    T squares = 0;
    for (std::size_t c = 0; c < channels; ++c) { squares += (row[c] - m) * (row[c] - m); }
    T const s = 1 / std::sqrt(squares / static_cast<T>(channels) + T(1e-5));
    for (std::size_t c = 0; c < channels; ++c) {
      out[t * channels + c] = (row[c] - m) * s * by.factor(first + c) + by.bias[first + c];
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
  gains<T> by;
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t t) const
  {
    T const m = mean[t];
    T const s = scale[t];
    std::size_t const first = by.first(t);
    T sum = 0;
    T along = 0;  // of x in what arrives
    for (std::size_t c = 0; c < channels; ++c) {
      std::size_t const i = t * channels + c;
      T const dnorm = dout[i] * by.factor(first + c);
      sum += dnorm;
      along += dnorm * (x[i] - m) * s;
    }
    sum /= static_cast<T>(channels);
    along /= static_cast<T>(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      std::size_t const i = t * channels + c;
      T const norm = (x[i] - m) * s;
      dx[i] += (dout[i] * by.factor(first + c) - sum - norm * along) * s;
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

/// Attention within documents, of one head in one row: to the rows up to it, or to all.
/// Neighbouring indices are neighbouring rows of one head, which read the same keys at the same
/// time. Query, key and value of a head lie together, so that one exchange moves all three.
///
/// Shapes      qkv[rows][heads][3][head_size], out[rows][heads][head_size], log_sum[heads][rows].
template <class T>
struct attention {
  T* out;
  T* log_sum;  // of the exponentials of all scores, for the backward pass
  T const* qkv;
  int const* first;
  int const* end;
  bool causal;
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
    std::size_t const seen = causal ? t + 1 : static_cast<std::size_t>(end[t]);
    for (auto u = static_cast<std::size_t>(first[t]); u < seen; ++u, key += step) {
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
  int const* end;
  bool causal;
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
    std::size_t const seen = causal ? t + 1 : static_cast<std::size_t>(end[t]);
    for (auto u = static_cast<std::size_t>(first[t]); u < seen; ++u, key += step) {
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
  int const* first;
  int const* end;
  bool causal;
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
    std::size_t const last = causal ? u : static_cast<std::size_t>(first[u]);
    for (auto t = static_cast<std::size_t>(end[u]); t-- > last;) {  // all begin at the same end
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

/// y = x sigmoid(x)
template <class T>
struct silu {
  T* out;
  T const* x;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    out[i] = x[i] / (1 + std::exp(-x[i]));
  }
};

template <class T>
struct silu_backward {
  T* dx;  // enters as dout
  T const* x;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    T const sigmoid = 1 / (1 + std::exp(-x[i]));
    dx[i] *= sigmoid * (1 + x[i] * (1 - sigmoid));
  }
};

/// out[t] = added[t] + x[t] times the gate of its sequence; without `added` the gradient by x.
template <class T>
struct gated {
  T* out;
  T const* x;
  T const* added;
  T const* gate;
  int const* sequence;
  std::size_t step;  // from sequence to sequence
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    auto const of = static_cast<std::size_t>(sequence[i / channels]);
    T const own = gate[of * step + i % channels] * x[i];
    out[i] = added == nullptr ? own : added[i] + own;
  }
};

/// out[s][c] = the sum of x[t][c], times y[t][c] if there is one, over the rows t of sequence s
template <class T>
struct sequence_sums {
  T* out;
  std::size_t step;  // from sequence to sequence
  T const* x;
  T const* y;
  int const* begin;  // of each sequence's rows
  std::size_t channels;

  BALLAST_HOST_DEVICE void operator()(std::size_t index) const
  {
    std::size_t const s = index / channels;
    std::size_t const c = index % channels;
    T sum = 0;
    for (auto t = static_cast<std::size_t>(begin[s]); t < static_cast<std::size_t>(begin[s + 1]);
         ++t) {
      T const one = x[t * channels + c];
      sum += y == nullptr ? one : one * y[t * channels + c];
    }
    out[s * step + c] = sum;
  }
};

/// some[t] = all[row[t]], or the reverse
template <class T>
struct move_rows {
  T* some;
  T* all;
  int const* row;
  std::size_t width;
  bool back;

  BALLAST_HOST_DEVICE void operator()(std::size_t i) const
  {
    T& other = all[static_cast<std::size_t>(row[i / width]) * width + i % width];
    if (back) {
      other = some[i];
    } else {
      some[i] = other;
    }
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

}  // namespace single_file
