// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace bench {

/// Ends the benchmark at an error.
inline void check(cudaError_t status)
{
  if (status == cudaSuccess) { return; }
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::exit(EXIT_FAILURE);
}

/// Prints the device's name; without a device the program ends with 77, which ctest takes for
/// skipped.
inline void print_device()
{
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device: %s\n", cudaGetErrorString(found));
    std::exit(77);
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  std::printf("%s, compute capability %d.%d, %d multiprocessors\n", device.name, device.major,
              device.minor, device.multiProcessorCount);
}

class stream {
 public:
  stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~stream() { (void)cudaStreamDestroy(stream_); }
  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class event {
 public:
  event() { check(cudaEventCreate(&event_)); }
  ~event() { (void)cudaEventDestroy(event_); }
  event(event const&) = delete;
  event& operator=(event const&) = delete;

  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

inline constexpr int repeats = 25;

template <class T>
[[nodiscard]] T median(std::vector<T> values)
{
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Keeps a stream busy for some nanoseconds.
template <class Integer>
__global__ void spin(Integer nanoseconds)
{
  auto const now = [] {
    Integer time = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  };
  for (Integer const begin = now(); now() - begin < nanoseconds;) {}
}

/// Median microseconds on the GPU of each of several things that are queued on a stream. They take
/// turns, so that clocks and temperature are the same for all; the first two turns do not count.
/// Each is queued while the stream spins, so that the time of its launches is not in it.
template <class... Work>
[[nodiscard]] std::array<double, sizeof...(Work)> medians_us(cudaStream_t stream,
                                                             Work const&... work)
{
  event const begin;
  event const end;
  std::array<std::vector<float>, sizeof...(Work)> milliseconds;
  auto const time = [&](auto const& one, std::vector<float>& times) {
    spin<<<1, 1, 0, stream>>>(std::uint64_t{200'000});
    check(cudaGetLastError());
    check(cudaEventRecord(begin.get(), stream));
    one();
    check(cudaEventRecord(end.get(), stream));
    check(cudaEventSynchronize(end.get()));
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, begin.get(), end.get()));
    times.push_back(elapsed);
  };
  for (int turn = 0; turn < repeats + 2; ++turn) {
    if (turn == 2) {
      for (auto& times : milliseconds) { times.clear(); }
    }
    std::size_t next = 0;
    (time(work, milliseconds[next++]), ...);
  }
  std::array<double, sizeof...(Work)> medians{};
  for (std::size_t i = 0; i < medians.size(); ++i) {
    medians[i] = 1e3 * static_cast<double>(median(milliseconds[i]));
  }
  return medians;
}

template <class Work>
[[nodiscard]] double median_us(cudaStream_t stream, Work const& work)
{
  return medians_us(stream, work)[0];
}

/// `bytes` are those that are moved: each is read once and written once, and GB/s count both. The
/// last column is the share of what a cudaMemcpyAsync of as many bytes reaches on the device.
inline void row(char const* name, std::size_t bytes, double us, double memcpy_us)
{
  std::printf("| %-52s | %9.1f us | %8.1f GB/s | %6.1f %% |\n", name, us,
              2e-3 * static_cast<double>(bytes) / us, 100 * memcpy_us / us);
}

inline void header()
{
  std::printf("| %-52s | %12s | %13s | %8s |\n", "case", "time", "read + write", "memcpy");
  std::printf("|------|------|------|------|\n");
}

/// Median microseconds that the host takes to queue something on an idle stream.
template <class Work>
[[nodiscard]] double host_us(cudaStream_t stream, Work const& work)
{
  std::vector<double> times;
  for (int turn = 0; turn < repeats; ++turn) {
    check(cudaStreamSynchronize(stream));
    auto const begin = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  check(cudaStreamSynchronize(stream));
  return median(times);
}

}  // namespace bench
