// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/stage_choices.hpp>  // first: proves it is self-contained

#include "../../support/random_modules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace {

using ballast::detail::stage_choice;
using ballast::detail::stage_choices;
using ballast::detail::stage_memory;

TEST(StageChoices, LeavesOutWhatNeverFits)
{
  ballast::random_source random(12);
  for (int trial = 0; trial < 200; ++trial) {
    std::uint64_t const bytes = std::uint64_t{1} << 30;
    auto const model = ballast_test::draw_model(random, 2, 4, trial % 2 == 0, bytes);
    ballast::layout_problem problem;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    problem.global_batch = static_cast<std::uint32_t>(1 + random.below(50));
    problem.gpus = static_cast<std::uint32_t>(1 + random.below(30));
    problem.memory_bytes = bytes / 4;
    stage_memory memory(problem);
    stage_choices const choices(problem, memory);
    for (std::size_t module = 0; module < 2; ++module) {
      auto const after =
          module == 0 ? choices.fewest_stages_before(2) - choices.fewest_stages_before(1) : 0;
      auto const& degrees = model.modules[module].degrees;
      std::uint64_t fewest = ~std::uint64_t{0};
      for (std::size_t degree = 0; degree < degrees.size(); ++degree) {
        auto const all = choices.of(module);
        auto const choice =
            std::find_if(all.begin(), all.end(),
                         [degree](stage_choice const& each) { return each.degree == degree; });
        bool any = false;
        for (std::uint32_t pp = 1; pp <= model.modules[module].layers; ++pp) {
          std::uint64_t least = 0;
          for (std::uint64_t parts = problem.global_batch; parts >= 1; --parts) {
            if (memory.bytes(module, degree, pp, pp + after, parts) > problem.memory_bytes) {
              break;
            }
            least = parts;
          }
          bool const usable = degrees[degree].tp <= problem.gpus;
          if (!usable || choice == all.end()) {
            EXPECT_TRUE(!usable || least == 0);
            continue;
          }
          EXPECT_EQ(choice->least_parts[pp], least == 0 ? stage_choice::never : least);
          if (least != 0 && !any) {
            EXPECT_EQ(choice->fewest_stages, pp);
            fewest = std::min(fewest, std::uint64_t{choice->tp} * pp);
          }
          any = any || least != 0;
        }
      }
      EXPECT_EQ(choices.fewest_gpus(module), fewest);
    }
  }
}

TEST(StageChoices, ListsDivisorsThatCanBeStages)
{
  ballast::module_profile module{
      .name = "m", .layers = 6, .flops = {.linear = 10}, .degrees = {{.tp = 1}}};
  ballast::tokens const size = 3;
  ballast::layout_problem problem;
  problem.modules = {&module, 1};
  problem.sizes = {&size, 1};
  problem.gpus = 24;
  stage_memory memory(problem);
  stage_choices const choices(problem, memory);
  EXPECT_THAT(choices.divisors(24), testing::ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(choices.divisors(7), testing::ElementsAre(1));
  EXPECT_THAT(choices.divisors(1), testing::ElementsAre(1));
}

}  // namespace
