// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_NCCL_OPTIONS_HPP
#define BALLAST_GPU_DETAIL_NCCL_OPTIONS_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/result.hpp>
#include <ballast/gpu/detail/nccl_queue.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The memory that compare_nccl_options() takes.
[[nodiscard]] inline std::size_t bytes_of_nccl_options(std::size_t ranks) noexcept
{
  return sizeof(std::uint64_t) * (ranks + 1);
}

/// Compares what the ranks of a communicator were made with: collective, and waits.
///
/// Shapes      memory[bytes_of_nccl_options(ranks)], which GPU and host reach.
/// Errors      mismatch, on every rank: of the first option that differs; the communicator is
///             whole. wrong_order while the stream is captured; those of nccl_queue.
/// Complexity  one all_gather of 8 bytes a rank.
[[nodiscard]] inline result<void> compare_nccl_options(nccl_queue& queue,
                                                       std::span<std::byte> memory,
                                                       std::size_t ranks,
                                                       std::chrono::milliseconds deadline,
                                                       bool verify)
{
  if (auto can = queue.can_wait("over"); !can) { return can; }
  std::uint64_t const own = static_cast<std::uint64_t>(deadline.count()) << 1U | (verify ? 1U : 0U);
  std::byte* const received = &memory[sizeof(own)];
  std::memcpy(memory.data(), &own, sizeof(own));
  auto queued = queue.submit("over", "ncclAllGather", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(memory.data(), received, sizeof(own), ncclUint8, comm, stream);
  });
  if (!queued) { return queued; }
  if (auto done = queue.drain("over"); !done) { return done; }
  std::vector<std::uint64_t> verifies;
  std::vector<std::uint64_t> deadlines;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::uint64_t word = 0;
    std::memcpy(&word, received + sizeof(word) * rank, sizeof(word));
    verifies.push_back(word & 1U);
    deadlines.push_back(word >> 1U);
  }
  if (auto differing = dissenters(verifies); !differing.empty()) {
    return comm_failure::different_options("over", "verify", std::move(differing));
  }
  if (auto differing = dissenters(deadlines); !differing.empty()) {
    return comm_failure::different_options("over", "deadline", std::move(differing));
  }
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_NCCL_OPTIONS_HPP
