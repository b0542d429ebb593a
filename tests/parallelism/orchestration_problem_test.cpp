// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/orchestration_problem.hpp>  // first: proves it is self-contained

#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"

namespace {

using ballast::check_orchestration_problem;
using ballast::orchestration_problem;
using testing::HasSubstr;

void expect_unsound(std::function<void(orchestration_problem&)> const& spoil, std::size_t position,
                    std::string const& why)
{
  auto problem = ballast_test::small_orchestration();
  spoil(problem);
  auto const checked = check_orchestration_problem(problem);
  ASSERT_FALSE(checked) << why;
  EXPECT_EQ(checked.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(checked.error().position, position) << why;
  EXPECT_THAT(checked.error().message, HasSubstr(why));
}

TEST(OrchestrationProblem, IsSound)
{
  EXPECT_TRUE(check_orchestration_problem(ballast_test::small_orchestration()));
}

TEST(OrchestrationProblem, SaysWhatIsWrongWithIt)
{
  using problem = orchestration_problem;
  expect_unsound([](problem& p) { p.modules.clear(); }, 0, "there is no module");
  expect_unsound([](problem& p) { p.kinds.clear(); }, 0, "there is no kind of GPUs to use");
  expect_unsound([](problem& p) { p.kinds.push_back({.gpus = 0}); }, 1,
                 "kind 1 has 0 GPUs on nodes of 8; give at least 1 of each");
  expect_unsound([](problem& p) { p.kinds[0].speed = {0, 1}; }, 0, "has a speed of 0 / 1");
  expect_unsound([](problem& p) { p.llm = 2; }, 0, "module 2 is to be the LLM, and there are 2");
  expect_unsound([](problem& p) { p.global_batch = 0; }, 0, "a global batch of 0 samples");
  expect_unsound([](problem& p) { p.global_batch = (1U << 24) + 1; }, 0, "give 1 to 16777216");
  expect_unsound([](problem& p) { p.microbatch = 5; }, 0,
                 "a batch of 12 samples is no whole number of microbatches of 5; give a divisor");
  expect_unsound([](problem& p) { p.microbatch = 0; }, 0, "microbatches of 0");
}

TEST(OrchestrationProblem, SaysWhatIsWrongWithAModule)
{
  using problem = orchestration_problem;
  expect_unsound([](problem& p) { p.modules[1].layers = 0; }, 1, "module llm has 0 layers");
  expect_unsound([](problem& p) { p.modules[1].virtual_stages = 5; }, 1,
                 "has stages of 5 virtual ones; give 1 to 4, its number of layers");
  expect_unsound([](problem& p) { p.modules[0].degrees.clear(); }, 0,
                 "module vision has times at no parallel degree");
  expect_unsound([](problem& p) { p.modules[1].degrees[1].tp = 1; }, 1,
                 "has degree tp 1 after tp 1");
  expect_unsound([](problem& p) { p.modules[1].degrees[0].backward_of_input = 161; }, 1,
                 "takes 80 forward, 160 backward and 161 of it for its input at tp 1");
  expect_unsound([](problem& p) { p.modules[1].degrees[1].copies = 4; }, 1,
                 "has 4 copies on 2 GPUs; give a divisor");
  expect_unsound([](problem& p) { p.modules[1].degrees[0].forward = -1; }, 1, "takes -1 forward");
  expect_unsound([](problem& p) { p.modules[1].degrees[1].weight_bytes = problem::most_bytes + 1; },
                 1, "holds more than 2^53 bytes at tp 2");
  expect_unsound([](problem& p) { p.modules[0].boundary_bytes = problem::most_bytes + 1; }, 0,
                 "sends more than 2^53 bytes");
  expect_unsound(
      [](problem& p) {
        p.kinds[0].gpus_per_node = 6;
        p.modules[1].degrees[1].tp = 3;
      },
      0, "groups of 2 GPUs for module vision and of 3 for llm do not fill nodes together");
  expect_unsound([](problem& p) { p.modules[1].kinds = {0, 1}; }, 1,
                 "may get GPUs of kind 1, and the last one is 0");
  expect_unsound([](problem& p) { p.modules[0].kinds = {0, 0}; }, 0,
                 "may get GPUs of kind 0 after 0; give each kind once");
  expect_unsound([](problem& p) { p.kinds.resize(65, p.kinds[0]); }, 0,
                 "can be assigned to modules in more than 4096 ways");
}

}  // namespace
