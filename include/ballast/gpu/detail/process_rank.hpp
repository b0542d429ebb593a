// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_PROCESS_RANK_HPP
#define BALLAST_GPU_DETAIL_PROCESS_RANK_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/detail/copy_engine_ranks.hpp>
#include <ballast/gpu/detail/cuda_event.hpp>
#include <ballast/gpu/detail/lent_memory.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t, cudaIpcEventHandle_t

#include <cstddef>
#include <memory>
#include <utility>

namespace ballast::inline v0::detail {

/// What a rank's process tells others, so that they reach its events and some of its memory.
struct process_rank_handles {
  cudaIpcEventHandle_t ready;
  cudaIpcEventHandle_t taken;
  lent_allocation memory;  ///< of 0 bytes if the rank could not be made
};

/// Makes this process's rank; the stream's device becomes the current one.
[[nodiscard]] inline result<std::shared_ptr<copy_engine_rank const>> make_process_rank(
    cudaStream_t stream, current_device const& current, lent_memory& memory,
    process_rank_handles& handles)
{
  int device = 0;
  if (auto const code = cudaStreamGetDevice(stream, &device); code != cudaSuccess) {
    return cuda_failure("cudaStreamGetDevice", code);
  }
  if (auto set = current.set(device); !set) { return tl::unexpected(std::move(set).error()); }
  auto ready = cuda_event::make_for_processes();
  if (!ready) { return tl::unexpected(std::move(ready).error()); }
  auto taken = cuda_event::make_for_processes();
  if (!taken) { return tl::unexpected(std::move(taken).error()); }
  auto const of_ready = ready->handle();
  if (!of_ready) { return tl::unexpected(of_ready.error()); }
  auto const of_taken = taken->handle();
  if (!of_taken) { return tl::unexpected(of_taken.error()); }
  auto const lent = memory.lend(1);
  if (!lent) { return tl::unexpected(lent.error()); }
  handles = {*of_ready, *of_taken, *memory.find(*lent)};
  return std::make_shared<copy_engine_rank const>(
      copy_engine_rank{stream, *std::move(ready), *std::move(taken)});
}

/// Opens what another process told. Its stream cannot be reached, and is null.
[[nodiscard]] inline result<std::shared_ptr<copy_engine_rank const>> open_process_rank(
    process_rank_handles const& handles, lent_memory& memory)
{
  auto ready = cuda_event::open(handles.ready);
  if (!ready) { return tl::unexpected(std::move(ready).error()); }
  auto taken = cuda_event::open(handles.taken);
  if (!taken) { return tl::unexpected(std::move(taken).error()); }
  if (auto const reached = memory.reach(handles.memory, {handles.memory.begin, 1}); !reached) {
    return tl::unexpected(reached.error());
  }
  return std::make_shared<copy_engine_rank const>(
      copy_engine_rank{nullptr, *std::move(ready), *std::move(taken)});
}

/// The error of `rank`, whose handles were refused.
[[nodiscard]] inline tl::unexpected<error> cannot_open_process_rank(std::size_t rank, error why)
{
  why.message += concat("; rank ", rank,
                        "'s memory and events cannot be opened here: give ranks processes of "
                        "their own, on one machine whose GPUs reach each other");
  return comm_failure::of_rank(to_id<rank_id>(rank), tl::unexpected<error>(std::move(why)));
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_PROCESS_RANK_HPP
