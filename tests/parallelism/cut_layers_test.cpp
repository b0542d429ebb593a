// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/cut_chain.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

namespace cut_layers_test {

using ballast::cut_layers;
using ballast::module_profile;
using ballast::stage_part;
using testing::ElementsAre;
using testing::HasSubstr;

// 10^9 FLOP a second on a GPU, so that a token of 1,000 FLOP takes a microsecond.
ballast::interpolated_throughput speed()
{
  std::array<ballast::tokens, 1> const size{1};
  std::array<double, 1> const flop{1e9};
  return *ballast::interpolated_throughput::make(size, flop);
}

module_profile profile_of(std::uint32_t layers)
{
  return {.name = "llm",
          .layers = layers,
          .flops = {.linear = 1000ULL * layers},
          .degrees = {{.tp = 1, .linear = speed()}}};
}

TEST(CutLayers, ShortensTheStepOfUnequalLayers)
{
  module_profile profile = profile_of(12);
  // [cut_layers]
  // Ten layers of cost 2, before them an embedding of 1, behind them head and loss of 9.
  std::vector<std::int64_t> costs(12, 2);
  costs.front() = 1;
  costs.back() = 9;
  profile = ballast::cut_layers(profile, costs).value();
  // profile.cuts[3] are the parts of four stages: the last has the head alone.
  // [cut_layers]
  EXPECT_THAT(profile.cuts[3],
              ElementsAre(stage_part{3, 5}, stage_part{4, 8}, stage_part{4, 8}, stage_part{1, 9}));

  // Four tokens a step in four microbatches on four GPUs. A token takes 12 us in all, of which the
  // stages' parts are 5, 8, 8 and 9 thirtieths.
  std::array<ballast::tokens, 1> const sizes{1};
  std::array<ballast::tokens, 4> const batch{1, 1, 1, 1};
  ballast::layout_problem const problem{
      .modules = {&profile, 1}, .sizes = sizes, .global_batch = 4, .gpus = 4};
  std::array<ballast::module_layout, 1> const four{{{.pp = 4}}};
  auto const layout = ballast::price_layout(problem, four, 4).value();
  EXPECT_EQ(layout.step, 7 * 3'600'000);  // (4 + 4 - 1) of the costliest stage's
  auto const simulated = ballast::simulate_layout(problem, layout, batch).value();
  // The costliest stage works for 4 x 3.6 us, before and after which the others take 21/30 of 12 us.
  EXPECT_EQ(simulated, 4 * 3'600'000 + 8'400'000);

  // In equal counts the head's stage has two layers more, of cost 4.
  profile.cuts[3] = {{3, 5}, {3, 6}, {3, 6}, {3, 13}};
  auto const in_equal_counts = ballast::simulate_layout(problem, layout, batch).value();
  EXPECT_EQ(in_equal_counts, 4 * 5'200'000 + 6'800'000);
  EXPECT_LT(simulated, in_equal_counts);
}

TEST(CutLayers, RefusesInASentence)  // Errors
{
  std::vector<std::int64_t> const two = {1, 2};
  EXPECT_EQ(cut_layers(profile_of(3), two).error().message,
            "module llm has 3 layers, and costs were given for 2; give one for each, the embedding "
            "and the head among them");
  std::vector<std::int64_t> const negative = {1, -2};
  EXPECT_EQ(cut_layers(profile_of(2), negative).error().position, 1U);
  std::vector<std::int64_t> const large = {1, std::int64_t{1} << 31};
  EXPECT_THAT(cut_layers(profile_of(2), large).error().message, HasSubstr("a coarser unit"));
  std::vector<std::int64_t> const none = {0, 0};
  EXPECT_THAT(cut_layers(profile_of(2), none).error().message, HasSubstr("all cost 0"));

  module_profile profile = cut_layers(profile_of(2), two).value();
  EXPECT_THAT(ballast::orchestrated_module_of(profile, 8).error().message,
              HasSubstr("an orchestration knows equal ones"));
  profile.cuts[1][0].layers = 2;
  EXPECT_THAT(ballast::check_profile(profile).error().message,
              HasSubstr("was cut for 2 stages into parts that are not its layers"));
  profile.layers = 3;
  EXPECT_THAT(ballast::check_profile(profile).error().message, HasSubstr("cut its layers anew"));
}

}  // namespace cut_layers_test
