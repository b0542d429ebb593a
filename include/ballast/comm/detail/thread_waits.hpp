// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_THREAD_WAITS_HPP
#define BALLAST_COMM_DETAIL_THREAD_WAITS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What the threads of a group know of each other: who waits for whom, who has left, and the first
/// failure, which becomes everybody's.
///
/// Expects     all members are used with `mutex` locked.
struct thread_waits {
  /// What a rank may wait for beside a rank: nothing, and all ranks that do not wait for this too.
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);
  static constexpr std::size_t everybody = static_cast<std::size_t>(-2);

  explicit thread_waits(std::size_t ranks)
      : woken(ranks), left(ranks, false), waits_for(ranks, nobody)
  {}

  /// Returns the failure that stands: `why`, unless there was one before.
  [[nodiscard]] tl::unexpected<error> fail(tl::unexpected<error> why)
  {
    if (!failure) { failure = std::move(why).value(); }
    wake_all();
    return tl::unexpected<error>(*failure);
  }

  void leave(std::size_t rank) noexcept
  {
    left[rank] = true;
    someone_left = true;
    wake_all();
  }

  /// Returns the ranks that wait for nobody and hold up this one, directly or through others. Empty
  /// if ranks wait in a circle only. It is called only at a deadline, so it need not be fast.
  [[nodiscard]] std::vector<rank_id> ranks_that_hold_up(std::size_t self) const
  {
    std::vector<bool> found(left.size(), false);
    std::vector<std::size_t> open{self};
    found[self] = true;
    std::vector<rank_id> ranks;
    for (std::size_t next = 0; next < open.size(); ++next) {
      std::size_t const awaited = waits_for[open[next]];
      for (std::size_t rank = 0; rank < left.size(); ++rank) {
        bool const holds_up =
            awaited == rank || (awaited == everybody && waits_for[rank] != everybody);
        if (!holds_up || found[rank]) { continue; }
        found[rank] = true;
        open.push_back(rank);
      }
    }
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      if (found[rank] && waits_for[rank] == nobody) { ranks.push_back(to_id<rank_id>(rank)); }
    }
    return ranks;
  }

  [[nodiscard]] std::vector<rank_id> ranks_that_left() const
  {
    std::vector<rank_id> ranks;
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      if (left[rank]) { ranks.push_back(to_id<rank_id>(rank)); }
    }
    return ranks;
  }

  std::mutex mutex;
  std::condition_variable met;                 // for those in a collective operation
  std::vector<std::condition_variable> woken;  // for each rank that waits for a transfer
  std::vector<bool> left;
  std::vector<std::size_t> waits_for;  // of each rank
  bool someone_left = false;
  std::optional<error> failure;

 private:
  void wake_all() noexcept
  {
    met.notify_all();
    for (std::condition_variable& each : woken) { each.notify_all(); }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_THREAD_WAITS_HPP
