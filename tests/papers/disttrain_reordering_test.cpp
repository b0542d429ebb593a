// SPDX-License-Identifier: Apache-2.0
// Algorithm 2 of Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
// Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025: a plain transcription
// of its pseudocode, with GETINTERVAL read off whole simulations, next to interval_filling.

#include "../support/pipeline_families.hpp"
#include "../support/random_times.hpp"
#include "../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/interval_filling.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/order_microbatches.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <tuple>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::pass;
using ballast::stage_id;
using ballast::time_units;

// The pipeline of the paper: 1F1B over a chain.
class one_pipeline {
 public:
  one_pipeline(std::size_t stages, std::size_t microbatches, time_units transfer,
               ballast::pipeline_times const& times)
      : stages_(ballast::chain_of_stages(stages, stages, transfer)),
        tasks_(ballast::one_forward_one_backward{}(stages_, microbatches).value()),
        schedule_(ballast::compiled_schedule::make(stages_, tasks_).value()),
        padded_(times)
  {
    padded_.rows.resize((microbatches + 1) * stages);  // the last one takes no time
  }

  [[nodiscard]] ballast::compiled_schedule const& schedule() const { return schedule_; }

  // Between the end of the work before backward i and the arrival of its gradient, on the first
  // stage; i counts from 1.
  [[nodiscard]] time_units interval(std::vector<microbatch_id> order, std::size_t i) const
  {
    order.resize(tasks_.microbatches, ballast::to_id<microbatch_id>(tasks_.microbatches));
    auto const timeline = simulate(schedule_, padded_, order);
    ballast::pipeline_task const wanted{static_cast<std::uint32_t>(i - 1), stage_id{0},
                                        pass::backward};
    auto const& of_first = tasks_.ranks[0];
    auto const at = std::ranges::find(of_first, wanted);
    return timeline.start[number_of(wanted)] - timeline.end[number_of(*(at - 1))];
  }

 private:
  [[nodiscard]] std::size_t number_of(ballast::pipeline_task const& task) const
  {
    return static_cast<std::size_t>(std::ranges::find(schedule_.tasks(), task) -
                                    schedule_.tasks().begin());
  }

  ballast::stage_graph stages_;
  ballast::pipeline_schedule tasks_;
  ballast::compiled_schedule schedule_;
  ballast::pipeline_times padded_;
};

struct microbatch {
  time_units size;
  time_units total;
  microbatch_id number;
  friend auto operator<=>(microbatch const&, microbatch const&) = default;
};

// SELECTCLOSEST: `count` microbatches, one after the other, each the closest to an even share of
// what is left of the interval.
std::vector<microbatch> select_closest(std::vector<microbatch>& mbs, std::size_t count,
                                       time_units interval)
{
  std::vector<microbatch> selected;
  for (count = std::min(count, mbs.size()); count > 0; --count) {
    time_units const share = interval / static_cast<time_units>(count);
    auto closest = mbs.begin();
    for (auto each = mbs.begin(); each != mbs.end(); ++each) {
      if (std::abs(each->size - share) < std::abs(closest->size - share)) { closest = each; }
    }
    interval -= closest->size;
    selected.push_back(*closest);
    mbs.erase(closest);
  }
  return selected;
}

std::vector<microbatch_id> inter_reorder(one_pipeline const& pipeline,
                                         ballast::pipeline_times const& times, std::size_t p)
{
  std::vector<microbatch> mbs;
  for (std::size_t row = 0; row < times.microbatches(); ++row) {
    auto const number = ballast::to_id<microbatch_id>(row);
    microbatch each{times[number][0].forward, 0, number};
    for (auto const& [forward, backward] : times[number]) { each.total += forward + backward; }
    mbs.push_back(each);
  }
  std::ranges::sort(mbs);
  std::vector<microbatch_id> ret;
  auto const append = [&ret](std::vector<microbatch> const& some) {
    for (microbatch const& each : some) { ret.push_back(each.number); }
  };
  auto const select_min = [&mbs](std::size_t count) {
    auto const end = mbs.begin() + static_cast<std::ptrdiff_t>(std::min(count, mbs.size()));
    std::vector<microbatch> const smallest(mbs.begin(), end);
    mbs.erase(mbs.begin(), end);
    return smallest;
  };
  append(select_min(1));
  auto const rear_mbs = select_min(p - 1);
  for (std::size_t i = 1; !mbs.empty(); ++i) {
    time_units const interval = pipeline.interval(ret, i);
    append(select_closest(mbs, i == 1 ? p - 1 : 1, interval));
  }
  append(rear_mbs);
  return ret;
}

TEST(DistTrainReordering, IntervalFillingIsAlgorithm2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(600); ++trial) {
    std::size_t const p = 1 + random.below(9);
    std::size_t const l = 1 + random.below(24);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", p " << p << ", l " << l);
    auto const times = ballast_test::random_times(random, l, p, trial % 3 == 0 ? 5 : 10'000);
    one_pipeline const pipeline(p, l, random.between(0, trial % 2 == 0 ? 0 : 2000), times);
    auto const plan = order_microbatches(pipeline.schedule(), times, ballast::interval_filling{});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->order, inter_reorder(pipeline, times, p));
  }
}

TEST(DistTrainReordering, IntervalFillingIsAlgorithm2OnEveryFamily)
{
  for (auto const& [family, name] : ballast_test::named_families) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << name << ", seed " << seed);
      auto const times = ballast_test::times_of(family, 32, 4, seed);
      one_pipeline const pipeline(4, 32, 500, times);
      auto const plan = order_microbatches(pipeline.schedule(), times, ballast::interval_filling{});
      ASSERT_TRUE(plan) << plan.error().message;
      ASSERT_EQ(plan->order, inter_reorder(pipeline, times, 4));
    }
  }
}

}  // namespace
