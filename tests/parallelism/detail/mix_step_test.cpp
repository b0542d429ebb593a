// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/mix_step.hpp>  // first: proves it is self-contained

#include "../../support/planned_mix.hpp"
#include "../../support/trials.hpp"

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/parallelism/bag_exchange_work.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/detail/mix_batches.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::bag_exchange_work;
using ballast::bag_mix;
using ballast::quadratic_cost;
using ballast::tokens;
using ballast::detail::mix_steps;
using ballast::detail::over_the_limit;
using ballast::detail::step_bound;

// Lengths of several kinds: near-equal, long-tailed, one giant, few values with many ties, all
// zero.
std::vector<tokens> draw_mix_lengths(ballast::random_source& random)
{
  std::vector<tokens> lengths(random.below(60));
  std::uint64_t const kind = random.below(5);
  for (tokens& length : lengths) {
    switch (kind) {
      case 0: length = random.between(1000, 1010); break;
      case 1: length = random.between(8, 100) * random.between(1, 100); break;
      case 2: length = random.between(8, 40); break;
      case 3: length = 8 * random.between(1, 3); break;
      default: length = 0;
    }
  }
  if (kind == 2 && !lengths.empty()) { lengths.front() = 5000; }
  return lengths;
}

TEST(MixSteps, AreThoseOfPartitionAndNotBelowTheBound)
{
  ballast::random_source random(2508);
  for (int trial = 0; trial < ballast_test::trials_of(150); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const gpus = static_cast<std::uint32_t>(1 + random.below(20));
    auto const mixes = ballast_test::all_mixes(gpus);
    bag_mix const mix = mixes[random.below(mixes.size())];
    auto const layout =
        ballast_test::layout_inside_nodes(mix, ballast::cluster_of(gpus, gpus).value());
    ASSERT_TRUE(layout);
    bag_exchange_work exchanges;
    for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
      exchanges.once[size] = random.between(0, 50);
      exchanges.per_token[size] =
          (size == 0 ? 0 : exchanges.per_token[size - 1]) + random.below(1 << 20);
      exchanges.per_sample[size] =
          (size == 0 ? 0 : exchanges.per_sample[size - 1]) + random.below(1 << 25);
    }
    quadratic_cost const cost{.linear = random.below(16), .quadratic = random.below(3)};
    ballast::sample_batch const batch{draw_mix_lengths(random)};
    auto const read =
        ballast::detail::read_mix_batches(std::span(&batch, 1), 0, exchanges, gpus, cost);
    ASSERT_TRUE(read) << read.error().message;

    mix_steps steps(exchanges);
    std::uint64_t placed = 0;
    auto const step = steps.plan(mix, read->batches.front(), over_the_limit, placed);
    EXPECT_EQ(step, ballast_test::planned_step(*layout, batch.lengths, exchanges, cost));
    EXPECT_EQ(placed, batch.lengths.size());
    EXPECT_LE(step_bound(mix, read->batches.front(), exchanges), step);
    EXPECT_EQ(steps.plan(mix, read->batches.front(), step, placed), step);
    if (step > 0) {
      EXPECT_EQ(steps.plan(mix, read->batches.front(), step - 1, placed), over_the_limit);
    }
  }
}

TEST(MixSteps, AreTheSameWhereLoadAndNumberDoNotFitOneWord)
{
  ballast::random_source random(7);
  ballast::sample_batch batch;
  for (int sample = 0; sample < 300; ++sample) {
    batch.lengths.push_back(random.between(8, 1 << 10));
  }
  auto const step_of = [&batch](std::uint64_t cost_of_token) {
    auto const read = ballast::detail::read_mix_batches(std::span(&batch, 1), 0, {}, 80,
                                                        quadratic_cost{.linear = cost_of_token});
    std::uint64_t placed = 0;
    return mix_steps({}).plan({{60, 2, 2, 1}}, read->batches.front(), over_the_limit, placed);
  };
  EXPECT_EQ(step_of(std::uint64_t{1} << 41), step_of(1) << 41);
}

TEST(StepBound, KnowsSamplesThatFitNoSmallBag)
{
  // Four giants on two bags of 4 GPUs: they alone are 2 * 800 / 4 per bag.
  std::vector<ballast::sample_batch> const batches = {{{800, 800, 800, 800, 1, 1, 1, 1}}};
  auto const read =
      ballast::detail::read_mix_batches(std::span(batches), 0, {}, 16, quadratic_cost{.linear = 1});
  ASSERT_TRUE(read);
  bag_mix const mix{{8, 0, 2, 0}};
  EXPECT_EQ(step_bound(mix, read->batches.front(), {}), 8U * 400);
}

}  // namespace
