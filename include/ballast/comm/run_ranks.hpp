// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_RUN_RANKS_HPP
#define BALLAST_COMM_RUN_RANKS_HPP

#include <ballast/comm/deadline.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/result.hpp>

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

namespace detail {

/// Threads that are waited for at the end, as std::jthread does, which libc++ 19 lacks.
struct joined_threads {
  std::vector<std::thread> all = {};

  joined_threads() = default;
  joined_threads(joined_threads const&) = delete;
  joined_threads& operator=(joined_threads const&) = delete;
  ~joined_threads()
  {
    for (std::thread& each : all) { each.join(); }
  }
};

}  // namespace detail

/// Runs a whole job in one process: calls f on one thread per rank, each with its communicator, and
/// returns when all have returned.
///
///     run_ranks(8, [](thread_communicator& comm) { ... });
///
/// In, out     all threads call f at the same time, so all ranks share what f captures.
/// Expects     ranks >= 1; deadline > 0.
/// Ensures     (1) if f returns a value, the values of all ranks are returned, in rank order
///             (2) a rank that returns or throws leaves the group: ranks that wait for it get
///                 peer_lost
///             (3) if ranks throw, the first exception is thrown again after all have ended: later
///                 ones may be its consequences
/// Errors      those of f; std::system_error if a thread cannot be started.
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
    // comm lives until the exception is stored: its peers notice later that this rank has left.
    auto const own = detail::thrown_by([&] {
      if constexpr (has_value) {
        returned[rank].emplace(f(comm));
      } else {
        f(comm);
      }
    });
    std::lock_guard const lock(thrown);
    if (!first_thrown) { first_thrown = own; }
  };
  {
    detail::joined_threads threads;
    // Declared after threads, so destroyed before them: if a thread cannot be started, the others
    // find that ranks have left, and can be joined.
    auto communicators = thread_communicator::make(ranks, deadline);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.all.emplace_back(run, rank, std::move(communicators[rank]));
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
