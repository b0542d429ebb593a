// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/unit_options.hpp>  // first: proves it is self-contained

#include "../../support/small_orchestration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using ballast::module_layout;
using ballast::detail::keep_front;
using ballast::detail::unit_case;
using ballast::detail::unit_option;
using ballast::detail::unit_options;
using ballast::detail::unit_restrictions;
using testing::ElementsAre;

std::vector<module_layout> options_listed(unit_options const& options, std::size_t module,
                                          unit_case const& of)
{
  std::vector<module_layout> all;
  options.each(module, of, [&all](unit_option const& each) { all.push_back(each.layout); });
  return all;
}

TEST(UnitOptions, AreTheDegreesStagesAndReplicas)
{
  auto problem = ballast_test::small_orchestration();
  problem.global_batch = 4;
  unit_options const options(problem, {});
  EXPECT_EQ(options.cases().size(), 3U);
  EXPECT_EQ(options.cases()[1].llm_dp, 2U);
  EXPECT_EQ(options.cases()[1].tp, 0U);
  EXPECT_EQ(options.microbatches({.llm_dp = 2}), 2U);
  // Three stages of four layers are no better than two.
  EXPECT_THAT(options_listed(options, 1, {.llm_dp = 2}),
              ElementsAre(module_layout{1, 1, 2}, module_layout{1, 2, 2}, module_layout{1, 4, 2},
                          module_layout{2, 1, 2}, module_layout{2, 2, 2}, module_layout{2, 4, 2}));
  EXPECT_EQ(options_listed(options, 0, {.llm_dp = 2}).size(), 2U * 2U * 3U);
}

TEST(UnitOptions, KeepToWhatIsAsked)
{
  auto const problem = ballast_test::small_orchestration();
  unit_options const options(problem, {.has_one_degree = true, .has_one_stage = true, .pp = 3});
  EXPECT_EQ(options.cases().size(), 2U * 6U);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> cases;  // dp, tp
  for (unit_case const& each : options.cases()) { cases.emplace_back(each.llm_dp, each.tp); }
  EXPECT_TRUE(std::ranges::is_sorted(cases));
  EXPECT_EQ(std::ranges::adjacent_find(cases), cases.end());
  unit_case const of{.llm_dp = 4, .tp = 2};
  EXPECT_THAT(options_listed(options, 0, of), ElementsAre(module_layout{2, 1, 4}));
  EXPECT_THAT(options_listed(options, 1, of), ElementsAre(module_layout{2, 3, 4}));
  unit_options const of_one(problem, {.tp = 2});
  EXPECT_TRUE(of_one.has_degree(0, 2) && !of_one.has_degree(0, 1));
}

TEST(UnitOptions, FitWhereThereAreGpusAndMemory)
{
  auto const problem = ballast_test::small_orchestration();
  unit_options const options(problem, {});
  EXPECT_TRUE(options.fits(0, {.time = {1, 1}, .gpus = 16, .bytes = 1000}));
  EXPECT_FALSE(options.fits(0, {.time = {1, 1}, .gpus = 17, .bytes = 1000}));
  EXPECT_FALSE(options.fits(0, {.time = {1, 1}, .gpus = 16, .bytes = 1001}));
  EXPECT_FALSE(options.fits(0, {.time = {1, ballast::no_cost}, .gpus = 16, .bytes = 1}));
}

// A plain one: compares each with each.
std::vector<unit_option> plain_front(std::vector<unit_option> const& options)
{
  std::vector<unit_option> kept;
  for (unit_option const& each : options) {
    bool const is_replaced = std::ranges::any_of(options, [&each](unit_option const& other) {
      return other.gpus <= each.gpus && other.time.microbatch <= each.time.microbatch &&
             other.time.once <= each.time.once &&
             (other.gpus < each.gpus || other.time.once < each.time.once ||
              other.layout < each.layout);
    });
    if (!is_replaced) { kept.push_back(each); }
  }
  std::ranges::sort(kept, [](unit_option const& a, unit_option const& b) {
    return std::tie(a.time.once, a.gpus, a.layout) < std::tie(b.time.once, b.gpus, b.layout);
  });
  return kept;
}

TEST(KeepFront, KeepsWhatNothingReplaces)
{
  ballast::random_source random(3);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<unit_option> options;
    std::size_t const count = random.below(30);
    for (std::uint32_t each = 0; each < count; ++each) {
      options.push_back({.layout = {1, 1, each + 1},
                         .time = {random.between(0, 6), random.between(0, 6)},
                         .gpus = random.below(7)});
    }
    auto const expected = plain_front(options);
    keep_front(options);
    ASSERT_EQ(options.size(), expected.size());
    for (std::size_t each = 0; each < expected.size(); ++each) {
      EXPECT_EQ(options[each].layout, expected[each].layout);
    }
  }
}

}  // namespace
