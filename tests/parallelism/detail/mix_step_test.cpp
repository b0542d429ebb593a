// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/mix_step.hpp>  // first: proves it is self-contained

#include <ballast/core/random.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/parallelism/detail/mix_batches.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

namespace {

TEST(MixSteps, AreTheSameWhereLoadAndNumberDoNotFitOneWord)
{
  ballast::random_source random(7);
  ballast::sample_batch batch;
  for (int sample = 0; sample < 300; ++sample) {
    batch.lengths.push_back(random.between(8, 1 << 10));
  }
  auto const step_of = [&batch](std::uint64_t cost_of_token) {
    auto const read = ballast::detail::read_mix_batches(
        std::span(&batch, 1), 0, {}, 80, ballast::quadratic_cost{.linear = cost_of_token});
    std::uint64_t placed = 0;
    return ballast::detail::mix_steps({}).plan({{60, 2, 2, 1}}, read->batches.front(),
                                               ballast::detail::over_the_limit, placed);
  };
  EXPECT_EQ(step_of(std::uint64_t{1} << 41), step_of(1) << 41);
}

}  // namespace
