// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/step_bounds.hpp>  // first: proves it is self-contained

#include "../../support/all_layouts.hpp"
#include "../../support/random_modules.hpp"
#include "../../support/test.hpp"
#include "../../support/trials.hpp"

#include <ballast/parallelism/detail/layout_enumeration.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

namespace step_bounds_test {

using ballast::detail::chosen_layout;

/// Degree, pp and dp of two to four modules, of up to 12 replicas each.
std::vector<chosen_layout> random_layout(ballast::random_source& random,
                                         std::vector<ballast::module_profile> const& modules)
{
  std::vector<chosen_layout> chosen;
  for (ballast::module_profile const& module : modules) {
    std::size_t const at = random.below(module.degrees.size());
    auto const& degree = module.degrees[at];
    chosen.push_back(
        {at,
         {degree.tp, static_cast<std::uint32_t>(1 + random.below(std::min(module.layers, 6U))),
          static_cast<std::uint32_t>(1 + random.below(12)), degree.sp, degree.ep}});
  }
  return chosen;
}

/// Bounds and the recurrence against simulate_layout, which builds every task.
TEST(StepBounds, AreNeverAboveTheSimulatedStepAndTheRecurrenceIsIt)
{
  ballast::random_source random(77);
  // BALLAST_TRIALS=100000 tries as many; seconds for the default.
  char const* const asked = std::getenv("BALLAST_TRIALS");
  int const trials = ballast_test::trials_of(asked != nullptr ? std::atoi(asked) : 300);
  std::size_t brokers = 0;
  std::size_t exact = 0;
  std::size_t interleaved = 0;
  std::size_t interleaved_before = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 2 + random.below(3);
    auto model = ballast_test::draw_model(random, modules, 1, random.below(4) == 0, 1 << 20);
    if (random.below(2) == 0) { ballast_test::add_groups(random, model.modules); }
    auto const chosen = random_layout(random, model.modules);
    ballast::model_layout layout;
    for (chosen_layout const& each : chosen) { layout.modules.push_back(each.layout); }
    ballast::layout_problem problem{.modules = model.modules,
                                    .sizes = model.sizes,
                                    .kinds = {{.gpus = static_cast<std::uint32_t>(layout.gpus())}}};
    auto const feeds = ballast_test::random_feeds(random, modules);
    problem.feeds = feeds;
    problem.kinds[0].memory_bytes = ~std::uint64_t{0};
    // Transfers and all-reduces that take a step, or no time beside it, in two of three.
    if (trial % 3 != 0) {
      problem.kinds[0].bytes_per_second = std::uint64_t{1} << (24 + random.below(24));
      for (auto& module : model.modules) {
        module.boundary_bytes = random.below(4) * random.below(1 << 20);
      }
    }
    if (trial % 2 != 0) {
      std::uint32_t const pp = layout.modules.back().pp;
      if (pp > 1) { layout.virtual_stages = static_cast<std::uint32_t>(1 + random.below(3)); }
      model.modules.back().layers =
          pp * layout.virtual_stages * static_cast<std::uint32_t>(1 + random.below(3));
    }
    std::uint32_t const replicas = layout.modules.back().dp;
    layout.microbatches = static_cast<std::uint32_t>(1 + random.below(9));
    problem.global_batch =
        static_cast<std::uint32_t>(layout.microbatches * replicas + random.below(40));
    auto const batch =
        ballast_test::draw_model(random, modules, problem.global_batch, true, 1).sizes;
    // Frozen modules, virtual stages of others than the last, and GPUs of two kinds, in a third.
    std::vector<ballast::module_role> roles(modules);
    if (trial % 3 == 1) {
      problem.roles = roles;
      problem.may_leave_gpus = true;
      problem.kinds.push_back(problem.kinds[0]);
      problem.kinds[1].speed = {random.between(1, 5), random.between(1, 5)};
      if (random.below(2) == 0) { problem.kinds[1].bytes_per_second /= 3; }
      for (std::size_t module = 0; module < modules; ++module) {
        roles[module].is_trained = random.below(2) == 0;
        roles[module].is_input_trained = random.below(4) == 0;
        layout.kinds.push_back(random.below(2));
        if (module + 1 == modules || layout.modules[module].pp == 1) { continue; }
        roles[module].virtual_stages = static_cast<std::uint32_t>(1 + random.below(3));
        model.modules[module].layers = layout.modules[module].pp * roles[module].virtual_stages *
                                       static_cast<std::uint32_t>(1 + random.below(3));
        interleaved_before += roles[module].virtual_stages > 1 ? 1 : 0;
      }
    }
    auto const simulated = ballast::simulate_layout(problem, layout, batch);
    if (!simulated) { continue; }  // groups of GPUs that do not lie inside nodes

    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast::detail::assigned_job const job(problem, layout);
    ballast::detail::dealt_times times(job, batch);
    ballast::detail::stage_memory memory(job);
    ballast::layout_limits const limits;
    ballast::detail::layout_enumeration const all(job, times, memory, limits);
    ballast::time_units const any = all.bound_of(chosen);
    EXPECT_LE(all.least_step(), any);
    EXPECT_LE(any, *simulated);
    EXPECT_LE(any,
              ballast::simulate_layout(problem, layout, batch, ballast::sample_dealing::as_drawn)
                  .value());
    ballast::detail::step_bounds bounds(job, times);
    ASSERT_TRUE(bounds.take(chosen, layout.microbatches, layout.virtual_stages));
    EXPECT_LE(bounds.fullest_replicas(0).time, *simulated);
    ballast::time_units chain = 0;
    for (std::size_t module = 0; module < modules; ++module) {
      chain = std::max(chain, bounds.chain(0, module));
    }
    EXPECT_LE(chain, *simulated);
    ballast::time_units step = 0;
    for (std::uint32_t group = 0; group < bounds.groups(); ++group) {
      step = std::max(step, bounds.simulated(0, group));
    }
    ASSERT_EQ(step, *simulated);
    interleaved += layout.virtual_stages > 1 ? 1 : 0;
    brokers += bounds.groups() < replicas ? 1 : 0;
    exact += chain == *simulated ? 1 : 0;
  }
  EXPECT_GE(interleaved, static_cast<std::size_t>(trials) / 6);
  EXPECT_GE(interleaved_before, static_cast<std::size_t>(trials) / 20);
  EXPECT_GE(brokers, static_cast<std::size_t>(trials) / 4);
  EXPECT_GE(exact, static_cast<std::size_t>(trials) / 10) << "bounds say something";
}

}  // namespace step_bounds_test
