// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../gpu/copy_engine_threads.hpp"  // defines: ballast_test::cuda_streams
#include "../support/nccl_shim.hpp"
#include "../support/test.hpp"

#include <ballast/gpu/nccl_communicator.hpp>

#include <latch>

namespace ballast_test {

/// What a job has before ballast comes: an NCCL communicator and a stream for each rank. They are
/// the job's to destroy, but for communicators that have been aborted and so are null.
class nccl_ranks {
 public:
  explicit nccl_ranks(std::size_t ranks) : comms_(ranks), streams_(ranks)
  {
    EXPECT_EQ(ncclCommInitAll(comms_.data(), static_cast<int>(ranks), nullptr), ncclSuccess);
  }
  nccl_ranks(nccl_ranks const&) = delete;
  nccl_ranks& operator=(nccl_ranks const&) = delete;
  ~nccl_ranks()
  {
    for (ncclComm_t const comm : comms_) {
      if (comm != nullptr) { EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess); }
    }
  }

  [[nodiscard]] ncclComm_t& comm(std::size_t rank) { return comms_[rank]; }
  [[nodiscard]] cudaStream_t stream(std::size_t rank) const { return streams_[rank]; }

  void make_non_blocking(std::size_t polls) const
  {
    for (ncclComm_t const comm : comms_) { ballast_test::make_non_blocking(comm, polls); }
  }

  /// Calls body(rank) on a thread per rank; all begin at the same time.
  template <class Body>
  void run(Body body)
  {
    std::latch start(static_cast<std::ptrdiff_t>(comms_.size()));
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < comms_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        start.arrive_and_wait();
        body(rank);
      });
    }
    for (std::thread& thread : threads) { thread.join(); }
  }

  /// Calls body(communicator) on a thread per rank, once all have theirs: a clock that the body moves
  /// passes no deadline of a rank that still connects.
  template <class Body>
  void run(ballast::nccl_communicator_options options, Body body)
  {
    std::latch made(static_cast<std::ptrdiff_t>(comms_.size()));
    run([&](std::size_t rank) {
      auto comm = ballast::nccl_communicator<>::over(comms_[rank], streams_[rank], options);
      made.arrive_and_wait();
      ASSERT_TRUE(comm) << comm.error().message;
      body(*comm);
    });
  }

  /// The communicators of all ranks, for one thread.
  std::vector<ballast::nccl_communicator<>> communicators(
      ballast::nccl_communicator_options options)
  {
    std::vector<std::optional<ballast::nccl_communicator<>>> made(comms_.size());
    run([&](std::size_t rank) {
      made[rank].emplace(
          ballast::nccl_communicator<>::over(comms_[rank], streams_[rank], options).value());
    });
    std::vector<ballast::nccl_communicator<>> all;
    for (auto& each : made) { all.push_back(*std::move(each)); }
    return all;
  }

 private:
  std::vector<ncclComm_t> comms_;
  cuda_streams streams_;
};

}  // namespace ballast_test
