// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <latch>
#include <thread>
#include <vector>

namespace ballast_test {

/// Calls f(0), f(1), ... on a thread each, which all begin together, and returns their values in
/// this order once all have returned.
template <class F>
auto at_once(std::size_t threads, F const& f)
{
  std::deque<decltype(f(threads))> values(threads);  // a vector of bool would share words
  std::latch begin(static_cast<std::ptrdiff_t>(threads));
  {
    std::vector<std::jthread> running;
    running.reserve(threads);
    for (std::size_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        begin.arrive_and_wait();
        values[thread] = f(thread);
      });
    }
  }
  return values;
}

}  // namespace ballast_test
