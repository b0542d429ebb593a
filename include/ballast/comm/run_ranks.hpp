// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_RUN_RANKS_HPP
#define BALLAST_COMM_RUN_RANKS_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/thread_communicator.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Runs f on one thread per rank, each with its communicator, until all have returned: a whole job
/// in one process.
///
///     run_ranks(8, [](thread_communicator& comm) { ... });
///
/// In, out     f is called by all threads at once, so what it captures is shared by all ranks.
/// Expects     ranks >= 1; deadline > 0.
/// Ensures     (1) what f returns comes back by rank, if it returns anything
///             (2) a rank that returns or throws leaves the group: who waits for it gets peer_lost
///             (3) the exception that was thrown first comes out once all have ended: others may be
///                 its consequences
/// Errors      those of f; std::system_error where a thread cannot be started.
template <class F>
  requires std::invocable<F&, thread_communicator&>
auto run_ranks(std::size_t ranks, F f, std::chrono::milliseconds deadline = default_deadline)
{
  using value = std::invoke_result_t<F&, thread_communicator&>;
  constexpr bool has_value = !std::is_void_v<value>;

  std::vector<std::optional<std::conditional_t<has_value, value, bool>>> returned(ranks);
  std::exception_ptr first_thrown;
  std::mutex thrown;
  auto const run = [&](std::size_t rank, thread_communicator comm) {
    // comm outlives the handler, so no consequence of an exception can be noted before it.
    try {
      if constexpr (has_value) {
        returned[rank].emplace(f(comm));
      } else {
        f(comm);
      }
    } catch (...) {
      std::lock_guard const lock(thrown);
      if (!first_thrown) { first_thrown = std::current_exception(); }
    }
  };
  {
    std::vector<std::jthread> threads;
    // After threads: if one cannot be started, the others are told before they are joined.
    auto communicators = thread_communicator::make(ranks, deadline);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back(run, rank, std::move(communicators[rank]));
    }
  }
  if (first_thrown) { std::rethrow_exception(first_thrown); }
  if constexpr (has_value) {
    std::vector<value> values;
    values.reserve(ranks);
    for (auto& each : returned) { values.push_back(*std::move(each)); }
    return values;
  }
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_RUN_RANKS_HPP
