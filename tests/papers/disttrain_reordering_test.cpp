// SPDX-License-Identifier: Apache-2.0
// Algorithm 2 of Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
// Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025: a plain transcription
// of its pseudocode, with and without virtual stages, next to interval_filling. Every choice looks
// at a whole simulation of the order so far.

#include "../support/pipelines.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

namespace {

using namespace ballast;

// A chain of stages dealt to p ranks in turn: 1F1B, interleaved where ranks have several. The first
// stages may be an encoder and the last ones a generator.
class one_pipeline {
 public:
  one_pipeline(ballast::stage_graph const& stages, ballast::pipeline_times const& times)
      : stages_(stages),
        tasks_(
            ballast::interleaved_one_forward_one_backward{}(stages, times.microbatches()).value()),
        schedule_(ballast::compiled_schedule::make(stages, tasks_).value()),
        padded_(times)
  {
    padded_.rows.resize((times.microbatches() + 1) * stages.stages());  // the last takes no time
  }

  [[nodiscard]] ballast::compiled_schedule const& schedule() const { return schedule_; }
  [[nodiscard]] std::vector<pipeline_task> const& on_first_rank() const { return tasks_.ranks[0]; }

  // The backward before which a task of the first rank stands.
  [[nodiscard]] std::size_t backward_after(std::size_t task) const
  {
    while (on_first_rank()[task].pass == pass::forward) { ++task; }
    return task;
  }

  // Between the end of the work before a backward and the arrival of its gradient, on the first
  // rank.
  [[nodiscard]] time_units interval(std::vector<microbatch_id> order, std::size_t backward) const
  {
    order.resize(tasks_.microbatches, ballast::to_id<microbatch_id>(tasks_.microbatches));
    auto const timeline = simulate(schedule_, padded_, order);
    return timeline.start[number_of(on_first_rank()[backward])] -
           timeline.end[number_of(on_first_rank()[backward - 1])];
  }

 private:
  [[nodiscard]] std::size_t number_of(pipeline_task const& task) const
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

// Of each interval that the next position's forwards stand before: the stages of these, and the
// time that they are to take. The first interval is that of an order of one microbatch, less what
// others have filled of it; of any, each forward without a microbatch has an even share.
std::map<std::size_t, std::pair<std::vector<stage_id>, time_units>> get_intervals(
    one_pipeline const& pipeline, ballast::pipeline_times const& times,
    std::vector<microbatch_id> const& ret)
{
  std::map<std::size_t, std::pair<std::vector<stage_id>, time_units>> wanted;
  auto const& tasks = pipeline.on_first_rank();
  for (std::size_t at = 0; at < tasks.size(); ++at) {
    if (tasks[at].pass == pass::forward && tasks[at].position == ret.size()) {
      wanted[pipeline.backward_after(at)].first.push_back(tasks[at].stage);
    }
  }
  for (auto& [backward, each] : wanted) {
    bool const first = backward == pipeline.backward_after(0);
    time_units interval = pipeline.interval(first ? std::vector{ret[0]} : ret, backward);
    time_units open = 0;
    for (std::size_t at = backward; at > 0 && tasks[at - 1].pass == pass::forward; --at) {
      auto const& [position, stage, direction] = tasks[at - 1];
      if (position >= ret.size()) {
        ++open;
      } else if (first && position > 0) {
        interval -= times[ret[position]][to_index(stage)].forward;
      }
    }
    each.second = interval / open * static_cast<time_units>(each.first.size());
  }
  return wanted;
}

// As printed, with p the microbatches of which the first rank does all forwards before a backward.
std::vector<microbatch_id> inter_reorder(one_pipeline const& pipeline,
                                         ballast::pipeline_times const& times, std::size_t p)
{
  std::vector<microbatch> mbs;
  for (std::size_t row = 0; row < times.microbatches(); ++row) {
    auto const number = ballast::to_id<microbatch_id>(row);
    microbatch each{0, 0, number};
    bool modalities = false;
    for (std::size_t stage = 0; stage < times.stages; ++stage) {
      auto const part = pipeline.schedule().stages()[ballast::to_id<stage_id>(stage)].part;
      time_units const both = times[number][stage].forward + times[number][stage].backward;
      each.total += both;
      if (part != ballast::model_part::llm) {
        each.size += both;
        modalities = true;
      }
    }
    if (!modalities) { each.size = times[number][0].forward; }
    mbs.push_back(each);
  }
  std::ranges::sort(mbs);
  std::vector<microbatch_id> ret;
  auto const select_min = [&](std::vector<microbatch_id>& to, std::size_t count) {
    for (; count > 0 && !mbs.empty(); --count, mbs.erase(mbs.begin())) {
      to.push_back(mbs[0].number);
    }
  };
  std::vector<microbatch_id> rear;
  select_min(ret, 1);
  select_min(rear, p - 1);
  while (!mbs.empty()) {
    auto const intervals = get_intervals(pipeline, times, ret);
    auto const unfilled = [&](microbatch const& each) {
      time_units sum = 0;
      for (auto const& [backward, filled] : intervals) {
        time_units left = filled.second;
        for (stage_id const stage : filled.first) {
          left -= times[each.number][to_index(stage)].forward;
        }
        sum += std::abs(left);
      }
      return sum;
    };
    auto const closest = std::ranges::min_element(mbs, {}, unfilled);
    ret.push_back(closest->number);
    mbs.erase(closest);
  }
  ret.insert(ret.end(), rear.begin(), rear.end());
  return ret;
}

void expect_algorithm_2(ballast::stage_graph const& stages, ballast::pipeline_times const& times)
{
  one_pipeline const pipeline(stages, times);
  std::size_t const groups = std::max<std::size_t>(1, times.microbatches() / stages.ranks());
  std::size_t const largest = (times.microbatches() + groups - 1) / groups;
  std::size_t const p = stages.stages() == stages.ranks() ? stages.ranks() : largest;
  auto const plan =
      order_microbatches(pipeline.schedule(), times, ballast::interval_filling{}).value();
  ASSERT_EQ(plan.order, inter_reorder(pipeline, times, p));
}

TEST(DistTrainReordering, IntervalFillingIsAlgorithm2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(900); ++trial) {
    std::size_t const p = 1 + random.below(trial % 3 == 0 ? 9 : 4);
    std::size_t const v = trial % 3 == 0 ? 1 : 1 + random.below(3);
    std::size_t const l = 1 + random.below(24);
    std::size_t const encoder = random.below(3);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", p " << p << ", v " << v << ", l "
                                    << l << ", encoder of " << encoder);
    auto const times = ballast_test::random_times(random, l, p * v, trial % 4 == 0 ? 5 : 10'000);
    expect_algorithm_2(ballast_test::named_chain(p * v, p, encoder, random.below(3),
                                                 random.between(0, trial % 2 == 0 ? 0 : 2000)),
                       times);
    if (HasFatalFailure()) { return; }
  }
}

}  // namespace
