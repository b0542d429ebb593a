// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/orchestrate.hpp>  // first: proves it is self-contained

#include "../../examples/common/baselines/orchestrations.hpp"
#include "../support/all_orchestrations.hpp"
#include "../support/random_orchestrations.hpp"
#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>
#include <ballast/parallelism/simulate_orchestration.hpp>

namespace {

using namespace ballast;
using baselines::homogeneous;
using baselines::monolithic;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Compares what a policy finds with all orchestrations; returns whether there was one.
template <class Policy>
bool expect_best_units(orchestration_problem const& problem, Policy const& policy,
                       ballast_test::allowed_orchestrations const& allowed)
{
  auto const expected = ballast_test::best_of_all_assignments(problem, allowed);
  auto const found = orchestrate(problem, policy);
  if (!expected) {
    EXPECT_FALSE(found);
    EXPECT_EQ(found.error().code, error_code::infeasible);
    return false;
  }
  EXPECT_TRUE(found) << found.error().message;
  if (!found) { return true; }
  EXPECT_EQ(found->layout.step, expected->layout.step);
  EXPECT_TRUE(found->layout == expected->layout);
  EXPECT_EQ(found->kinds, expected->kinds);
  auto const priced = price_orchestration(problem, found->layout.modules, found->kinds);
  EXPECT_TRUE(priced && *priced == expected->layout);
  return true;
}

/// Why no orchestration of a sound problem fits.
template <class Policy = homogeneous>
ballast::error refusal(orchestration_problem const& problem, Policy const& policy = {})
{
  auto const found = orchestrate(problem, policy);
  EXPECT_FALSE(found);
  if (found) { return {}; }
  EXPECT_EQ(found.error().code, error_code::infeasible);
  return found.error();
}

TEST(Orchestrate, FindsWhatTryingAllFinds)  // Ensures (1) (2) (3)
{
  ballast::random_source random(19);
  int feasible = 0;
  int const trials = ballast_test::trials_of(400);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const problem = ballast_test::random_orchestration(random, trial % 4 == 0 ? 96 : 24,
                                                            trial % 3 == 0 ? 48 : 12);
    feasible += expect_best_units(problem, ballast::best_units{}, {}) ? 1 : 0;
    expect_best_units(problem, homogeneous{}, {.one_degree = true});
    expect_best_units(problem, monolithic{}, {.one_degree = true, .one_stage = true});
  }
  EXPECT_GE(feasible, trials / 3 * 2);
  EXPECT_LE(feasible, trials * 29 / 30);
}

TEST(Orchestrate, HasTheMemoryOfItsSimulatedPipeline)  // Ensures (3)
{
  ballast::random_source random(29);
  int equal = 0;
  int const trials = ballast_test::trials_of(300);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const problem = ballast_test::random_orchestration(random, 64, 24);
    auto const found = orchestrate(problem);
    if (!found) { continue; }
    auto const simulated = ballast_test::simulated_memory(
        ballast_test::on_kinds(problem, found->kinds), found->layout);
    EXPECT_TRUE(simulated.fits);
    EXPECT_GE(found->layout.memory_bytes, simulated.bytes);
    if (simulated.is_even) {
      ++equal;
      EXPECT_EQ(found->layout.memory_bytes, simulated.bytes);
    }
  }
  EXPECT_GT(equal, trials / 4);
}

TEST(Orchestrate, LeavesGpusUnusedThatDoNotHelp)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].gpus = 40;
  auto const found = orchestrate(problem).value();
  EXPECT_THAT(found.layout.modules, ElementsAre(module_layout{1, 1, 12}, module_layout{2, 1, 12}));
  EXPECT_EQ(found.layout.gpus(), 36U) << "no divisor of the batch makes use of four more";
  EXPECT_EQ(found.layout.step, 30 + 120);
  EXPECT_GT(found.evaluated, 10U);
  auto const one = orchestrate(problem, homogeneous{}).value();
  EXPECT_EQ(one.layout.modules[0].dp, one.layout.modules[1].dp);
  EXPECT_GE(one.layout.step, found.layout.step);
  auto const old = orchestrate(problem, monolithic{.tp = 1, .pp = 3}).value();
  EXPECT_THAT(old.layout.modules, ElementsAre(module_layout{1, 1, 6}, module_layout{1, 3, 6}));
}

ballast::module_profile profile_of_layers(char const* name, std::uint32_t layers,
                                          std::uint64_t flops)
{
  return {.name = name,
          .layers = layers,
          .flops = {.linear = flops},
          .degrees = {{.tp = 1}, {.tp = 2}, {.tp = 4}}};
}

TEST(Orchestrate, TakesProfiles)
{
  auto const vision = profile_of_layers("vision", 4, 4'000'000'000);
  auto const llm = profile_of_layers("llm", 8, 48'000'000);
  // [orchestrate]
  ballast::orchestration_problem problem;
  problem.modules = {ballast::orchestrated_module_of(vision, 5).value(),  // profile, mean size
                     ballast::orchestrated_module_of(llm, 1324).value()};
  problem.modules[0].is_trained = false;  // frozen
  problem.llm = 1;                        // which module is the LLM
  problem.global_batch = 48;
  problem.kinds = {{.gpus = 16, .memory_bytes = 80'000'000'000}};
  auto const found = ballast::orchestrate(problem).value();
  ballast::model_layout const& best = found.layout;  // tp, pp and dp of each module
  auto const old = ballast::orchestrate(problem, baselines::monolithic{}).value();
  // [orchestrate]
  EXPECT_EQ(best.modules.size(), 2U);
  EXPECT_LE(best.step, old.layout.step);
  EXPECT_LE(best.gpus(), 16U);
}

/// Has what orchestration_policy asks for, and nothing more.
struct one_replica_each {
  ballast::result<ballast::orchestration> operator()(orchestration_problem const& problem) const
  {
    std::vector<module_layout> const units(problem.modules.size());
    return price_orchestration(problem, units).map([](ballast::model_layout const& priced) {
      return ballast::orchestration{priced, {0, 0}, 1};
    });
  }
};
static_assert(ballast::orchestration_policy<one_replica_each>);
static_assert(!ballast::orchestration_policy<int>);

TEST(Orchestrate, TakesPoliciesOfUsers)
{
  auto const problem = ballast_test::small_orchestration();
  auto const found = orchestrate(problem, one_replica_each{}).value();
  EXPECT_EQ(found.layout.step, 30 + 12 * 240);
  EXPECT_GT(found.layout.step, orchestrate(problem)->layout.step);
}

TEST(Orchestrate, FindsTheKindOfEachModule)  // Ensures (1)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds = {{.gpus = 2, .memory_bytes = 1000, .speed = {1, 2}},
                   {.gpus = 8, .memory_bytes = 1000},
                   {.gpus = 8, .memory_bytes = 5}};  // too small for either
  auto const found = orchestrate(problem);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->kinds, ElementsAre(0, 1)) << "the encoder on the slow ones";
  problem.modules[0].kinds = {1, 2};
  problem.modules[1].kinds = {0, 2};
  EXPECT_THAT(orchestrate(problem)->kinds, ElementsAre(1, 0));
  EXPECT_GT(orchestrate(problem)->layout.step, found->layout.step);
  ballast::random_source random(31);
  int split = 0;
  int const trials = ballast_test::trials_of(150);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto drawn = ballast_test::random_orchestration(random, 12, 8, 5);
    while (drawn.kinds.size() < 2 + random.below(2)) {
      auto kind = drawn.kinds[random.below(drawn.kinds.size())];
      kind.gpus = static_cast<std::uint32_t>(1 + random.below(12));
      kind.speed = {random.between(1, 3), random.between(1, 3)};
      drawn.kinds.push_back(kind);
    }
    for (auto& module : drawn.modules) {
      module.kinds.clear();
      if (random.below(4) == 0) { module.kinds = {0, 1}; }
    }
    if (!expect_best_units(drawn, ballast::best_units{}, {})) { continue; }
    auto const kinds = orchestrate(drawn)->kinds;
    split += kinds.front() != kinds.back() ? 1 : 0;
    expect_best_units(drawn, homogeneous{}, {.one_degree = true});
  }
  EXPECT_GT(split, trials / 10);
}

TEST(Orchestrate, FindsTheBestGroupsOfGpus)  // Ensures (1)
{
  ballast::random_source random(33);
  int grouped = 0;
  int const trials = ballast_test::trials_of(100);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto drawn = ballast_test::random_orchestration(random, 24, 12, 5);
    ballast_test::add_groups(random, drawn.modules);
    if (!expect_best_units(drawn, ballast::best_units{}, {})) { continue; }
    module_layout const llm = orchestrate(drawn)->layout.modules[drawn.llm];
    grouped += llm.sp + llm.ep > 2 ? 1 : 0;
    expect_best_units(drawn, homogeneous{}, {.one_degree = true});
  }
  EXPECT_GT(grouped, trials / 50);
  EXPECT_LT(grouped, trials / 2);
}

TEST(Orchestrate, SaysWhatTheClosestKindsLack)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds = {{.gpus = 1, .memory_bytes = 400}, {.gpus = 1, .memory_bytes = 1000}};
  // The LLM needs 240 + 480 + 40 on a GPU of kind 1, and then the encoder has 168 of kind 0.
  EXPECT_TRUE(orchestrate(problem)) << "one on each";
  problem.modules[0].kinds = {1};
  EXPECT_THAT(refusal<ballast::best_units>(problem).message,
              HasSubstr("llm tp 1 pp 1 dp 1) needs 1 more than the 1 of kind 1"))
      << "closer than memory that is missing on kind 0";
  problem.kinds[0].gpus_per_node = 3;
  problem.kinds[1].gpus_per_node = 5;
  problem.modules[1].degrees.erase(problem.modules[1].degrees.begin());
  EXPECT_THAT(refusal<ballast::best_units>(problem).message,
              HasSubstr("can be used on nodes of 3 or 5 GPUs"));
}

TEST(Orchestrate, TakesOneGpuAndOneModule)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].gpus = 1;
  problem.modules.pop_back();
  problem.llm = 0;
  auto const found = orchestrate(problem).value();
  EXPECT_THAT(found.layout.modules, ElementsAre(module_layout{1, 1, 1}));
  EXPECT_EQ(found.layout.step, 12 * 30);
}

TEST(Orchestrate, SaysHowMuchMemoryIsMissing)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].memory_bytes = 25;
  problem.kinds[0].gpus = 1024;
  // At tp 2, 4 stages, 12 replicas and one microbatch: (40 + 40 + 240 / 12) / 4 + 5.
  EXPECT_EQ(refusal(problem).position, 1U);
  EXPECT_THAT(refusal(problem).message,
              HasSubstr("module llm needs 5 bytes more than the 25 of a GPU where it comes closest "
                        "(tp 2 pp 4 dp 12)"));
  problem.kinds[0].gpus = 16;  // which do not hold those 96
  EXPECT_THAT(refusal(problem).message,
              HasSubstr("module vision needs 45 bytes more than the 25 of a GPU where it comes "
                        "closest (tp 2 pp 1 dp 2)"));
}

TEST(Orchestrate, SaysHowManyGpusAreMissing)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].gpus = 1;
  EXPECT_EQ(refusal(problem).position, 0U);
  EXPECT_THAT(refusal(problem).message,
              HasSubstr("the closest (vision tp 1 pp 1 dp 1, llm tp 1 pp 1 dp 1) needs 1 more than "
                        "the 1; use more GPUs"));
  problem.kinds.push_back(problem.kinds[0]);
  problem.modules[0].kinds = {0};
  problem.modules[1].kinds = {1};
  problem.kinds[1].memory_bytes = 400;
  EXPECT_EQ(refusal(problem).position, 1U);
  EXPECT_THAT(refusal(problem).message,
              AllOf(HasSubstr("module llm needs "),
                    HasSubstr(" bytes more than the 400 of a GPU of kind 1 where it comes closest "
                              "(tp 1 pp 1 dp 1); use larger GPUs, more of them")));
}

TEST(Orchestrate, SaysWhichDegreeCannotBe)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].gpus_per_node = 3;
  problem.modules[1].degrees.erase(problem.modules[1].degrees.begin());
  EXPECT_EQ(refusal(problem).position, 1U);
  EXPECT_THAT(refusal(problem).message,
              HasSubstr("module llm has times at no parallel degree that can be used on "
                        "nodes of 3 GPUs"));
  problem.kinds[0].gpus_per_node = 8;
  EXPECT_THAT(refusal(problem, monolithic{.pp = 7}).message,
              HasSubstr("number of stages that they may have"));
}

TEST(Orchestrate, SaysWhereTimesDoNotFit)
{
  auto problem = ballast_test::small_orchestration();
  problem.global_batch = 1 << 24;
  problem.kinds[0].speed = {1, orchestration_problem::most_speed};
  for (auto& each : problem.modules[1].degrees) {
    each.forward = orchestration_problem::longest_time;
  }
  EXPECT_THAT(refusal(problem).message, HasSubstr("takes 2^63 picoseconds or more"));
}

TEST(Orchestrate, SaysWhatCannotBe)
{
  auto problem = ballast_test::small_orchestration();
  problem.microbatch = 7;
  EXPECT_EQ(orchestrate(problem).error().code, error_code::out_of_range);
  problem.microbatch = 12;
  EXPECT_THAT(orchestrate(problem, monolithic{.tp = 4}).error().message,
              HasSubstr("at no parallel"));
}

}  // namespace
