// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_LOADER_THREADS_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_LOADER_THREADS_HPP

#include <ballast/core/detail/wait_clock.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <thread>

namespace ballast::inline v0::detail {

/// A thread that loads samples. All is guarded by the mutex of its data pipeline.
struct loader_thread {
  std::uint32_t number = 0;
  bool lost = false;
  bool ended = false;  // it touches nothing any more
  std::optional<wait_clock::time_point> loads_since = {};
  std::thread thread = {};

  [[nodiscard]] bool is_late(std::chrono::milliseconds limit) const
  {
    return !lost && loads_since && wait_clock::now() - *loads_since >= limit;
  }
};

/// The threads of a data pipeline that load, and those that have been given up and not ended.
struct loader_threads {
  std::list<loader_thread> all = {};
  std::size_t active = 0;  // neither lost nor ended
  std::uint32_t next_number = 0;

  /// Starts threads up to this number, each of which calls run(own), and joins what has ended.
  template <class Run>
  void start(std::size_t wanted, Run run)
  {
    all.remove_if([](loader_thread& each) {
      if (each.ended) { each.thread.join(); }
      return each.ended;
    });
    for (; active < wanted; ++active) {
      loader_thread& added = all.emplace_back();
      added.number = next_number++;
      added.thread = std::thread([run, &added] { run(added); });
    }
  }

  void join()
  {
    for (loader_thread& each : all) {
      if (each.thread.joinable()) { each.thread.join(); }
    }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_LOADER_THREADS_HPP
