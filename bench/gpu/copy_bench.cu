// SPDX-License-Identifier: Apache-2.0
// copy_batch against a cudaMemcpyAsync of the same bytes: the throughput of copies of one length by
// both policies and for several tiles and numbers of blocks, and what many small copies cost.
#include "cub_copies.cuh"
#include "gpu_timing.cuh"

#include <ballast/core.hpp>
#include <ballast/cuda/copy_batch.cuh>
#include <ballast/cuda/tables.hpp>

#include <cuda_runtime.h>

#include <cstdio>

namespace bench {

// All copies have one length; the destinations are in another order than the sources, as rows that
// are sorted by peer.
struct equal_copies {
  static constexpr bool contiguous = true;

  std::byte const* from;
  std::byte* to;
  std::size_t bytes;
  std::uint32_t count;  // a power of two

  [[nodiscard]] BALLAST_HOST_DEVICE ballast::strided_copy operator()(std::uint32_t index) const
  {
    std::size_t const place = (std::size_t{index} * 2'654'435'761) & (count - 1);
    return ballast::strided_copy::contiguous(from + index * bytes, to + place * bytes, bytes);
  }
};

// Columns [0, run) of rows of four runs, as a quarter of the heads of all tokens.
struct head_copies {
  std::byte const* from;
  std::byte* to;
  std::size_t run;
  std::size_t rows;

  [[nodiscard]] BALLAST_HOST_DEVICE ballast::strided_copy operator()(std::uint32_t index) const
  {
    return {from + index * run, to + index * run * rows, 4 * run, run, run, rows};
  }
};

}  // namespace bench

namespace {

using ballast::copy_batch;
using ballast::tiled_copies;
using bench::check;
using bench::cub_copies;
using bench::equal_copies;
using bench::head_copies;

class device_memory {
 public:
  explicit device_memory(std::size_t bytes)
  {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    memory_ = static_cast<std::byte*>(memory);
  }
  ~device_memory() { (void)cudaFree(memory_); }
  device_memory(device_memory const&) = delete;
  device_memory& operator=(device_memory const&) = delete;

  [[nodiscard]] std::byte* data() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
};

/// A list and tiled_copies or cub_copies, with all that a call needs.
template <class List, class Policy>
class batch {
 public:
  batch(List const& list, std::uint32_t count, Policy const& policy, cudaStream_t stream)
      : list_(list), count_(count), policy_(policy), stream_(stream), temporary_(bytes())
  {}

  void operator()() const
  {
    std::size_t available = bytes_;
    check(queue(temporary_.data(), available));
  }

 private:
  [[nodiscard]] std::size_t bytes()
  {
    check(queue(nullptr, bytes_));
    return bytes_;
  }

  [[nodiscard]] cudaError_t queue(void* temporary, std::size_t& available) const
  {
    if constexpr (std::is_same_v<Policy, tiled_copies>) {
      return copy_batch(temporary, available, list_, count_, stream_, policy_);
    } else {
      return policy_(temporary, available, list_, count_, stream_);
    }
  }

  List list_;
  std::uint32_t count_;
  Policy policy_;
  cudaStream_t stream_;
  std::size_t bytes_ = 0;
  device_memory temporary_;
};

std::string bytes_text(std::size_t bytes)
{
  return bytes < 1024      ? std::to_string(bytes) + " B"
         : bytes < 1 << 20 ? std::to_string(bytes / 1024) + " kB"
                           : std::to_string(bytes >> 20) + " MB";
}

constexpr std::size_t total = std::size_t{512} << 20;

void by_length(device_memory const& from, device_memory const& to, cudaStream_t stream)
{
  std::printf("\nCopies of one length, 512 MB\n");
  bench::header();
  auto const memcpy_all = [&] {
    check(cudaMemcpyAsync(to.data(), from.data(), total, cudaMemcpyDeviceToDevice, stream));
  };
  for (std::size_t const bytes : {256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}) {
    auto const count = static_cast<std::uint32_t>(total / bytes);
    for (std::size_t const misaligned : {0, 4, 1}) {
      equal_copies const list{from.data() + misaligned, to.data(), bytes, count};
      auto const times =
          bench::medians_us(stream, memcpy_all, batch(list, count, tiled_copies{}, stream),
                            batch(list, count, cub_copies{}, stream));
      std::string const name =
          bytes_text(bytes) + (misaligned == 0 ? "" : " from + " + std::to_string(misaligned));
      bench::row((name + ", tiled").c_str(), total, times[1], times[0]);
      bench::row((name + ", cub").c_str(), total, times[2], times[0]);
    }
  }
  for (std::size_t const run : {256, 2048, 16 << 10}) {
    head_copies const list{from.data(), to.data(), run, total / 4 / run};
    auto const times =
        bench::medians_us(stream, memcpy_all, batch(list, 4, tiled_copies{}, stream));
    bench::row(("runs of " + bytes_text(run) + ", tiled").c_str(), total, times[1], times[0]);
  }
}

void by_blocks(device_memory const& from, device_memory const& to, cudaStream_t stream)
{
  std::printf("\nBlocks on a multiprocessor and bytes of a tile, 512 MB\n");
  bench::header();
  auto const memcpy_all = [&] {
    check(cudaMemcpyAsync(to.data(), from.data(), total, cudaMemcpyDeviceToDevice, stream));
  };
  for (std::size_t const bytes : {4 << 10, 64 << 10}) {
    auto const count = static_cast<std::uint32_t>(total / bytes);
    equal_copies const list{from.data(), to.data(), bytes, count};
    for (std::uint32_t const blocks : {1, 2, 4, 8, 16}) {
      for (std::uint32_t const tile_bytes : {2048, 4096, 16384}) {
        auto const times = bench::medians_us(
            stream, memcpy_all, batch(list, count, tiled_copies{tile_bytes, blocks}, stream));
        std::string const name = bytes_text(bytes) + ", " + std::to_string(blocks) +
                                 " blocks, tiles of " + bytes_text(tile_bytes);
        bench::row(name.c_str(), total, times[1], times[0]);
      }
    }
  }
}

void overhead(device_memory const& from, device_memory const& to, cudaStream_t stream)
{
  std::printf("\n4096 copies: what they cost but for their bytes\n");
  for (std::size_t const bytes : {16, 4096}) {
    equal_copies const list{from.data(), to.data(), bytes, 4096};
    auto const print = [&](char const* name, auto const& queue) {
      std::printf("| %-6s | %5zu B each | host %6.1f us | GPU %6.1f us |\n", name, bytes,
                  bench::host_us(stream, queue), bench::median_us(stream, queue));
    };
    print("tiled", batch(list, 4096, tiled_copies{}, stream));
    print("cub", batch(list, 4096, cub_copies{}, stream));
    print("memcpy", [&] {
      check(
          cudaMemcpyAsync(to.data(), from.data(), 4096 * bytes, cudaMemcpyDeviceToDevice, stream));
    });
  }
}

}  // namespace

int main()
{
  bench::print_device();
  bench::stream const stream;
  device_memory const from(total + 16);
  device_memory const to(total);
  check(cudaMemsetAsync(from.data(), 0x5a, total + 16, stream.get()));
  by_length(from, to, stream.get());
  by_blocks(from, to, stream.get());
  overhead(from, to, stream.get());
}
