// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/orchestrate.hpp>  // first: proves it is self-contained

#include "../support/all_orchestrations.hpp"
#include "../support/random_orchestrations.hpp"
#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/parallelism/search_layouts.hpp>

namespace {

using namespace ballast;
using ballast_test::random_job;
using ballast_test::small_job;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Compares what is found with all layouts; returns it, or nothing where there is none.
std::optional<orchestration> expect_best(random_job const& job, orchestrate_options const& options)
{
  auto const expected = ballast_test::all_orchestrations(job.problem, options).best();
  auto const found = orchestrate(job.problem, {}, options);
  if (!expected) {
    EXPECT_FALSE(found);
    EXPECT_EQ(found.error().code, error_code::infeasible);
    return {};
  }
  EXPECT_TRUE(found) << found.error().message;
  if (!found) { return {}; }
  EXPECT_EQ(found->layout.step, expected->step);
  EXPECT_TRUE(found->layout == *expected);
  return *found;
}

error refusal(layout_problem const& problem, orchestrate_options const& options = {})
{
  auto const found = orchestrate(problem, {}, options);
  EXPECT_FALSE(found);
  return found ? error{} : found.error();
}

TEST(Orchestrate, FindsWhatTryingAllFinds)  // Ensures (1) (3)
{
  ballast::random_source random(19);
  int feasible = 0;
  int grouped = 0;
  int split = 0;
  int const trials = ballast_test::trials_of(300);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    random_job job(random, trial % 4 == 0 ? 48 : 16, trial % 3 == 0 ? 24 : 8, trial % 3 == 1);
    auto const found = expect_best(job, job.options);
    job.options.limits.has_one_group = true;
    expect_best(job, job.options);
    job.options.limits.has_one_stage = true;
    expect_best(job, job.options);
    if (!found) { continue; }
    ++feasible;
    auto const& llm = found->layout.modules[*job.options.llm];
    grouped += llm.sp + llm.ep > 2 ? 1 : 0;
    auto const& kinds = found->layout.kinds;
    split += !kinds.empty() && kinds.front() != kinds.back() ? 1 : 0;
  }
  EXPECT_GE(feasible, trials / 2);
  EXPECT_LE(feasible, trials * 29 / 30);
  EXPECT_GE(grouped, trials / 50);
  EXPECT_GE(split, trials / 50);
}

TEST(Orchestrate, FindsWhatLayoutsAre)  // Ensures (2) (4)
{
  ballast::random_source random(29);
  int searched = 0;
  int const trials = ballast_test::trials_of(200);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    random_job job(random, 16, 8);
    auto const found = orchestrate(job.problem, {}, job.options);
    if (!found) { continue; }
    model_layout const& of = found->layout;
    auto const priced =
        price_layout(job.problem, of.modules, of.microbatches, of.virtual_stages, of.kinds);
    ASSERT_TRUE(priced) << priced.error().message;
    EXPECT_EQ(priced->memory_bytes, of.memory_bytes);
    std::vector<tokens> batch;
    for (std::size_t at = 0; at < job.problem.global_batch * job.problem.modules.size(); ++at) {
      batch.push_back(job.problem.sizes[at % job.problem.sizes.size()]);
    }
    EXPECT_EQ(simulate_layout(job.problem, of, batch).value(), found->simulated);
    EXPECT_EQ(orchestrate(job.problem, batch, job.options), found);
    if (job.problem.kinds.size() == 1) {  // a layout that fills memory to the last byte fits
      layout_problem full = job.problem;
      full.kinds[0].memory_bytes = of.memory_bytes;
      auto const filling = orchestrate(full, {}, job.options);
      ASSERT_TRUE(filling) << filling.error().message;
      EXPECT_TRUE(filling->layout == of);
      --full.kinds[0].memory_bytes;
      auto const smaller = orchestrate(full, {}, job.options);
      EXPECT_TRUE(!smaller || smaller->layout.memory_bytes < of.memory_bytes);
    }
    // The search that simulates finds none that is longer, where the batch fits as it is dealt.
    if (job.problem.kinds.size() > 1 ||
        dealt_memory(job.problem, of, batch).value() > job.problem.kinds[0].memory_bytes) {
      continue;
    }
    auto const best = search_layouts(job.problem, batch);
    ASSERT_TRUE(best) << best.error().message;
    EXPECT_LE(best->layouts.front().simulated, found->simulated);
    ++searched;
  }
  EXPECT_GE(searched, trials / 5);
}

TEST(Orchestrate, LeavesGpusUnusedThatDoNotHelp)
{
  small_job job;
  job.problem.kinds[0].gpus = 40;
  auto const found = orchestrate(job.problem).value();
  EXPECT_THAT(found.layout.modules, ElementsAre(module_layout{1, 1, 12}, module_layout{2, 1, 12}));
  EXPECT_EQ(found.layout.gpus(), 36U) << "no divisor of the batch makes use of four more";
  EXPECT_EQ(found.layout.step, 30 + 120);
  EXPECT_EQ(found.simulated, 30 + 120);
  EXPECT_GT(found.evaluated, 10U);
  auto const one = orchestrate(job.problem, {}, {.limits = {.has_one_group = true}}).value();
  EXPECT_EQ(one.layout.modules[0].dp, one.layout.modules[1].dp);
  EXPECT_GE(one.layout.step, found.layout.step);
  auto const old =
      orchestrate(job.problem, {},
                  {.limits = {.has_one_group = true, .has_one_stage = true, .group = 1, .pp = 3}})
          .value();
  EXPECT_THAT(old.layout.modules, ElementsAre(module_layout{1, 1, 6}, module_layout{1, 3, 6}));
}

TEST(Orchestrate, TakesProfiles)
{
  std::vector<tokens> const sizes{5, 1324, 2, 800};
  std::array const modules{module_profile{.name = "vision",
                                          .layers = 4,
                                          .flops = {.linear = 4'000'000'000},
                                          .degrees = {{.tp = 1}, {.tp = 2}}},
                           module_profile{.name = "llm",
                                          .layers = 8,
                                          .flops = {.linear = 48'000'000},
                                          .degrees = {{.tp = 1}, {.tp = 2}}}};
  // [orchestrate]
  std::vector<ballast::module_role> const roles{{.is_trained = false}, {}};  // a frozen encoder
  ballast::layout_problem problem{.modules = modules,
                                  .sizes = sizes,  // vision and LLM of each sample
                                  .global_batch = 48,
                                  .kinds = {{.gpus = 16, .memory_bytes = 80'000'000'000}},
                                  .may_leave_gpus = true,
                                  .roles = roles};
  auto const found = ballast::orchestrate(problem).value();
  ballast::model_layout const& best = found.layout;  // tp, pp and dp of each module
  // [orchestrate]
  EXPECT_EQ(best.modules.size(), 2U);
  EXPECT_LE(best.gpus(), 16U);
  EXPECT_GT(found.simulated, 0);
}

TEST(Orchestrate, FindsTheKindOfEachModule)  // Ensures (1)
{
  small_job job;
  auto& problem = job.problem;
  problem.kinds = {{.gpus = 2, .memory_bytes = 1000, .speed = {1, 2}},
                   {.gpus = 8, .memory_bytes = 1000},
                   {.gpus = 8, .memory_bytes = 5}};  // too small for either
  auto const found = orchestrate(problem);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->layout.kinds, ElementsAre(0, 1)) << "the encoder on the slow ones";
  job.roles[0].kinds = {1, 2};
  job.roles[1].kinds = {0, 2};
  EXPECT_THAT(orchestrate(job.view())->layout.kinds, ElementsAre(1, 0));
  EXPECT_GT(orchestrate(problem)->layout.step, found->layout.step);
}

TEST(Orchestrate, SaysWhatTheClosestKindsLack)
{
  small_job job;
  auto& problem = job.problem;
  problem.kinds = {{.gpus = 1, .memory_bytes = 400}, {.gpus = 1, .memory_bytes = 1000}};
  // The LLM needs 640 + 40 on a GPU of kind 1, and then the encoder has 168 of kind 0.
  EXPECT_TRUE(orchestrate(problem)) << "one on each";
  job.roles[0].kinds = {1};
  EXPECT_THAT(refusal(job.view()).message,
              AllOf(HasSubstr("vision tp 1 pp 1 dp 1 of kind 1, llm tp 1 pp 1 dp 1 of kind 0"),
                    HasSubstr("needs 280 bytes more than the 400 of a GPU for module llm")));
  problem.kinds[0].gpus_per_node = 3;
  problem.kinds[1].gpus_per_node = 5;
  job.modules[1].degrees.erase(job.modules[1].degrees.begin());
  EXPECT_THAT(refusal(job.view()).message, HasSubstr("divide the 3 or 5 GPUs of a node"));
}

TEST(Orchestrate, TakesOneGpuAndOneModule)
{
  small_job job;
  job.problem.kinds[0].gpus = 1;
  job.modules.pop_back();
  job.roles.pop_back();
  auto const found = orchestrate(job.view()).value();
  EXPECT_THAT(found.layout.modules, ElementsAre(module_layout{1, 1, 1}));
  EXPECT_EQ(found.layout.step, 12 * 30);
}

TEST(Orchestrate, SaysHowMuchIsMissing)
{
  small_job job;
  auto& problem = job.problem;
  problem.kinds[0].memory_bytes = 25;
  problem.kinds[0].gpus = 1024;
  // At tp 2, 4 stages, 12 replicas and one microbatch: (40 + 40 + 240 / 12) / 4 + 5.
  EXPECT_EQ(refusal(problem).position, 1U);
  EXPECT_THAT(refusal(problem).message,
              HasSubstr("llm tp 2 pp 4 dp 12) needs 5 bytes more than the 25 of a GPU for module "
                        "llm"));
  problem.kinds[0].gpus = 1;
  problem.kinds[0].memory_bytes = 1000;
  EXPECT_THAT(refusal(problem).message,
              HasSubstr("has 1 GPU or fewer with groups of tp x sp x ep GPUs inside nodes; modules "
                        "need at least (vision 1, llm 1); use another number of GPUs"));
}

TEST(Orchestrate, SaysWhichDegreeCannotBe)
{
  small_job job;
  job.problem.kinds[0].gpus_per_node = 3;
  job.modules[1].degrees.erase(job.modules[1].degrees.begin());
  EXPECT_EQ(refusal(job.view()).position, 1U);
  EXPECT_THAT(refusal(job.problem).message,
              HasSubstr("module llm was measured at no parallel degree whose GPUs divide the 3 "));
  job.problem.kinds[0].gpus_per_node = 8;
  for (orchestrate_options const& asked :
       {orchestrate_options{.limits = {.pp = 7}}, {.limits = {.group = 4}}}) {
    EXPECT_THAT(refusal(job.problem, asked).message,
                HasSubstr("layouts fit, and none is as asked: dp divides the 12 microbatches"));
  }
}

TEST(Orchestrate, SaysWhatCannotBe)
{
  small_job job;
  EXPECT_THAT(refusal(job.problem, {.microbatch = 7}).message,
              HasSubstr("a batch of 12 samples is no whole number of microbatches of 7"));
  EXPECT_THAT(refusal(job.problem, {.microbatch = 0}).message, HasSubstr("microbatches of 0"));
  EXPECT_THAT(refusal(job.problem, {.llm = 2}).message,
              HasSubstr("module 2 is to be the LLM, and there are 2"));
  std::vector<tokens> const few(5, 1);
  EXPECT_THAT(orchestrate(job.problem, few).error().message,
              HasSubstr("no whole number of batches"));
  job.modules[1].flops.linear = std::uint64_t{1} << 62;
  EXPECT_THAT(refusal(job.view()).message, HasSubstr("takes 2^53 picoseconds or more on some"));
  job.modules[1].flops.linear = std::uint64_t{1} << 45;
  job.problem.global_batch = 1 << 24;
  EXPECT_THAT(refusal(job.view()).message, HasSubstr("steps take less than 2^63 picoseconds"));
  job.modules[1].degrees[1].tp = 3;
  job.problem.kinds[0].gpus_per_node = 6;
  EXPECT_THAT(
      refusal(job.view()).message,
      HasSubstr("groups of 2 GPUs for module vision and of 3 for llm do not fill nodes together"));
}

// Two layers of 3,200 bytes of state, four GPUs, eight samples that compute 3,000 each.
TEST(Orchestrate, ShardsWeightsWhereMemoryAsksForIt)
{
  ballast::module_profile module{
      .name = "llm", .layers = 2, .flops = {.linear = 30}, .degrees = {{.tp = 1}}};
  module.degrees[0].memory = {.layers = {1, 2}, .state_bytes = {3200, 6400}};
  std::vector<ballast::module_role> roles{{.weights = ballast::weight_sharding::either}};
  std::vector<ballast::tokens> const sizes(8, 100);
  ballast::layout_problem problem{
      .modules = {&module, 1},
      .sizes = sizes,
      .global_batch = 8,
      .kinds = {{.gpus = 4, .memory_bytes = 6400, .bytes_per_second = 1'000'000'000'000}},
      .roles = roles};
  auto const whole = orchestrate(problem).value();
  EXPECT_EQ(whole.layout.step, 3000 + 3000 + 1200);  // and 600 bytes, twice round
  EXPECT_FALSE(whole.layout.modules[0].is_sharded);
  // Four replicas hold 3,200 bytes each, and 900 of each microbatch do not hide. Two of two
  // stages that hold as much take 3 x 1,500, until they are full 2 x 1,500, and reduce 400.
  problem.kinds[0].memory_bytes = 6399;
  auto const sharded = orchestrate(problem).value();
  EXPECT_EQ(sharded.layout.step, 2 * 3900);
  EXPECT_EQ(sharded.layout.modules,
            (std::vector<ballast::module_layout>{{.tp = 1, .pp = 1, .dp = 4, .is_sharded = true}}));
  EXPECT_EQ(sharded.simulated, 2 * 3900);
  roles[0].weights = ballast::weight_sharding::whole;
  EXPECT_EQ(orchestrate(problem).value().layout.step, 7900);
}

}  // namespace
