// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/serve_as_loader.hpp>

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/data/serve_as_proxy.hpp>
#include "../../support/test.hpp"
#include "data_rank_checks.hpp"
#include "faulty_source.hpp"

#include <atomic>

namespace {

using ballast::rank_id;
using ballast_test::hand_moved_clock;
using testing::HasSubstr;

// The third loader sleeps for longer than it may, and learns that it was given up.
TEST(ServeAsLoader, IsToldThatItWasGivenUp)
{
  ballast_test::passing_time const passes(std::chrono::milliseconds(20));
  hand_moved_clock::begin_to_act(4);
  std::atomic<bool> over = false;
  auto const said = ballast::run_ranks(4, [&](ballast::thread_communicator& comm) {
    rank_id const proxy{1};
    std::string error;
    ballast::loader_options const options{.least = 2, .late_after = std::chrono::milliseconds(300)};
    ballast_test::faulty_source source;
    if (comm.rank() == rank_id{3}) {
      source.slow_per_mille = 1000;
      source.slow = std::chrono::milliseconds(600);
    }
    if (comm.rank() == rank_id{0}) {
      error = ballast_test::train_as(comm, proxy, options, 1000).error;
    } else if (comm.rank() == proxy) {
      auto const done = serve_as_proxy(comm, 1, ballast_test::by_length{1},
                                       {.samples = 40, .step_samples = 4}, {}, options);
      error = done ? "" : done.error().message;
      over = true;
    } else {
      auto const done = serve_as_loader(comm, proxy, source);
      error = done ? "" : done.error().message;
    }
    hand_moved_clock::end_to_act();
    while (!over) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
    return error;
  });
  EXPECT_EQ(said[0], "");
  EXPECT_EQ(said[1], "");
  EXPECT_EQ(said[2], "");
  EXPECT_THAT(said[3], HasSubstr("rank 3 was silent for too long and was given up as a loader"));
}

}  // namespace
