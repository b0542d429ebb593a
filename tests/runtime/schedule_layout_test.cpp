#include <ballast/runtime/schedule_layout.hpp>  // first: proves it is self-contained

#include "../support/random_modules.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/runtime/online_scheduler.hpp>

namespace {

using ballast::insertion;
using ballast::layout_problem;
using ballast::model_layout;
using ballast::scheduled_step;
using ballast::tokens;
using testing::HasSubstr;

struct layout_job {
  ballast_test::random_model model;
  layout_problem problem;
};

// An encoder and an LLM on 16 GPUs, steps of 64 samples.
layout_job random_job(std::uint64_t seed)
{
  ballast::random_source random(seed);
  layout_job made{ballast_test::draw_model(random, 2, 128, true, std::uint64_t{80} << 30), {}};
  made.problem.global_batch = 64;
  made.problem.gpus = 16;
  made.problem.memory_bytes = std::uint64_t{80} << 30;
  return made;
}

TEST(ScheduleLayout, PlansShorterStepsThanThoseOfUnbalancedBatches)
{
  std::size_t layouts = 0;
  double scheduled = 0;
  double as_read = 0;
  constexpr std::uint64_t jobs = ballast_test::is_sanitized ? 2 : 12;
  for (std::uint64_t seed = 0; seed < jobs; ++seed) {
    layout_job made = random_job(seed);
    made.problem.modules = made.model.modules;
    made.problem.sizes = made.model.sizes;
    auto const batch = std::span<tokens const>(made.model.sizes).first(128);
    auto const found = ballast::search_layouts(made.problem, batch, {.best = 3});
    if (!found) { continue; }
    for (auto const& [layout, simulated] : found->layouts) {
      auto scheduler = ballast::schedule_layout<2>(made.problem, layout, insertion{});
      ASSERT_TRUE(scheduler) << scheduler.error().message;
      scheduled_step<2> step;
      auto const planned = (*scheduler)(step, batch, 1, 0, {});
      if (!planned) {  // one sample is more than a replica can hold
        EXPECT_EQ(planned.error().code, ballast::error_code::infeasible);
        continue;
      }
      EXPECT_EQ(step.microbatches, layout.microbatches);
      EXPECT_EQ(step.replicas, (std::array{layout.modules[0].dp, layout.modules[1].dp}));
      auto const ran = ballast::simulate_step(made.problem, layout, step, batch).value();
      EXPECT_LE(ran.busy, ran.makespan * 16);
      EXPECT_GT(ran.busy, 0);
      ++layouts;
      scheduled += static_cast<double>(ran.makespan);
      as_read += static_cast<double>(
          ballast::simulate_layout(made.problem, layout, batch, ballast::sample_dealing::as_drawn)
              .value());
    }
  }
  EXPECT_GE(layouts, 5 * jobs / 6);
  EXPECT_LT(scheduled, 0.95 * as_read);
}

TEST(ScheduleLayout, TakesVirtualStages)
{
  layout_job made = random_job(3);
  made.model.modules[1].layers = 8;
  made.problem.modules = made.model.modules;
  made.problem.sizes = made.model.sizes;
  made.problem.memory_bytes = ~std::uint64_t{0};
  model_layout layout{{{1, 1, 8}, {1, 4, 2}}, 8};
  auto const batch = std::span<tokens const>(made.model.sizes).first(128);
  for (std::uint32_t const virtual_stages : {1U, 2U}) {
    layout.virtual_stages = virtual_stages;
    auto scheduler = ballast::schedule_layout<2>(made.problem, layout, insertion{});
    ASSERT_TRUE(scheduler) << scheduler.error().message;
    scheduled_step<2> step;
    auto const planned = (*scheduler)(step, batch, 1, 0, {});
    ASSERT_TRUE(planned) << planned.error().message;
    EXPECT_EQ(step.stages.size(), 4 + 4 * virtual_stages) << "of a group";
    auto const ran = ballast::simulate_step(made.problem, layout, step, batch).value();
    EXPECT_LE(ran.busy, ran.makespan * 16);
    EXPECT_GT(ran.busy, 0);
  }
}

TEST(ScheduleLayout, RefusesWhatIsNoLayoutOfTheProblem)
{
  layout_job made = random_job(1);
  made.problem.modules = made.model.modules;
  made.problem.sizes = made.model.sizes;
  auto const message = [&](model_layout const& layout) {
    auto const scheduler = ballast::schedule_layout<2>(made.problem, layout, insertion{});
    return scheduler ? "" : scheduler.error().message;
  };
  EXPECT_NE(message({{{1, 1, 1}, {1, 1, 1}}, 1}), "");  // two of 16 GPUs
  auto const three = ballast::schedule_layout<3>(made.problem, {{}, 1}, insertion{});
  EXPECT_THAT(three.error().message, HasSubstr("of 3 modules was given a problem of 2"));
}

}  // namespace
