// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/deal_samples.hpp>  // first: proves it is self-contained

#include "../support/random_modules.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

namespace deal_samples_test {

using ballast::deal_samples;
using ballast::tokens;

TEST(DealSamples, GivesTheHeaviestSampleToTheLeastFullMicrobatch)  // Ensures (3)
{
  // Work is the size: 9, 6, 4, 3, 2, 1 to two microbatches of two groups.
  ballast::module_profile const module{
      .name = "llm", .layers = 1, .flops = {.linear = 3}, .degrees = {{.tp = 1}}};
  std::array<tokens, 6> const batch{1, 9, 6, 2, 3, 4};
  ballast::layout_problem problem;
  problem.modules = {&module, 1};
  auto const dealt = deal_samples(problem, {{{1, 1, 2}}, 2}, batch);
  EXPECT_EQ(dealt.groups, 2U);
  // 9; 6; 4; 3, then 2 to 3 and 1 to 4. The fullest two are the first turn.
  using testing::UnorderedElementsAre;
  auto const& rows = dealt.modules.at(0);
  ASSERT_EQ(rows.size(), 4U);
  using ballast::sample_id;
  EXPECT_THAT(rows[0], UnorderedElementsAre(sample_id{1}));
  EXPECT_THAT(rows[1], UnorderedElementsAre(sample_id{2}));
  std::vector<std::vector<sample_id>> second = {{rows[2].begin(), rows[2].end()},
                                                {rows[3].begin(), rows[3].end()}};
  EXPECT_THAT(second,
              testing::UnorderedElementsAre(UnorderedElementsAre(sample_id{5}, sample_id{0}),
                                            UnorderedElementsAre(sample_id{4}, sample_id{3})));
}

TEST(DealSamples, PutsEverySampleInOneMicrobatchOfAllModules)  // Ensures (1) (2)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < ballast_test::trials_of(300); ++trial) {
    std::size_t const modules = 1 + random.below(3);
    ballast::model_layout layout{{}, static_cast<std::uint32_t>(1 + random.below(6))};
    std::uint32_t const common = static_cast<std::uint32_t>(1 + random.below(3));
    for (std::size_t module = 0; module < modules; ++module) {
      layout.modules.push_back({1, 1, common * static_cast<std::uint32_t>(1 + random.below(4))});
    }
    auto const model = ballast_test::draw_model(
        random, modules, layout.microbatches * layout.modules.back().dp + random.below(50), true,
        1);
    ballast::layout_problem problem;
    problem.modules = model.modules;
    auto const dealt = deal_samples(problem, layout, model.sizes);
    std::size_t const samples = model.sizes.size() / modules;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::size_t> turn_of(samples, samples);
    for (std::size_t module = 0; module < modules; ++module) {
      std::size_t const replicas = layout.modules[module].dp / dealt.groups;
      std::vector<std::size_t> in_turn(layout.microbatches * dealt.groups, 0);
      std::size_t seen = 0;
      for (std::size_t row = 0; row < dealt.modules[module].size(); ++row) {
        for (ballast::sample_id const sample : dealt.modules[module][row]) {
          std::size_t& turn = turn_of[to_index(sample)];
          if (module == 0) { turn = row / replicas; }
          EXPECT_EQ(turn, row / replicas);
          ++in_turn[row / replicas];
          ++seen;
        }
      }
      EXPECT_EQ(seen, samples);
      EXPECT_THAT(in_turn, testing::Each(testing::Ge(1U)));
    }
  }
}

}  // namespace deal_samples_test
