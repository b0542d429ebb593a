// SPDX-License-Identifier: Apache-2.0
// The C++17 half: a trainer that knows ballast by planner.h alone. It plans a few steps, checks
// that every token is used once, and where there is a GPU packs the tokens as the plan says.

#include "planner.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

void check(cudaError_t code)
{
  if (code != cudaSuccess) { throw std::runtime_error(cudaGetErrorString(code)); }
}

/// Memory of the device, with what a vector of the host has.
template <class T>
class device_copy {
 public:
  device_copy(T const* from, std::size_t count)
  {
    if (count == 0) { return; }
    check(cudaMalloc(&memory_, count * sizeof(T)));
    if (cudaError_t const code = cudaMemcpy(memory_, from, count * sizeof(T), cudaMemcpyDefault);
        code != cudaSuccess) {
      (void)cudaFree(memory_);
      check(code);
    }
  }
  device_copy(device_copy const&) = delete;
  device_copy& operator=(device_copy const&) = delete;
  ~device_copy() { (void)cudaFree(memory_); }

  [[nodiscard]] T* data() const { return memory_; }

 private:
  T* memory_ = nullptr;
};

/// Where the token at `row`, as computed, was read: in the last document that begins at or before
/// it. Documents without tokens begin where the next one does.
__host__ __device__ std::int64_t row_as_read(std::int64_t const* to, std::int64_t const* from,
                                             std::size_t documents, std::int64_t row)
{
  std::size_t first = 0;
  std::size_t last = documents;  // to[first] <= row < to[last]
  while (last - first > 1) {
    std::size_t const middle = first + (last - first) / 2;
    if (to[middle] <= row) {
      first = middle;
    } else {
      last = middle;
    }
  }
  return from[first] + row - to[first];
}

__global__ void pack_tokens(int* packed, int const* read, std::int64_t const* to,
                            std::int64_t const* from, std::size_t documents)
{
  std::int64_t const stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; row < to[documents]; row += stride) {
    packed[row] = read[row_as_read(to, from, documents, row)];
  }
}

/// The tokens as the plan wants them, by the host.
std::vector<int> packed_by_host(step_plan const& plan, std::vector<int> const& read)
{
  std::vector<int> packed;
  for (std::int64_t row = 0; row < plan.to[plan.documents]; ++row) {
    std::int64_t const from = row_as_read(plan.to, plan.from, plan.documents, row);
    packed.push_back(read[static_cast<std::size_t>(from)]);
  }
  return packed;
}

std::vector<int> packed_by_gpu(step_plan const& plan, std::vector<int> const& read)
{
  device_copy<int> const tokens(read.data(), read.size());
  device_copy<int> const packed(read.data(), read.size());
  device_copy<std::int64_t> const to(plan.to, plan.documents + 1);
  device_copy<std::int64_t> const from(plan.from, plan.documents);
  pack_tokens<<<64, 256>>>(packed.data(), tokens.data(), to.data(), from.data(), plan.documents);
  check(cudaGetLastError());
  std::vector<int> result(read.size());
  check(cudaMemcpy(result.data(), packed.data(), result.size() * sizeof(int), cudaMemcpyDefault));
  return result;
}

struct documents {
  std::vector<std::int64_t> lengths;
  std::vector<std::uint32_t> source;
};

/// What the ranks' data loaders bring, in rank order.
documents read_step(std::mt19937_64& random, std::size_t ranks)
{
  std::lognormal_distribution<double> length(std::log(500.0), 1.0);
  documents read;
  for (std::size_t i = 0; i < 8 * ranks; ++i) {
    read.lengths.push_back(static_cast<std::int64_t>(std::min(length(random), 8192.0)));
    read.source.push_back(static_cast<std::uint32_t>(i / 8));
  }
  return read;
}

void run(planner* plans, std::size_t ranks)
{
  int gpus = 0;
  bool const has_gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
  std::mt19937_64 random(1);
  for (int step = 1; step <= 5; ++step) {
    documents const read = read_step(random, ranks);
    step_plan plan{};
    if (planner_plan(plans, read.lengths.data(), read.source.data(), read.lengths.size(), &plan) !=
        0) {
      throw std::runtime_error(planner_error(plans));
    }
    std::printf("step %d: busiest / mean rank %.3f as read, %.3f balanced; tokens", step,
                plan.imbalance_as_read, plan.imbalance);
    for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
      std::printf(" %ld",
                  static_cast<long>(plan.to[plan.first[rank + 1]] - plan.to[plan.first[rank]]));
    }

    // Every token is a number of its own: packed, each is there once.
    std::vector<int> tokens(static_cast<std::size_t>(plan.to[plan.documents]));
    for (std::size_t i = 0; i < tokens.size(); ++i) { tokens[i] = static_cast<int>(i); }
    auto const packed = packed_by_host(plan, tokens);
    auto sorted = packed;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != tokens) { throw std::runtime_error("a token is missing or used twice"); }
    if (has_gpu && packed_by_gpu(plan, tokens) != packed) {
      throw std::runtime_error("the GPU has packed other tokens than the host");
    }
    std::printf("; each token once%s\n", has_gpu ? ", on the GPU too" : "");
  }
  if (!has_gpu) { std::printf("there is no GPU to pack the tokens on\n"); }
}

}  // namespace

int main()
{
  constexpr std::size_t ranks = 4;
  planner* const plans = planner_create(ranks, 768, 12);
  if (plans == nullptr) { return std::fprintf(stderr, "two_file: out of memory\n"), 1; }
  int status = 0;
  try {
    run(plans, ranks);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "two_file: %s\n", problem.what());
    status = 1;
  }
  planner_destroy(plans);
  return status;
}
