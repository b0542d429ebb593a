// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/microbatch_kinds.hpp>  // first: proves it is self-contained

#include "../../../support/random_schedules.hpp"
#include "../../../support/random_times.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using ballast::detail::microbatch_kinds;

TEST(MicrobatchKinds, AreThoseOfAllPairs)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    auto const times = ballast_test::random_times(random, schedule, trial % 2);
    ballast::workspace memory;
    auto scratch = memory.open();
    microbatch_kinds const kinds({schedule, times}, scratch);
    auto const equal = [&](std::size_t a, std::size_t b) {
      for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
        auto const& of_a = times[ballast::to_id<ballast::microbatch_id>(a)][stage];
        auto const& of_b = times[ballast::to_id<ballast::microbatch_id>(b)][stage];
        bool const trained = stages[ballast::to_id<ballast::stage_id>(stage)].backward;
        if (of_a.forward != of_b.forward || (trained && of_a.backward != of_b.backward)) {
          return false;
        }
      }
      return true;
    };
    std::size_t first_ones = 0;
    for (std::size_t b = 0; b < schedule.microbatches(); ++b) {
      EXPECT_LT(kinds.of[b], kinds.count);
      std::size_t before = microbatch_kinds::none;
      for (std::size_t a = 0; a < b; ++a) {
        EXPECT_EQ(kinds.of[a] == kinds.of[b], equal(a, b));
        if (equal(a, b)) { before = a; }
      }
      EXPECT_EQ(kinds.before[b], before);
      first_ones += before == microbatch_kinds::none ? 1 : 0;
    }
    EXPECT_EQ(kinds.count, first_ones);
  }
}

}  // namespace
