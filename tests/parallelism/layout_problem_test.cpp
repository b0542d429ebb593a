// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_problem.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::layout_problem;
using testing::HasSubstr;

TEST(LayoutProblem, IsRefusedWhereItHasNoMeaning)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "llm", .layers = 4, .flops = {.linear = 10}, .degrees = {{.tp = 1}}};
  }
  std::array<ballast::tokens, 4> sizes{1, 200, 0, 300};
  layout_problem sound{.modules = modules, .sizes = sizes};
  EXPECT_TRUE(ballast::check_layout_problem(sound));
  EXPECT_EQ(sound.samples(), 2U);
  EXPECT_EQ(layout_problem{}.samples(), 0U);

  auto const said = [](layout_problem const& problem) {
    auto const checked = ballast::check_layout_problem(problem);
    EXPECT_FALSE(checked);
    return checked ? std::pair<std::size_t, std::string>()
                   : std::pair(checked.error().position, checked.error().message);
  };
  EXPECT_EQ(sound.fed_by(0), 1U);
  std::array<std::size_t, 2> const two_fed{1, 1};
  std::array<std::size_t, 1> const itself{0};
  std::array<std::size_t, 1> const none{2};
  layout_problem fed = sound;
  fed.feeds = two_fed;
  EXPECT_THAT(said(fed).second,
              HasSubstr("for 2 modules it is said which they feed; say it for 1"));
  fed.feeds = itself;
  EXPECT_THAT(said(fed).second, HasSubstr("module llm feeds module 0, counted from 0; give a later "
                                          "one, up to 1"));
  fed.feeds = none;
  EXPECT_EQ(said(fed).first, 0U);
  layout_problem problem = sound;
  problem.modules = {};
  EXPECT_THAT(said(problem).second, HasSubstr("no module"));
  modules[1].layers = 0;
  EXPECT_EQ(said(sound).first, 1U);
  EXPECT_THAT(said(sound).second, HasSubstr("module llm has no layers"));
  modules[1].layers = 4;
  problem = sound;
  problem.sizes = std::span(sizes).first(3);
  EXPECT_THAT(said(problem).second, HasSubstr("sizes has 3 entries for 2 modules"));
  problem.sizes = {};
  EXPECT_THAT(said(problem).second, HasSubstr("sizes has 0 entries for 2 modules"));
  sizes[3] = -1;
  EXPECT_EQ(said(sound).first, 3U);
  EXPECT_THAT(said(sound).second, HasSubstr("sample 1 has size -1 in module llm"));
  sizes[3] = 300;
  for (std::uint32_t const batch : {0U, layout_problem::most_global_batch + 1}) {
    problem = sound;
    problem.global_batch = batch;
    EXPECT_THAT(said(problem).second, HasSubstr("global batch of " + std::to_string(batch)));
  }
  problem = sound;
  problem.gpus = 0;
  EXPECT_THAT(said(problem).second, HasSubstr("a job of 0 GPUs on nodes of 8"));
  problem = sound;
  problem.gpus_per_node = 0;
  EXPECT_THAT(said(problem).second, HasSubstr("nodes of 0"));
  for (ballast::ratio const share : {ballast::ratio{-1, 8}, {9, 8}, {0, 0}}) {
    problem = sound;
    problem.gradient_share = share;
    EXPECT_THAT(said(problem).second, HasSubstr("gradients are to be "));
  }
  for (ballast::ratio const share : {ballast::ratio{0, 1}, {-1, 2}, {3, 2}, {1, 0}}) {
    problem = sound;
    problem.memory_quantile = share;
    EXPECT_THAT(said(problem).second, HasSubstr("give a share above 0, at most 1"));
  }
}

}  // namespace
