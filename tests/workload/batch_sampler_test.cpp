// SPDX-License-Identifier: Apache-2.0
#include <ballast/workload/batch_sampler.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/digest.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace {

using ballast::batch_sampler;
using ballast::rank_id;
using ballast::sample_batch;
using ballast::tokens;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<tokens> distinct(std::size_t samples)
{
  std::vector<tokens> trace(samples);
  std::iota(trace.begin(), trace.end(), tokens{0});
  return trace;
}

TEST(BatchSampler, ReadsTheWholeTraceInTheStepsOfEveryPass)  // Ensures (1) (2)
{
  for (std::size_t const samples : {1U, 2U, 7U, 10U}) {
    for (std::size_t const batch : {1U, 3U, 5U, 7U, 10U, 25U}) {
      batch_sampler sampler(distinct(samples), batch, 2, 42);
      for (int pass = 0; pass < 4; ++pass) {
        SCOPED_TRACE(testing::Message() << samples << " by " << batch << ", pass " << pass);
        std::vector<tokens> all;
        while (all.size() + batch < samples) {  // steps behind which something is left
          sample_batch const step = sampler.next();
          ASSERT_EQ(step.lengths.size(), batch);
          all.insert(all.end(), step.lengths.begin(), step.lengths.end());
        }
        sample_batch const last = sampler.next();
        all.insert(all.end(), last.lengths.begin(), last.lengths.end());
        std::ranges::sort(all);
        EXPECT_EQ(all, distinct(samples));
      }
    }
  }
}

TEST(BatchSampler, DealsContiguousBlocksThatDifferByOne)  // Ensures (2)
{
  for (std::size_t gpus = 1; gpus <= 9; ++gpus) {
    for (std::size_t batch = 0; batch <= 20; ++batch) {
      sample_batch const step = batch_sampler(distinct(20), batch, gpus, 1).next();
      ASSERT_EQ(step.source.size(), batch);
      EXPECT_TRUE(std::ranges::is_sorted(step.source));
      std::vector<std::size_t> samples(gpus, 0);
      for (rank_id const gpu : step.source) { ++samples.at(to_index(gpu)); }
      EXPECT_TRUE(std::ranges::is_sorted(samples, std::ranges::greater{}));
      EXPECT_LE(samples.front() - samples.back(), 1U);
    }
  }
  EXPECT_THAT(batch_sampler({5, 5, 5}, 4, 2, 0).next().source,
              ElementsAre(rank_id{0}, rank_id{0}, rank_id{1}));
  EXPECT_THAT(batch_sampler({5}, 0, 2, 0).next().lengths, IsEmpty());
}

TEST(BatchSampler, RepeatsItselfForTheSameSeed)  // Ensures (3)
{
  // [steps]
  std::vector<tokens> const trace = {120, 4096, 310, 95, 2048, 770};
  ballast::batch_sampler sampler(trace, /*batch=*/4, /*gpus=*/2, /*seed=*/7);
  ballast::sample_batch step;
  for (std::size_t const samples : {4U, 2U, 4U}) {  // the last step of a pass has what is left
    sampler.next_into(step);                        // replaces what the step before was
    EXPECT_EQ(step.lengths.size(), samples);
  }
  // [steps]
  batch_sampler same(trace, 4, 2, 7);
  batch_sampler other(trace, 4, 2, 8);
  EXPECT_NE(same.next(), other.next());
  sample_batch second = same.next();
  EXPECT_EQ(same.next(), step);
  EXPECT_NE(second, step);

  batch_sampler long_run(distinct(1000), 96, 8, 42);
  ballast::digest all;
  for (int i = 0; i < 100; ++i) { all.add(std::span<tokens const>(long_run.next().lengths)); }
  EXPECT_EQ(all.value(), 9358503480497957011U);
}

TEST(BatchSampler, SaysWhichRowEverySampleIs)  // Ensures (4)
{
  std::vector<tokens> const trace = {50, 51, 52, 53, 54};
  batch_sampler sampler(trace, 3, 2, 9);
  for (int i = 0; i < 5; ++i) {
    sample_batch const step = sampler.next();
    ASSERT_EQ(step.rows.size(), i % 2 == 0 ? 3U : 2U);
    for (std::size_t sample = 0; sample < step.rows.size(); ++sample) {
      EXPECT_EQ(step.lengths[sample], trace.at(step.rows[sample]));
    }
  }
}

TEST(BatchSampler, ShufflesEveryPassAnew)
{
  batch_sampler sampler(distinct(100), 100, 1, 3);
  sample_batch const first = sampler.next();
  EXPECT_NE(first.lengths, distinct(100));
  EXPECT_NE(first, sampler.next());
}

TEST(BatchSampler, TakesRowsAsTheyStand)
{
  auto sampler = batch_sampler::in_order({50, 51, 52}, 2, 1);
  EXPECT_EQ(sampler.next().lengths, (std::vector<tokens>{50, 51}));
  EXPECT_EQ(sampler.next().rows, (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(sampler.next().rows, (std::vector<std::uint32_t>{0, 1}));
}

TEST(BatchSamplerDeathTest, RejectsAnEmptyTraceAndNoGpu)  // Expects
{
  EXPECT_DEATH(batch_sampler({}, 1, 1, 0), "the trace has no samples");
  EXPECT_DEATH(batch_sampler({1}, 1, 0, 0), "over 0 GPUs,");
}

}  // namespace
