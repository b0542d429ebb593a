// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/copy_engine_communicator.hpp>

#include "../comm/conformance.hpp"  // defines: ballast_test::{conformance, random_traffic, ...}
#include "gpu_test.hpp"             // defines: ballast_test::gpu_test

#include <ballast/core.hpp>

#include <chrono>
#include <thread>

namespace {

using ballast::copy_engine_options;
using ballast_test::traffic;
using communicator = ballast::copy_engine_communicator<>;
using pinned_bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
using conformance = ballast_test::conformance<communicator, pinned_bytes>;

__global__ void wait_for(long long clocks)
{
  long long const begin = clock64();
  while (clock64() - begin < clocks) {}
}

/// Byte i of a message is (seed + i) * 31, so that a byte in the wrong place is a wrong byte.
__global__ void write_message(std::byte* to, std::size_t count, std::uint32_t seed)
{
  for (std::size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count;
       at += std::size_t{gridDim.x} * blockDim.x) {
    to[at] = static_cast<std::byte>((seed + static_cast<std::uint32_t>(at)) * 31U);
  }
}

std::uint32_t seed_of(std::size_t round, std::size_t from, std::size_t to)
{
  return static_cast<std::uint32_t>(100 * round + 10 * from + to);
}

/// A stream for each of several ranks; those of rank r are on device r % devices.
class CopyEngineOnGpu : public ballast_test::gpu_test {
 protected:
  ~CopyEngineOnGpu() override
  {
    for (cudaStream_t const each : streams_) { EXPECT_EQ(cudaStreamDestroy(each), cudaSuccess); }
  }

  /// body(communicator) on a thread per rank, whose current device is its stream's.
  template <class Body>
  void run(int ranks, int devices, copy_engine_options options, Body const& body)
  {
    streams_.resize(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(cudaSetDevice(rank % devices), cudaSuccess);
      ASSERT_EQ(cudaStreamCreateWithFlags(&streams_[static_cast<std::size_t>(rank)],
                                          cudaStreamNonBlocking),
                cudaSuccess);
    }
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    {
      auto comms = communicator::make(streams_, options);
      ASSERT_TRUE(comms) << comms.error().message;
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          ASSERT_EQ(cudaSetDevice(rank % devices), cudaSuccess);
          body((*comms)[static_cast<std::size_t>(rank)]);
        });
      }
      for (std::thread& thread : threads) { thread.join(); }
    }
    for (cudaStream_t const each : streams_) { EXPECT_EQ(cudaStreamDestroy(each), cudaSuccess); }
    streams_.clear();
  }

  /// Exchanges of random sizes in device memory; no rank waits for a stream in between, some ranks'
  /// kernels are slow, and each overwrites what it sent as soon as its stream lets it.
  void exchange(int ranks, int devices, bool beside_kernels)
  {
    constexpr std::size_t rounds = 8;
    constexpr std::size_t most = 200'000;
    run(ranks, devices, {.deadline = bound, .beside_kernels = beside_kernels},
        [&](communicator& comm) {
          std::size_t const self = to_index(comm.rank());
          std::size_t const size = comm.size();
          ballast::random_source random(20240608);
          std::vector<traffic> sizes;
          for (std::size_t round = 0; round < rounds; ++round) {
            sizes.push_back(ballast_test::random_traffic(random, size, most));
          }
          ballast::device_array<std::byte> const send(size * most);
          std::vector<ballast::device_array<std::byte>> receive;
          for (std::size_t round = 0; round < rounds; ++round) {
            auto const to = sizes[round].sent_by(self);
            auto const from = sizes[round].received_by(self);
            if ((self + round) % 3 == 0) { wait_for<<<1, 1, 0, comm.stream()>>>(2'000'000); }
            std::size_t offset = 0;
            for (std::size_t peer = 0; peer < size; ++peer) {
              write_message<<<16, 256, 0, comm.stream()>>>(send.data() + offset, to[peer],
                                                           seed_of(round, self, peer));
              offset += to[peer];
            }
            receive.emplace_back(ballast_test::total(from));
            EXPECT_TRUE(
                comm.all_to_all_v(send.span().first(offset), to, receive.back().span(), from));
          }
          EXPECT_TRUE(comm.wait());
          EXPECT_EQ(cudaGetLastError(), cudaSuccess);
          for (std::size_t round = 0; round < rounds; ++round) {
            std::vector<std::byte> found(receive[round].size());
            std::vector<std::byte> expected;
            ASSERT_EQ(cudaMemcpy(found.data(), receive[round].data(), found.size(),
                                 cudaMemcpyDeviceToHost),
                      cudaSuccess);
            auto const from = sizes[round].received_by(self);
            for (std::size_t peer = 0; peer < size; ++peer) {
              for (std::uint32_t at = 0; at < from[peer]; ++at) {
                expected.push_back(static_cast<std::byte>((seed_of(round, peer, self) + at) * 31U));
              }
            }
            EXPECT_EQ(found, expected) << "round " << round;
          }
          EXPECT_TRUE(comm.barrier());
        });
  }

  static void pass_all(communicator& comm)
  {
    for (auto const& check : conformance::data_checks()) {
      SCOPED_TRACE(check.name);
      check.run(comm);
    }
    for (auto const& check : conformance::mismatch_checks()) {
      SCOPED_TRACE(check.name);
      check.run(comm);
    }
  }

  [[nodiscard]] static int devices()
  {
    int count = 0;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    return count;
  }

  static constexpr auto bound = std::chrono::minutes(1);

 private:
  std::vector<cudaStream_t> streams_;
};

TEST_F(CopyEngineOnGpu, ConformsWithSeveralRanksOnOneDevice)
{
  for (int const ranks : {1, 2, 3, 8}) {
    for (bool const beside_kernels : {true, false}) {
      run(ranks, 1, {.deadline = bound, .beside_kernels = beside_kernels}, pass_all);
    }
  }
}

TEST_F(CopyEngineOnGpu, ConformsOnSeveralDevices)
{
  if (devices() < 2) { GTEST_SKIP() << "one device only"; }
  run(devices(), devices(), {.deadline = bound}, pass_all);
  run(2 * devices(), devices(), {.deadline = bound}, pass_all);
}

TEST_F(CopyEngineOnGpu, ExchangesDeviceMemoryInTheOrderOfItsStreams)
{
  for (int const ranks : {1, 2, 4, 8}) {
    exchange(ranks, 1, true);
    exchange(ranks, 1, false);
  }
}

TEST_F(CopyEngineOnGpu, ExchangesDeviceMemoryOfSeveralDevices)
{
  if (devices() < 2) { GTEST_SKIP() << "one device only"; }
  exchange(devices(), devices(), true);
}

}  // namespace
