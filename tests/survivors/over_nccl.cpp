// SPDX-License-Identifier: Apache-2.0
#include "../support/hand_moved_clock.hpp"
#include "../support/nccl_shim.hpp"
#include "columns.hpp"

#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/nccl_communicator.hpp>

#include <barrier>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

survivors::answers survivors::over_nccl(std::size_t ranks, fault what,
                                        std::chrono::milliseconds deadline)
{
  using pinned_bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
  answers all(ranks);
  std::optional<ballast_test::hand_moved_clock> stands(std::in_place);
  std::barrier well(static_cast<std::ptrdiff_t>(ranks), [&]() noexcept { stands.reset(); });
  std::vector<ncclComm_t> comms(ranks);
  std::vector<cudaStream_t> streams(ranks);
  if (ncclCommInitAll(comms.data(), static_cast<int>(ranks), nullptr) != ncclSuccess) {
    return all;
  }
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      (void)cudaStreamCreate(&streams[rank]);
      try {
        auto comm = ballast::nccl_communicator<>::over(comms[rank], streams[rank],
                                                       {.deadline = deadline, .verify = true});
        all[rank] =
            suffer<pinned_bytes>(*std::move(comm), what, deadline, [&] { well.arrive_and_wait(); });
      } catch (std::exception const& thrown) {
        all[rank] = answer{thrown.what()};
      }
      if (comms[rank] != nullptr) { (void)ncclCommDestroy(comms[rank]); }
      (void)cudaStreamDestroy(streams[rank]);
    });
  }
  threads.clear();  // joins them
  return all;
}
