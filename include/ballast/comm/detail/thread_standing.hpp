// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_THREAD_STANDING_HPP
#define BALLAST_COMM_DETAIL_THREAD_STANDING_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What the threads of a group know of each other, whatever they wait for: who has left, and the
/// first failure, which becomes everybody's.
///
/// Expects     all members are used with `mutex` locked.
struct thread_standing {
  explicit thread_standing(std::size_t ranks) : woken(ranks), left(ranks, false) {}

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

#endif  // BALLAST_COMM_DETAIL_THREAD_STANDING_HPP
