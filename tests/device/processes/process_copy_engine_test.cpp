// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes on one GPU. A process that has called CUDA must not fork, so this is a
// program by itself, whose tests call CUDA in their children only.
#include <ballast/gpu/process_copy_engine_communicator.hpp>

#include "../../comm/conformance.hpp"  // defines: ballast_test::conformance
#include "../../comm/pipe_communicator.hpp"
#include "../gpu_test.hpp"  // defines: ballast_test::no_device

#include <unistd.h>

#include <chrono>

namespace {

using communicator = ballast::process_copy_engine_communicator<ballast_test::pipe_communicator>;
using pinned_bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
using conformance = ballast_test::conformance<communicator, pinned_bytes>;

constexpr std::chrono::minutes bound{1};

/// body(communicator) in processes whose GPU is number rank % devices.
template <class Body>
void run_processes(std::size_t ranks, Body const& body)
{
  constexpr int skipped = 77;
  auto const statuses = ballast_test::run_pipe_processes(ranks, bound, [&](auto& host) {
    if (ballast_test::no_device() != nullptr) { ::_exit(skipped); }
    int devices = 0;
    ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    ASSERT_EQ(cudaSetDevice(static_cast<int>(to_index(host.rank())) % devices), cudaSuccess);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    {
      auto comm = communicator::join(std::move(host), stream, {.deadline = bound});
      ASSERT_TRUE(comm) << comm.error().message;
      body(*comm);
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
  if (std::ranges::count(statuses, skipped << 8) > 0) { GTEST_SKIP() << "no CUDA device"; }
  EXPECT_EQ(statuses, std::vector<int>(ranks, 0));
}

TEST(ProcessCopyEnginesOnGpu, Conform)
{
  for (std::size_t const ranks : {2U, 4U}) {
    run_processes(ranks, [](communicator& comm) {
      for (auto const& check : conformance::data_checks()) { check.run(comm); }
      for (auto const& check : conformance::mismatch_checks()) { check.run(comm); }
    });
  }
}

// Each round overwrites what it sent as soon as the stream lets it; nobody waits in between.
TEST(ProcessCopyEnginesOnGpu, ExchangeDeviceMemoryInTheOrderOfTheirStreams)
{
  constexpr std::size_t bytes = std::size_t{1} << 20U;
  constexpr std::size_t rounds = 20;
  run_processes(2, [](communicator& comm) {
    auto const lent = comm.lend(bytes).value();
    ballast::device_array<std::byte> const own(bytes), all(2 * bytes);
    pinned_bytes found(rounds * 2 * bytes);
    auto const content = [](std::size_t rank, std::size_t round) {
      return static_cast<int>(100 * rank + round);
    };
    for (std::size_t round = 0; round < rounds; ++round) {
      auto const send = round % 2 == 0 ? lent : own.span();
      EXPECT_EQ(
          cudaMemsetAsync(send.data(), content(to_index(comm.rank()), round), bytes, comm.stream()),
          cudaSuccess);
      EXPECT_TRUE(comm.all_gather(send, all.span()));
      EXPECT_EQ(cudaMemcpyAsync(found.data() + round * 2 * bytes, all.data(), 2 * bytes,
                                cudaMemcpyDeviceToHost, comm.stream()),
                cudaSuccess);
    }
    EXPECT_TRUE(comm.barrier());
    EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);
    for (std::size_t at = 0; at < found.size(); at += bytes) {
      std::byte const expected{static_cast<unsigned char>(content(at / bytes % 2, at / bytes / 2))};
      EXPECT_EQ(
          std::ranges::count(found.begin() + static_cast<std::ptrdiff_t>(at),
                             found.begin() + static_cast<std::ptrdiff_t>(at + bytes), expected),
          static_cast<std::ptrdiff_t>(bytes));
    }
  });
}

}  // namespace
