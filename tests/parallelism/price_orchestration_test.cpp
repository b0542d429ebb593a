// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/simulate_orchestration.hpp>  // first: proves it is self-contained

#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"

#include <ballast/parallelism/model_layout.hpp>

namespace {

using ballast::module_layout;
using ballast::price_orchestration;
using testing::HasSubstr;
using unit_layouts = std::vector<module_layout>;

TEST(PriceOrchestration, IsTheFormula)
{
  auto problem = ballast_test::small_orchestration();
  // dp_LLM 2: 6 microbatches of 2 samples. The encoder takes 2 * 30 / 3 = 20, the LLM 2 * 120 / 2 /
  // 2 on each of its two stages; 20 + 2 * 60 + 5 * 60.
  auto const priced = price_orchestration(problem, unit_layouts{{1, 1, 3}, {2, 2, 2}}).value();
  EXPECT_EQ(priced.step, 440);
  EXPECT_EQ(priced.microbatches, 6U);
  // The encoder: 20 + 20 + 120 / 3 + 8; the LLM: (40 + 40) / 2 + 240 / 2 / 2 + 20.
  EXPECT_EQ(priced.memory_bytes, 120U);
  problem.microbatch = 2;
  auto const twice = price_orchestration(problem, unit_layouts{{1, 1, 3}, {2, 2, 2}}).value();
  EXPECT_EQ(twice.microbatches, 3U);
  EXPECT_EQ(twice.step, 40 + 2 * 120 + 2 * 120);
}

TEST(PriceOrchestration, SaysWhatCannotBe)
{
  auto problem = ballast_test::small_orchestration();
  auto const expect_refused = [&](unit_layouts const& given, std::size_t position,
                                  std::string const& why) {
    auto const priced = price_orchestration(problem, given);
    ASSERT_FALSE(priced) << why;
    EXPECT_EQ(priced.error().code, ballast::error_code::infeasible);
    EXPECT_EQ(priced.error().position, position);
    EXPECT_THAT(priced.error().message, HasSubstr(why));
  };
  expect_refused({{1, 1, 1}}, 0, "layouts of 1 module were given for 2");
  expect_refused({{1, 1, 5}, {1, 1, 1}}, 0, "cannot have dp 5; give a divisor of the 12");
  expect_refused({{1, 1, 1}, {1, 1, 0}}, 1, "cannot have dp 0");
  expect_refused({{1, 1, 1}, {4, 1, 1}}, 1, "module llm cannot have tp 4");
  expect_refused({{1, 3, 1}, {1, 1, 1}}, 0, "of 2 layers cannot have 3 stages");
  expect_refused({{1, 1, 1}, {1, 0, 1}}, 1, "cannot have 0 stages");
  expect_refused({{1, 1, 12}, {2, 2, 2}}, 0, "get 20 GPUs of kind 0, and there are 16");
  problem.kinds[0].memory_bytes = 119;
  expect_refused({{1, 1, 3}, {2, 2, 2}}, 1,
                 "a GPU of module llm would hold 120 bytes, and has 119");
  problem = ballast_test::small_orchestration();
  problem.kinds.push_back(problem.kinds[0]);
  problem.modules[0].kinds = {0};
  expect_refused({{1, 1, 1}, {1, 1, 1}}, 1, "module llm may get GPUs of several kinds; say which");
  unit_layouts const ones(2);
  auto const priced = [&](std::vector<std::size_t> const& kinds) {
    return price_orchestration(problem, ones, kinds);
  };
  EXPECT_TRUE(priced({0, 1}));
  EXPECT_THAT(priced({1, 1}).error().message, HasSubstr("vision may not get GPUs of the given"));
  EXPECT_THAT(priced({0}).error().message, HasSubstr("kinds of GPUs were given for 1 module of 2"));
  problem.kinds.clear();
  EXPECT_EQ(price_orchestration(problem, unit_layouts{}).error().code,
            ballast::error_code::out_of_range);
  problem = ballast_test::small_orchestration();
  problem.global_batch = 1 << 24;
  problem.modules[1].degrees[0].forward = ballast::orchestration_problem::longest_time;
  expect_refused({{1, 1, 1}, {1, 1, 1}}, 0, "a step takes 2^63 picoseconds or more");
}

}  // namespace
