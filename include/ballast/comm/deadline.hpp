// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core/detail/wait_clock.hpp>

namespace ballast::inline v0 {

/// How long a rank waits for the others by default: long enough for a checkpoint to be written,
/// short enough for a failure to be noticed the same night. milliseconds::max() stands for none; no
/// wait is longer than a year.
inline constexpr std::chrono::milliseconds default_deadline = std::chrono::minutes(10);

namespace comm_failure {

/// The deadline passed. `missing` is empty if the communicator cannot tell which ranks are missing.
[[nodiscard]] inline tl::unexpected<error> timed_out(std::string_view operation,
                                                     std::chrono::milliseconds deadline,
                                                     std::vector<rank_id> missing)
{
  std::string message = std::string(operation).append(": ");
  message += missing.empty() ? "some ranks" : ranks_text(missing);
  message += detail::concat(" did not arrive within ", deadline.count(),
                            " ms; look for what holds them up, or raise the deadline");
  return with_ranks(error_code::timed_out, std::move(message), std::move(missing));
}

}  // namespace comm_failure

namespace detail {

/// What a rank may wait for beside a rank: nothing, and all ranks that do not wait for this too.
struct waits_for {
  static constexpr int nobody = -1;
  static constexpr int everybody = -2;
};

/// Returns the ranks that wait for nobody and hold up one of those that are `held`, directly or
/// through others. Empty if ranks wait in a circle only. It is called only at a deadline, so it need
/// not be fast.
///
/// Shapes      held[P]; awaited[P]: for whom each rank waits.
[[nodiscard]] inline std::vector<rank_id> ranks_that_hold_up(std::vector<bool> held,
                                                             std::span<int const> awaited)
{
  for (bool more = true; more;) {
    more = false;
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      for (std::size_t peer = 0; peer < held.size() && held[rank]; ++peer) {
        bool const holds_up =
            std::cmp_equal(awaited[rank], peer) ||
            (awaited[rank] == waits_for::everybody && awaited[peer] != waits_for::everybody);
        more = more || (holds_up && !held[peer]);
        held[peer] = held[peer] || holds_up;
      }
    }
  }
  std::vector<rank_id> ranks;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    if (held[rank] && awaited[rank] == waits_for::nobody) { ranks.push_back(to_id<rank_id>(rank)); }
  }
  return ranks;
}

}  // namespace detail

/// How an mpi_communicator behaves. Every rank gives the same options, which are compared.
struct mpi_communicator_options {
  /// How long a rank waits without any message arriving, above zero. A call in which messages keep
  /// arriving may take longer.
  std::chrono::milliseconds deadline = default_deadline;
  /// Whether the ranks compare operations and sizes before bytes move: 8 bytes of each rank, a
  /// call. Turn it off only for plans that the ranks have compared already. Then sizes that differ
  /// are a mismatch on the ranks that receive such a message, and on others a deadline that passes
  /// or bytes that never arrive. barrier and split always compare.
  bool verify = true;
  /// Bytes; MPI's own limit is 2^31 - 1. A transfer is cut into parts of this size and a shorter
  /// one.
  std::size_t largest_message = std::size_t{1} << 30U;
};

}  // namespace ballast::inline v0
