// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/stage_memory.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::tokens;
using ballast::detail::stage_memory;

ballast::module_profile measured()
{
  ballast::module_profile module{
      .name = "m", .layers = 7, .flops = {.linear = 10}, .degrees = {{.tp = 1}}};
  module.degrees[0].memory = {
      .state_bytes = {100, 200}, .sizes = {0, 10}, .activation_bytes = {{{0, 50}, {0, 100}}}};
  return module;
}

TEST(StageMemory, SizesMicrobatchesByTheQuantileOfThoseThatFollowEachOther)
{
  auto const module = measured();
  ballast::random_source random(2);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<tokens> sizes(1 + random.below(9));
    for (tokens& each : sizes) { each = random.between(0, 50); }
    ballast::layout_problem problem;
    problem.modules = {&module, 1};
    problem.sizes = sizes;
    problem.global_batch = static_cast<std::uint32_t>(1 + random.below(40));
    problem.memory_quantile = {random.between(1, 4), 4};
    stage_memory memory(problem);
    auto const drawn = [&](std::uint64_t samples) {
      std::vector<tokens> all(sizes.size());
      for (std::size_t first = 0; first < sizes.size(); ++first) {
        for (std::uint64_t next = 0; next < samples; ++next) {
          all[first] += sizes[(first + next) % sizes.size()];
        }
      }
      std::sort(all.begin(), all.end());
      auto const share = static_cast<std::size_t>(problem.memory_quantile.numerator);
      return all[(all.size() * share + 3) / 4 - 1];
    };
    std::uint64_t const parts = 1 + random.below(60);
    std::uint64_t const samples = (problem.global_batch + parts - 1) / parts;
    EXPECT_EQ(memory.microbatch_size(0, parts), drawn(samples));

    tokens const largest = random.between(0, 200);
    std::uint64_t fitting = 0;
    while (fitting < problem.global_batch && drawn(fitting + 1) <= largest) { ++fitting; }
    std::uint64_t const expected =
        fitting == 0 ? 0 : (problem.global_batch + fitting - 1) / fitting;
    EXPECT_EQ(memory.least_parts(0, largest), expected);
  }
}

TEST(StageMemory, HoldsAStateAndTheMicrobatchesUnderWay)
{
  auto const module = measured();
  std::array<tokens, 1> const sizes{4};
  ballast::layout_problem problem;
  problem.modules = {&module, 1};
  problem.sizes = sizes;
  problem.global_batch = 6;
  problem.memory_bytes = 1000;
  stage_memory memory(problem);
  EXPECT_EQ(stage_memory::stage_layers(module, 3), 3U);
  EXPECT_EQ(stage_memory::stage_layers(module, 7), 1U);
  EXPECT_EQ(memory.bytes(0, 0, 3, 5, 3), 300U + 5 * 3 * 5 * 8);  // two samples of 4
  EXPECT_EQ(memory.largest_size(0, 0, 3, 5), 9);                 // 5 * 15 a size in 700
  EXPECT_EQ(memory.largest_size(0, 0, 1, 1), 8);
  problem.memory_bytes = 299;
  EXPECT_EQ(stage_memory(problem).largest_size(0, 0, 3, 5), -1);
  EXPECT_EQ(memory.bytes(0, 0, 1, std::numeric_limits<std::uint64_t>::max(), 1),
            std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
