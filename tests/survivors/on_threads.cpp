// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>
#include "../support/hand_moved_clock.hpp"
#include "columns.hpp"

#include <barrier>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

survivors::answers survivors::on_threads(std::size_t ranks, fault what,
                                         std::chrono::milliseconds deadline)
{
  answers all(ranks);
  std::optional<ballast_test::hand_moved_clock> stands(std::in_place);
  std::barrier well(static_cast<std::ptrdiff_t>(ranks), [&]() noexcept { stands.reset(); });
  auto comms = ballast::thread_communicator::make(ranks, deadline);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        all[rank] = suffer<std::vector<std::byte>>(std::move(comms[rank]), what, deadline,
                                                   [&] { well.arrive_and_wait(); });
      } catch (std::exception const& thrown) {
        all[rank] = answer{thrown.what()};
      }
    });
  }
  threads.clear();  // joins them
  return all;
}
