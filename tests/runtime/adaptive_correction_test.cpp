#include <ballast/runtime/adaptive_correction.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "late_shapes.hpp"

#include <ballast/report/metrics.hpp>
#include <ballast/runtime/online_scheduler.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::adaptive_correction;
using ballast::time_units;
using ballast_test::late_cluster;
using testing::HasSubstr;

using correction_mode = adaptive_correction::switch_state;

constexpr adaptive_correction::options short_intervals{.interval = 4, .rest = 2};

double as_ratio(std::uint32_t factor)
{
  return static_cast<double>(factor) / ballast::unchanged_factor;
}

void expect_shapes_told(late_cluster const& cluster, adaptive_correction const& correction)
{
  for (std::uint32_t bucket = 0; bucket < ballast::shape_buckets; ++bucket) {
    double const factor = as_ratio(correction.factors()[ballast::shape_buckets + bucket]);
    if (cluster.is_late(bucket)) {
      EXPECT_GT(factor, 1.2) << bucket;
    } else {
      EXPECT_NEAR(factor, 1, 0.12) << bucket;  // small samples are a tenth of a call with noise
    }
    EXPECT_NEAR(as_ratio(correction.factors()[bucket]), 1, 0.12);  // nothing is late in the encoder
  }
}

TEST(AdaptiveCorrection, IsUsedAsDocumented)
{
  late_cluster cluster(3, 60);
  cluster.slower[9] = 40;
  std::string printed;
  // [correction]
  adaptive_correction correction(late_cluster::modules());  // the module of each rank
  ballast::online_scheduler next(late_cluster::make_scheduler());
  or_throw(next.submit(late_cluster::sizes_of(0)));
  for (std::uint64_t step = 0; step < 33; ++step) {
    auto const* const plan = next.take().value();
    or_throw(next.submit(late_cluster::sizes_of(step + 1)));
    auto ran = cluster.run(*plan, correction.tracking());  // times of all ranks, gathered
    if (!correction.tracking()) { ran.measured.clear(); }
    or_throw(correction.finish_step(*plan, ran.step_time, ran.measured));
    next.correct(correction.factors());
    printed = ballast::report::slow_ranks(correction.rank_factors());
  }
  // [correction]
  EXPECT_EQ(correction.mode(), correction_mode::on);
  EXPECT_EQ(printed, "rank 9 takes 1.40 x as long as planned\n");
}

// Two ranks, a module and three samples, planned and measured as so long.
ballast::result<void> finish_steps_of(adaptive_correction& correction, time_units longest)
{
  ballast::scheduled_step<1> step;
  step.microbatches = 1;
  step.makespan = longest;
  step.uncorrected = longest;
  step.corrected = true;
  step.times.resize(2);
  step.stages = {{0, 0, 1, 1}};
  step.replicas = {2};
  step.owner[0] = {ballast::bag_id{0}, ballast::bag_id{1}, ballast::bag_id{1}};
  step.samples[0].collect(ballast::detail::span_of(step.owner[0]), 2);
  step.predicted.assign(3, {ballast::stage_time{longest / 3, longest / 6}});
  step.shapes = {{5}, {6}, {7}};
  for (int count = 0; count < 20; ++count) {
    auto done = correction.finish_step(step, longest, std::vector<time_units>{longest, 100});
    if (!done) { return done; }
  }
  return {};
}

TEST(AdaptiveCorrection, TakesTimesWhoseSumsFitAndRefusesLongerOnes)  // Errors
{
  constexpr std::array<std::uint32_t, 2> modules{0, 0};
  constexpr auto most = std::numeric_limits<time_units>::max();
  time_units const longest = most / 32 / short_intervals.interval;
  adaptive_correction correction(modules, short_intervals);
  EXPECT_TRUE(finish_steps_of(correction, longest));
  adaptive_correction again(modules, short_intervals);
  EXPECT_TRUE(again.restore(correction.save()));
  EXPECT_TRUE(finish_steps_of(again, longest));
  for (time_units const longer : {longest + 1, most / 2, most}) {
    std::string const before = correction.save();
    auto const refused = finish_steps_of(correction, longer);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("sums of it may not fit 63 bits"));
    EXPECT_EQ(correction.save(), before);
  }
}

TEST(AdaptiveCorrection, TellsASlowRankFromASlowShape)
{
  for (bool const slow_shapes : {false, true}) {
    for (bool const slow_ranks : {false, true}) {
      if (ballast_test::is_sanitized && !(slow_shapes && slow_ranks)) { continue; }
      SCOPED_TRACE(testing::Message() << "shapes " << slow_shapes << " ranks " << slow_ranks);
      late_cluster cluster(slow_shapes ? 3 : 0, 60);
      cluster.noise_percent = 1;
      if (slow_ranks) {
        cluster.slower[9] = 40;   // of the LLM
        cluster.slower[20] = 25;  // of the encoder
      }
      adaptive_correction correction(late_cluster::modules());
      cluster.train(correction, 0, 16, [](auto const&, auto const&) {});
      ASSERT_EQ(correction.mode(), correction_mode::on);
      expect_shapes_told(cluster, correction);
      for (std::size_t rank = 0; rank < cluster.slower.size(); ++rank) {
        double const slower = 1 + static_cast<double>(cluster.slower[rank]) / 100;
        EXPECT_NEAR(as_ratio(correction.rank_factors()[rank]), slower, 0.02) << "rank " << rank;
        EXPECT_NEAR(correction.speeds()[rank], 1000 / slower, 20) << "rank " << rank;
      }
      auto const bags = ballast::one_gpu_bags(32).with_speeds(correction.speeds());
      EXPECT_EQ(bags.speeds()[9] < 900, slow_ranks);
    }
  }
}

TEST(AdaptiveCorrection, IsOffWhereItDoesNotPayAndTriesAgain)
{
  late_cluster const as_predicted(0, 0);
  adaptive_correction correction(late_cluster::modules(), short_intervals);
  std::string modes;
  auto const note = [&](auto const& step, auto const&) {
    modes.push_back(correction.mode() == correction_mode::learning ? 'l'
                    : correction.mode() == correction_mode::on     ? '+'
                                                                   : '-');
    EXPECT_EQ(correction.factors().empty(), correction.mode() != correction_mode::on);
    if (correction.mode() == correction_mode::off) { EXPECT_FALSE(correction.tracking()); }
    EXPECT_EQ(step.corrected && modes.size() == 1, false);
  };
  as_predicted.train(correction, 0, 18, note);
  // Learns 4 steps, compares 4, rests 8, learns again.
  EXPECT_EQ(modes, "lll++++--------lll");
  EXPECT_GT(correction.cost(), correction.gain());

  // When shapes have become slow meanwhile, the next trial finds it.
  late_cluster const late(3, 100);
  late.train(correction, 18, 24, note);
  EXPECT_EQ(correction.mode(), correction_mode::on);
  EXPECT_GT(correction.gain(), correction.cost());
}

TEST(AdaptiveCorrection, TriesAgainAtOnceWithoutARest)
{
  late_cluster const as_predicted(0, 0);
  adaptive_correction correction(late_cluster::modules(), {.interval = 4, .rest = 0});
  int learning = 0;
  as_predicted.train(correction, 0, 18, [&](auto const&, auto const&) {
    learning += correction.mode() == correction_mode::learning ? 1 : 0;
  });
  EXPECT_GT(learning, 6);  // twice at least
}

// Also where no number of calls is asked for.
TEST(AdaptiveCorrection, KeepsTheSpeedOfARankWithoutCalls)
{
  late_cluster cluster(0, 0);
  cluster.silent = 9;
  adaptive_correction correction(late_cluster::modules(), {.interval = 4, .fewest_calls = 0});
  cluster.train(correction, 0, 5, [](auto const&, auto const&) {});
  EXPECT_EQ(correction.mode(), correction_mode::on);
  EXPECT_NEAR(correction.speeds()[9], 1000, 100);
}

TEST(AdaptiveCorrection, MeasuresWhatTrackingCosts)
{
  std::array<std::int64_t, 3> const percents{4, 20, 0};
  for (std::int64_t const percent :
       std::span(percents).first(static_cast<std::size_t>(ballast_test::trials_of(3)))) {
    late_cluster cluster(3, 50);
    cluster.tracking_percent = percent;
    adaptive_correction correction(late_cluster::modules());
    std::vector<double> steps;
    cluster.train(correction, 0, 33, [&](auto const& step, auto const&) {
      if (step.corrected) { steps.push_back(static_cast<double>(step.makespan)); }
    });
    double const share = static_cast<double>(correction.cost()) / steps.back();
    EXPECT_NEAR(share, static_cast<double>(percent) / 100, 0.01);
    EXPECT_EQ(correction.mode(), percent == 20 ? correction_mode::off : correction_mode::on);
  }
}

TEST(AdaptiveCorrection, AllocatesNothingInTheSteadyState)  // Ensures (2)
{
  late_cluster const cluster(3, 100);
  adaptive_correction correction(late_cluster::modules(), short_intervals);
  auto planner = late_cluster::make_scheduler();
  ballast::scheduled_step<2> step;
  std::size_t during = 0;
  for (std::uint64_t number = 0; number < 20; ++number) {
    ASSERT_TRUE(planner(step, late_cluster::sizes_of(0), 1, number, correction.factors()));
    bool const tracked = correction.tracking();
    auto ran = cluster.run(step, tracked);
    if (!tracked) { ran.measured.clear(); }
    std::size_t const before = ballast_test::allocations();
    ASSERT_TRUE(correction.finish_step(step, ran.step_time, ran.measured));
    if (number >= 12) { during += ballast_test::allocations() - before; }
  }
  EXPECT_EQ(correction.mode(), correction_mode::on);
  EXPECT_EQ(during, 0U);
}

TEST(AdaptiveCorrection, GoesOnWhereItWasKilled)  // Ensures (1) (3)
{
  late_cluster cluster(3, 50);
  cluster.noise_percent = 5;
  std::array<std::uint64_t, 3> const steps_before{6, 3, 9};
  for (std::uint64_t const killed :
       std::span(steps_before).first(static_cast<std::size_t>(ballast_test::trials_of(3)))) {
    SCOPED_TRACE(killed);
    adaptive_correction all(late_cluster::modules(), short_intervals);
    std::vector<std::uint64_t> digests;
    std::string saved;
    cluster.train(all, 0, 13, [&](auto const& step, auto const&) {
      digests.push_back(step.digest());
      if (digests.size() == killed) { saved = all.save(); }
    });
    adaptive_correction resumed(late_cluster::modules(), short_intervals);
    ASSERT_TRUE(resumed.restore(saved));
    EXPECT_EQ(resumed.save(), saved);
    cluster.train(resumed, killed, 13 - killed, [&](auto const& step, auto const&) {
      EXPECT_EQ(step.digest(), digests[step.number]);
    });
    EXPECT_EQ(resumed.save(), all.save());
  }
}

TEST(AdaptiveCorrection, LearnsNothingFromMicrobatchesOfNoSamples)
{
  adaptive_correction correction(late_cluster::modules());
  auto planner = late_cluster::make_scheduler();
  ballast::scheduled_step<2> step;
  ASSERT_TRUE(planner(step, std::vector<ballast::tokens>{5, 900}, 1, 0, {}));
  std::vector<time_units> const measured(std::size_t{32} * 16, 5);
  ASSERT_TRUE(correction.finish_step(step, 9, measured));
  // The sample's encoder and its three stages of the LLM.
  EXPECT_THAT(correction.save(), HasSubstr("old 0 0\ncalls 4 "));
}

TEST(AdaptiveCorrection, RefusesWhatItCannotUse)
{
  adaptive_correction correction(late_cluster::modules(), short_intervals);
  auto planner = late_cluster::make_scheduler();
  ballast::scheduled_step<2> step;
  ASSERT_TRUE(planner(step, late_cluster::sizes_of(0), 1, 0, {}));
  std::vector<time_units> measured(std::size_t{32} * 16, 5);
  std::string const before = correction.save();
  auto const message = [&](adaptive_correction& each, time_units step_time) {
    auto const done = each.finish_step(step, step_time, measured);
    return done ? "" : done.error().message;
  };
  EXPECT_THAT(message(correction, 0), HasSubstr("a step took 0"));
  measured[17] = -3;
  EXPECT_THAT(message(correction, 9), HasSubstr("rank 1 measured -3 for microbatch 1"));
  measured.pop_back();
  EXPECT_THAT(message(correction, 9), HasSubstr("measured has 511 times for 32 ranks"));
  adaptive_correction small(std::vector<std::uint32_t>{0, 1});
  EXPECT_THAT(message(small, 9), HasSubstr("32 ranks was given to a correction of 2"));
  EXPECT_EQ(correction.save(), before);

  EXPECT_FALSE(small.restore(before));
  EXPECT_FALSE(correction.restore(std::string_view(before).substr(0, before.size() / 2)));
  EXPECT_FALSE(correction.restore("adaptive_correction 1\nmode 3"));
  std::string late = before;  // past the end of its interval, which it would never reach
  late.replace(late.find("steps 0"), 7, "steps 4");
  EXPECT_FALSE(correction.restore(late));
  EXPECT_EQ(correction.save(), before);
}

TEST(AdaptiveCorrectionDeathTest, RefusesIntervalsTooShortToCompare)
{
  EXPECT_DEATH(adaptive_correction(std::vector<std::uint32_t>{0}, {.interval = 3}),
               "an interval of 3 steps has too few to compare");
}

}  // namespace
