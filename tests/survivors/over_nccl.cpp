// SPDX-License-Identifier: Apache-2.0
#include "../support/nccl_shim.hpp"
#include "faults.hpp"

#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/nccl_communicator.hpp>

namespace {

// What a rank of NCCL has besides its communicator.
struct rank_of_nccl {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  explicit rank_of_nccl(ncclComm_t of) : comm(of) { (void)cudaStreamCreate(&stream); }
  rank_of_nccl(rank_of_nccl const&) = delete;
  rank_of_nccl& operator=(rank_of_nccl const&) = delete;
  ~rank_of_nccl()
  {
    if (comm != nullptr) { (void)ncclCommDestroy(comm); }
    (void)cudaStreamDestroy(stream);
  }
};

}  // namespace

survivors::answers survivors::over_nccl(std::size_t ranks, fault what,
                                        std::chrono::milliseconds deadline)
{
  using pinned_bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
  std::vector<ncclComm_t> comms(ranks);
  if (ncclCommInitAll(comms.data(), static_cast<int>(ranks), nullptr) != ncclSuccess) {
    return answers(ranks);
  }
  return on_threads_each(ranks, [&](std::size_t rank, auto all_is_well) {
    rank_of_nccl own(comms[rank]);
    auto comm = ballast::nccl_communicator<>::over(own.comm, own.stream,
                                                   {.deadline = deadline, .verify = true});
    return suffer<pinned_bytes>(*std::move(comm), what, deadline, all_is_well);
  });
}
