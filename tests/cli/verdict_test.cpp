// SPDX-License-Identifier: Apache-2.0
// What `ballast report` says that steps lost, on logs with causes that are known: each planted alone,
// and several. Oracle: what was planted, in closed form, and times that are added up here.

#include "program.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/report.hpp>

#include <regex>

namespace verdicts {

using ballast::cost_units;
using ballast::report::step_log;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t ranks = 8;
constexpr std::size_t steps = 12;

/// The steps of a log, and what each rank took.
struct drawn_step {
  std::vector<ballast::tokens> lengths;
  std::vector<cost_units> costs;
  std::vector<cost_units> takes;  ///< what the samples take, where the costs are wrong
  ballast::placement_limits limits = {};
  double factor = 1;  ///< of rank 3
  double noise = 0;
};

/// What the steps of a log lost, as they were planned, with the slow rank, and as measured.
struct waiting {
  double planned = 0;
  double with_slow = 0;
  double measured = 0;
  double time = 0;
};

template <class Times>
double waits(Times const& times)
{
  double const last = *std::max_element(times.begin(), times.end());
  double sum = 0;
  for (double const each : times) { sum += last - each; }
  return sum;
}

/// The shares that the program says, by their sentences.
struct told {
  std::string text;
  double lost = 0;
  std::map<std::string, double> shares;

  [[nodiscard]] double of(std::string const& what) const
  {
    for (auto const& [sentence, share] : shares) {
      if (sentence.find(what) != sentence.npos) { return share; }
    }
    return 0;
  }
};

class Verdict : public ballast_test::program_test {
 protected:
  template <class Draw>
  waiting log_steps(Draw const& draw, std::uint64_t seed)
  {
    ballast::random_source random(seed);
    auto log = step_log::make(path("steps.jsonl")).value();
    auto const bags = ballast::one_gpu_bags(ranks);
    waiting all;
    for (std::size_t number = 0; number < steps; ++number) {
      drawn_step const step = draw(random);
      auto const& takes = step.takes.empty() ? step.costs : step.takes;
      std::vector<std::uint32_t> samples(step.costs.size());
      std::iota(samples.begin(), samples.end(), 0U);
      auto const plan = ballast::partition(
                            samples, bags, [&](std::uint32_t sample) { return step.costs[sample]; },
                            [&](std::uint32_t sample) { return step.lengths[sample]; }, step.limits)
                            .value();
      std::array<double, ranks> planned{};
      std::array<double, ranks> slow{};
      std::array<double, ranks> seconds{};
      std::vector<std::int64_t> measured;
      for (std::size_t sample = 0; sample < samples.size(); ++sample) {
        std::size_t const rank = to_index(plan.owner[ballast::to_id<ballast::sample_id>(sample)]);
        planned[rank] += static_cast<double>(step.costs[sample]);
        seconds[rank] += static_cast<double>(takes[sample]);
      }
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        double const factor = rank == 3 ? step.factor : 1;
        slow[rank] = planned[rank] * factor;
        double const drawn = static_cast<double>(random.below(2001)) / 1000 - 1;
        measured.push_back(
            static_cast<std::int64_t>(seconds[rank] * factor * (1 + step.noise * drawn) * 1000));
        seconds[rank] = static_cast<double>(measured.back()) / 1000;
      }
      all.planned += waits(planned);
      all.with_slow += waits(slow);
      all.measured += waits(seconds);
      all.time += ranks * *std::max_element(seconds.begin(), seconds.end());
      EXPECT_TRUE(
          log.append(step_log::line_of(number, plan, bags, step.lengths, step.limits, measured)));
    }
    return all;
  }

  told report() const
  {
    auto const result = run("report steps.jsonl --output page.html");
    EXPECT_EQ(result.exit_code, 0) << result.error;
    told all;
    all.text = result.out;
    std::regex const reason(R"(^ +([0-9.]+) %  (.*)$)");
    std::smatch found;
    for (std::string const& line : ballast_test::split(result.out, "\n")) {
      if (std::regex_match(line, found, reason)) { all.shares[found[2]] = std::stod(found[1]); }
    }
    if (std::regex_search(result.out, found, std::regex(R"(lost ([0-9.]+) %)"))) {
      all.lost = std::stod(found[1]);
    }
    EXPECT_THAT(content("page.html"),
                HasSubstr("class=\"lead\">" + result.out.substr(result.out.find('\n') + 1, 16)));
    return all;
  }
};

/// As many samples that nothing is lost.
drawn_step many_samples(ballast::random_source& random)
{
  drawn_step step;
  for (std::size_t sample = 0; sample < 40 * ranks; ++sample) {
    step.lengths.push_back(random.between(100, 1000));
    step.costs.push_back(step.lengths.back() * 100);
  }
  return step;
}

/// Of each four samples for two GPUs one costs as much as the three others: without limits all GPUs
/// have 3 shares; where each has two samples, one of two has 4.
drawn_step three_and_one(ballast::random_source& random)
{
  drawn_step step;
  auto const share = random.between(10'000, 20'000);
  for (std::size_t pair = 0; pair < ranks / 2; ++pair) {
    for (std::int64_t const shares : {3, 1, 1, 1}) {
      step.costs.push_back(shares * share);
      step.lengths.push_back(10);
    }
  }
  return step;
}

TEST_F(Verdict, SaysOfAHealthyLogThatNothingIsLost)
{
  log_steps(many_samples, 1);
  auto const found = report();
  EXPECT_THAT(found.text, HasSubstr("Nothing is lost: 8 GPUs wait for 0."));
  EXPECT_TRUE(found.shares.empty()) << found.text;
  EXPECT_THAT(found.text, HasSubstr("correlation"));
  EXPECT_THAT(content("page.html"), Not(HasSubstr("What to change")));
}

TEST_F(Verdict, NamesASampleThatIsTooLong)
{
  double longest = 0;
  double mean = 0;
  log_steps(
      [&](ballast::random_source& random) {
        auto step = many_samples(random);
        cost_units all = 0;
        for (cost_units const each : step.costs) { all += each; }
        step.lengths.push_back(20'000 + random.between(0, 500));
        step.costs.push_back(all / 5);  // 1.33 times the mean of 8 GPUs
        longest += static_cast<double>(all) / 5;
        mean += static_cast<double>(all) * 6 / 5 / ranks;
        return step;
      },
      2);
  auto const found = report();
  EXPECT_NEAR(found.lost, 100 * (1 - mean / longest), 0.1);
  EXPECT_NEAR(found.of("One sample alone is too long for a GPU, in 12 of 12 steps"), found.lost,
              0.2);
  EXPECT_THAT(found.text, HasSubstr("Use bags of 2 GPUs for samples of 20"));
  EXPECT_EQ(found.shares.size(), 1U) << found.text;
}

TEST_F(Verdict, NamesEqualCountsAndTheCap)
{
  auto const report_within = [&](ballast::placement_limits const& limits, std::uint64_t seed) {
    std::filesystem::remove(path("steps.jsonl"));
    log_steps(
        [&](ballast::random_source& random) {
          auto step = three_and_one(random);
          step.limits = limits;
          return step;
        },
        seed);
    return report();
  };
  auto found = report_within({.samples = ballast::counts::equal()}, 3);
  EXPECT_NEAR(found.of("The rule samples = equal"), 25, 0.05);
  EXPECT_EQ(found.shares.size(), 1U) << found.text;

  found = report_within({.most_per_gpu = 25}, 4);
  EXPECT_NEAR(found.of("The cap most_per_gpu = 25"), 25, 0.05);
  EXPECT_THAT(found.text, HasSubstr("Raise most_per_gpu to 30,"));
  EXPECT_EQ(found.shares.size(), 1U) << found.text;

  // Each alone costs as much as both: half of it is either's.
  found = report_within({.most_per_gpu = 25, .samples = ballast::counts::at_most(2)}, 5);
  EXPECT_NEAR(found.of("The cap most_per_gpu = 25"), 12.5, 0.05);
  EXPECT_NEAR(found.of("The rule samples = at_most:2"), 12.5, 0.05);
}

TEST_F(Verdict, NamesASlowRankBesideOthers)
{
  auto all = log_steps(
      [](ballast::random_source& random) {
        auto step = many_samples(random);
        step.factor = 1.2;
        step.noise = 0.005;
        return step;
      },
      6);
  auto found = report();
  EXPECT_NEAR(found.lost, 100 * all.measured / all.time, 0.06);
  EXPECT_NEAR(found.of("Rank 3 takes 1.20 times"), 100 * all.with_slow / all.time, 0.5);
  EXPECT_GT(found.of("Rank 3 takes 1.20 times"), 0.9 * found.lost);

  std::filesystem::remove(path("steps.jsonl"));
  all = log_steps(
      [](ballast::random_source& random) {
        auto step = three_and_one(random);
        step.limits.samples = ballast::counts::equal();
        step.factor = 1.5;
        return step;
      },
      7);
  found = report();
  EXPECT_NEAR(found.of("The rule samples = equal"), 100 * all.planned / all.time, 0.1);
  EXPECT_NEAR(found.of("Rank 3 takes 1.50 times"), 100 * (all.with_slow - all.planned) / all.time,
              0.1);
}

TEST_F(Verdict, TellsCostsThatAreWrongFromTimesThatScatter)
{
  // Planned by tokens, and attention is most of it.
  auto all = log_steps(
      [](ballast::random_source& random) {
        drawn_step step;
        for (std::size_t sample = 0; sample < 6 * ranks; ++sample) {
          step.lengths.push_back(random.between(1, 10) == 1 ? random.between(3000, 5000)
                                                            : random.between(100, 600));
          step.costs.push_back(step.lengths.back());
          step.takes.push_back(step.lengths.back() +
                               step.lengths.back() * step.lengths.back() / 500);
        }
        return step;
      },
      8);
  auto found = report();
  double const lost = 100 * all.measured / all.time;
  EXPECT_NEAR(found.lost, lost, 0.06);
  EXPECT_GT(found.of("The costs do not predict the times"), 0.6 * lost);
  EXPECT_LT(found.of("now more, now less"), 0.1 * lost);
  EXPECT_THAT(found.text, HasSubstr("that of a cost fitted to this log 0."));
  auto const times = run("report steps.jsonl --times times.csv");
  EXPECT_THAT(times.out, HasSubstr("times    times.csv")) << times.error;
  auto const fitted =
      run("plan --codes g2b4i256f1s0 --steps 1 --cost transformer:d=3072 --measured times.csv");
  EXPECT_EQ(fitted.exit_code, 0) << fitted.error;

  std::filesystem::remove(path("steps.jsonl"));
  all = log_steps(
      [](ballast::random_source& random) {
        auto step = many_samples(random);
        step.noise = 0.2;
        return step;
      },
      9);
  found = report();
  EXPECT_NEAR(found.lost, 100 * all.measured / all.time, 0.06);
  EXPECT_GT(found.of("now more, now less"), 0.8 * found.lost);
}

// As three_and_one() has it, one sample in each of two microbatches, which is what the cap allows; with
// a third microbatch, which has none, it allows the better plan.
TEST_F(Verdict, NamesTheCapOfMicrobatchesAndSaysHowFullTheyAre)
{
  auto const bags = ballast::one_gpu_bags(ranks);
  for (auto const& [microbatches, meet] : {std::pair(std::size_t{2}, ballast::grid_meeting::step),
                                           {2, ballast::grid_meeting::microbatch},
                                           {3, ballast::grid_meeting::step}}) {
    std::filesystem::remove(path("steps.jsonl"));
    auto log = step_log::make(path("steps.jsonl")).value();
    std::vector<ballast::tokens> const lengths(2 * ranks, 9);
    std::vector<cost_units> costs;
    std::vector<ballast::cell_id> cells;
    std::vector<cost_units> loads(microbatches * ranks, 0);
    for (std::size_t sample = 0; sample < 2 * ranks; ++sample) {
      costs.push_back(sample % 4 == 0 ? 3000 : 1000);
      cells.push_back(ballast::to_id<ballast::cell_id>(sample % 2 * ranks + sample / 2));
      loads[to_index(cells.back())] = costs.back();
    }
    ASSERT_TRUE(log.append({.step = 1,
                            .lengths = lengths,
                            .costs = costs,
                            .owner = {},
                            .loads = loads,
                            .speeds = bags.speeds(),
                            .makespan = {4000, 1},
                            .lower_bound = {3000, 1},
                            .gpus = bags.sizes(),
                            .microbatches = microbatches,
                            .cells = cells,
                            .meet = meet,
                            .most_per_gpu = 10}));
    auto const found = report();
    bool const is_full = microbatches == 2;
    EXPECT_NEAR(found.of("The cap most_per_gpu = 10"), is_full ? 25 : 0, 0.05) << found.text;
    EXPECT_NEAR(found.of("A plan by the default policy"), is_full ? 0 : 25, 0.05) << found.text;
    EXPECT_THAT(found.text,
                HasSubstr(is_full ? "Microbatches are 90.0 % full of their cap, and 0.0 %"
                                  : "Microbatches are 60.0 % full of their cap, and 33.3 %"));
  }
}

// ---- Pipelines ---------------------------------------------------------------------------------

TEST_F(Verdict, SplitsWhatAPipelineWaits)
{
  constexpr std::size_t stages = 4;
  constexpr std::size_t microbatches = 6;
  auto const schedule =
      ballast::compiled_schedule::make(ballast::chain_of_stages(stages, stages),
                                       ballast::one_forward_one_backward{}, microbatches)
          .value();
  std::vector<ballast::microbatch_id> order;
  for (std::size_t each = 0; each < microbatches; ++each) {
    order.push_back(ballast::to_id<ballast::microbatch_id>(each));
  }
  auto const append = [&](std::size_t slow_stage, std::int64_t pause) {
    ballast::pipeline_times times{microbatches, stages};
    for (auto& row : times.rows) { row = {1000, 2000}; }
    for (std::size_t row = slow_stage; row < times.rows.size(); row += stages) {
      times.rows[row] = {2000, 4000};
    }
    auto timeline = ballast::simulate(schedule, times, order);
    std::filesystem::remove(path("steps.jsonl"));
    auto log = step_log::make(path("steps.jsonl")).value();
    auto tasks = step_log::tasks_of(schedule, order, timeline, timeline);
    for (auto& task : tasks) {  // all wait after each microbatch's first forward, in both
      for (auto* const at : {&task.start, &task.end, &task.simulated_start, &task.simulated_end}) {
        *at += pause;
      }
    }
    EXPECT_TRUE(log.append_pipeline(1, tasks));
    return report();
  };
  // Even stages: what 1F1B takes to fill and drain, (p - 1) of (m + p - 1).
  auto found = append(stages * microbatches, 0);
  EXPECT_NEAR(found.lost, 100.0 * 3 / 9, 0.06);
  EXPECT_NEAR(found.of("fills and drains"), 100.0 * 3 / 9, 0.06);
  EXPECT_EQ(found.shares.size(), 1U) << found.text;
  // A pause that no rank needs: 3000 of 30000.
  found = append(stages * microbatches, 3000);
  EXPECT_NEAR(found.of("leaves bubbles"), 10, 0.06);
  // The last stage takes twice as long: it has 6 x 6000, and waits for 3000 before and 6000 behind.
  found = append(stages - 1, 0);
  EXPECT_NEAR(found.of("stages are uneven: rank 3"), 100.0 * (36 - 0.25 * (36 + 3 * 18)) / 45,
              0.06);
  EXPECT_NEAR(found.of("fills and drains"), 100.0 * 9 / 45, 0.06);
}

}  // namespace verdicts
