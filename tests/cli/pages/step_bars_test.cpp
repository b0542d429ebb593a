// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/step_bars.hpp"  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/published/attention_padded_batches.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/report/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::rank_id;
using pages::gantt_bar;
using testing::AllOf;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::Field;

auto a_bar(std::uint32_t gpu, double start, double duration, char const* label)
{
  return AllOf(Field(&gantt_bar::gpu, rank_id{gpu}), Field(&gantt_bar::start, DoubleEq(start)),
               Field(&gantt_bar::duration, DoubleEq(duration)), Field(&gantt_bar::label, label));
}

ballast::sample_batch three_samples()
{
  return {.lengths = {10, 20, 30}, .source = {rank_id{0}, rank_id{0}, rank_id{2}}, .rows = {}};
}

TEST(BarsAsRead, PutEverySampleOnItsSourceBehindTheOnesBefore)
{
  std::vector<ballast::cost_units> const costs{4, 2, 8};
  auto const bars = pages::bars_as_read(three_samples(), costs, 3, 0.5);
  EXPECT_THAT(bars, ElementsAre(a_bar(0, 0, 2, "sample 0, 10 tokens"),
                                a_bar(0, 2, 1, "sample 1, 20 tokens"),
                                a_bar(2, 0, 4, "sample 2, 30 tokens")));
  EXPECT_THAT(pages::work_per_gpu(bars, 3), ElementsAre(3, 0, 4));
}

TEST(BarsAsPlanned, ShareEverySampleOverTheGpusOfItsBag)
{
  ballast::bag_layout const bags(std::vector<ballast::bag>{{rank_id{0}, 1}, {rank_id{1}, 2}});
  auto const batch = three_samples();
  auto const plan = ballast::partition(batch.lengths, bags, ballast::round_robin{},
                                       [](ballast::tokens length) { return 2 * length; });
  ASSERT_TRUE(plan);
  auto const bars = pages::bars_as_planned(*plan, bags, batch.lengths, 0.5);
  EXPECT_THAT(bars, ElementsAre(a_bar(0, 0, 10, "sample 0, 10 tokens"),
                                a_bar(1, 0, 10, "sample 1, 20 tokens over 2 GPUs"),
                                a_bar(2, 0, 10, "sample 1, 20 tokens over 2 GPUs"),
                                a_bar(0, 10, 30, "sample 2, 30 tokens")));
  // What the bars add up to is what the plan says: loads of 80 on one GPU and 40 on two.
  EXPECT_THAT(plan->loads, ElementsAre(80, 40));
  EXPECT_THAT(pages::work_per_gpu(bars, 3), ElementsAre(40.0, 10.0, 10.0));
}

RC_GTEST_PROP(StepBars, AddUpToTheFiguresAtAnySpeeds, ())
{
  auto const speeds = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 100)));
  auto const lengths = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<ballast::tokens>>(rc::gen::inRange<ballast::tokens>(8, 1000)));
  std::size_t const gpus = speeds.size();
  ballast::sample_batch batch{.lengths = lengths, .source = {}, .rows = {}};
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    batch.source.push_back(ballast::to_id<rank_id>(sample % gpus));
  }
  std::vector<ballast::bag> pairs;  // and the last GPU alone, where there is one
  for (std::size_t rank = 0; rank < gpus; rank += 2) {
    pairs.push_back({ballast::to_id<rank_id>(rank), rank + 1 < gpus ? 2U : 1U});
  }
  ballast::bag_layout const bags(pairs, speeds);
  auto const plan = ballast::partition(lengths, bags, ballast::round_robin{},
                                       [](ballast::tokens length) { return length; });
  RC_ASSERT(plan.has_value());

  auto const read =
      pages::work_per_gpu(pages::bars_as_read(batch, lengths, gpus, 1.0, speeds), gpus);
  auto const planned = pages::work_per_gpu(pages::bars_as_planned(*plan, bags, lengths, 1.0), gpus);
  auto const before = ballast::report::measure_as_read(batch, lengths, gpus, speeds);
  auto const after = ballast::report::measure_balance(plan->loads, bags.speeds());
  auto const near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * (1 + b); };
  RC_ASSERT(near(*std::max_element(read.begin(), read.end()), before.heaviest));
  RC_ASSERT(near(*std::min_element(read.begin(), read.end()), before.lightest));
  RC_ASSERT(near(*std::max_element(planned.begin(), planned.end()), after.heaviest));
  RC_ASSERT(near(*std::min_element(planned.begin(), planned.end()), after.lightest));
  RC_ASSERT(near(plan->makespan.value(), after.heaviest));
}

TEST(BarsAsPlanned, MakeSamplesOfAPaddedBatchAsLongAsTheLongest)
{
  auto const batch = three_samples();
  auto const plan =
      ballast::partition(batch.lengths, ballast::one_gpu_bags(2), ballast::padded_batches{},
                         [](ballast::tokens length) { return length; });
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->loads, ElementsAre(30, 40));
  auto const bars = pages::bars_as_planned(*plan, ballast::one_gpu_bags(2), batch.lengths, 1.0);
  EXPECT_THAT(bars, ElementsAre(a_bar(1, 0, 20, "sample 0, 10 tokens"),
                                a_bar(1, 20, 20, "sample 1, 20 tokens"),
                                a_bar(0, 0, 30, "sample 2, 30 tokens")));
}

TEST(BarsAsPlanned, GiveSamplesThatPadAttentionTheLargestPartOfTheirBatch)
{
  // 60 is alone on two GPUs. 20 and 30 cost 50 + 2 x 900, of which 20 + 900 are the former's.
  std::vector<ballast::tokens> const lengths{20, 60, 30};
  ballast::bag_layout const bags(std::vector<ballast::bag>{{rank_id{0}, 1}, {rank_id{1}, 2}});
  auto const plan = ballast::partition(lengths, bags, ballast::attention_padded_batches{},
                                       ballast::quadratic_cost{.linear = 1, .quadratic = 1})
                        .value();
  EXPECT_THAT(plan.loads, ElementsAre(1850, 3660));
  auto const bars = pages::bars_as_planned(plan, bags, lengths, 1.0);
  EXPECT_THAT(bars, ElementsAre(a_bar(0, 0, 920, "sample 0, 20 tokens"),
                                a_bar(1, 0, 1830, "sample 1, 60 tokens over 2 GPUs"),
                                a_bar(2, 0, 1830, "sample 1, 60 tokens over 2 GPUs"),
                                a_bar(0, 920, 930, "sample 2, 30 tokens")));
}

}  // namespace
