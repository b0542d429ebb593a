// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_CHANNEL_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_CHANNEL_HPP

#include <ballast/comm/detail/mpi/mpi_incoming.hpp>
#include <ballast/core/contract.hpp>

#include <mpi.h>

#include <bitset>
#include <cstddef>
#include <mutex>

namespace ballast::inline v0::detail {

/// Returns whether MPI may be called: after MPI_Init and before MPI_Finalize.
[[nodiscard]] inline bool mpi_is_running()
{
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

/// What a group of MPI processes shares with all groups that are split from it: a communicator for
/// the bytes of their operations, one for their roll calls, one for transfers between two ranks,
/// which may be under way meanwhile, the messages that are expected there, and the tags by which
/// these groups tell their messages apart.
///
/// MPI has no call that makes a communicator for some ranks of another and that a deadline can end.
/// So a split makes none: its groups have a tag each.
///
/// Expects     no group uses the channel when it is destroyed, on no rank.
/// Ensures     (1) a tag that was reserved is not reserved again before it is released
///             (2) reserve and release may be called from several threads, and allocate nothing
class mpi_channel {
 public:
  static constexpr int none = -1;

  mpi_channel() = default;
  mpi_channel(mpi_channel const&) = delete;
  mpi_channel& operator=(mpi_channel const&) = delete;
  ~mpi_channel()
  {
    if (!mpi_is_running()) { return; }
    if (control != MPI_COMM_NULL) { MPI_Comm_free(&control); }
    if (pairs != MPI_COMM_NULL) { MPI_Comm_free(&pairs); }
    if (data != MPI_COMM_NULL) { MPI_Comm_free(&data); }
  }

  /// Returns the lowest free tag from `first` on, which is not below zero, or none.
  [[nodiscard]] int reserve(int first)
  {
    std::lock_guard const lock(mutex_);
    for (auto tag = static_cast<std::size_t>(first); tag < reserved_.size(); ++tag) {
      if (reserved_[tag]) { continue; }
      reserved_.set(tag);
      return static_cast<int>(tag);
    }
    return none;
  }

  void release(int tag)
  {
    std::lock_guard const lock(mutex_);
    if (tag != none) { reserved_.reset(static_cast<std::size_t>(tag)); }
  }

  MPI_Comm data = MPI_COMM_NULL;
  MPI_Comm control = MPI_COMM_NULL;
  MPI_Comm pairs = MPI_COMM_NULL;
  mpi_incoming incoming;

 private:
  std::mutex mutex_;
  std::bitset<32768> reserved_;  // MPI guarantees these tags and no more
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_CHANNEL_HPP
