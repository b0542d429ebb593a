// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>
#include "faults.hpp"

survivors::answers survivors::on_threads(std::size_t ranks, fault what,
                                         std::chrono::milliseconds deadline)
{
  auto comms = ballast::thread_communicator::make(ranks, deadline);
  return on_threads_each(ranks, [&](std::size_t rank, auto all_is_well) {
    return suffer<std::vector<std::byte>>(std::move(comms[rank]), what, deadline, all_is_well);
  });
}
