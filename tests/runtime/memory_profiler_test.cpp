// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/module_profile.hpp>

#include "../support/test.hpp"

#include <ballast/runtime/model_profiler.hpp>

namespace {

using ballast::held_bytes;
using ballast::memory_point;
using ballast::memory_probe;
using ballast::profile_file;
using ballast::profile_memory;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MemoryProfiler, MeasuresTwoNumbersOfLayersAtTwoSizes)
{
  profile_file file;
  std::vector<memory_probe> probes;
  auto const measure = [&](memory_probe const& probe) {
    probes.push_back(probe);
    auto const size = static_cast<std::uint64_t>(probe.size);
    return held_bytes{100 * probe.layers / probe.tp + size / 10, probe.layers * size / probe.tp};
  };
  std::array<ballast::parallel_degree, 2> const degrees = {{{1}, {2}}};
  ASSERT_TRUE(profile_memory(file, "llm", degrees, {2, 4}, {10, 20}, measure));
  EXPECT_EQ(probes.size(), 8U);
  EXPECT_EQ(probes[1], (memory_probe{1, 2, 20}));
  auto const& second = file.modules.at(0).degrees.at(1);
  EXPECT_THAT(second.state, ElementsAre(memory_point{2, 0, 102}, memory_point{4, 0, 202}))
      << "the larger of two";
  EXPECT_THAT(second.activations, ElementsAre(memory_point{2, 10, 10}, memory_point{2, 20, 20},
                                              memory_point{4, 10, 20}, memory_point{4, 20, 40}));

  // Once more, with a group that is new.
  std::array<ballast::parallel_degree, 2> const more = {{{2}, {2, 2, 4}}};
  ASSERT_TRUE(profile_memory(file, "llm", more, {2, 4}, {10, 20}, measure));
  EXPECT_EQ(probes.size(), 12U);
  EXPECT_EQ(probes.back(), (memory_probe{2, 4, 20, 2, 4}));
  ASSERT_EQ(file.modules[0].degrees.size(), 3U);
  EXPECT_EQ(degree_of(file.modules[0].degrees[2]), more[1]);
}

TEST(MemoryProfiler, RefusesWhatIsNoPairOfLines)
{
  profile_file file;
  std::array<ballast::parallel_degree, 1> const degrees{};
  auto const nothing = [](memory_probe const&) { return held_bytes(); };
  EXPECT_THAT(profile_memory(file, "llm", degrees, {2, 2}, {1, 2}, nothing).error().message,
              HasSubstr("measure two numbers of layers"));
  EXPECT_THAT(profile_memory(file, "llm", degrees, {1, 2}, {2, 1}, nothing).error().message,
              HasSubstr("measure two sizes"));
}

TEST(MemoryProfiler, AddsNothingOfADegreeThatFails)
{
  profile_file file;
  std::array<ballast::parallel_degree, 1> const degrees{};
  auto const fails = [](memory_probe const& probe) -> ballast::result<held_bytes> {
    if (probe.layers == 4) {
      return ballast::fail(ballast::error_code::transport, 2, "out of memory");
    }
    return held_bytes{1, 1};
  };
  auto const refused = profile_memory(file, "llm", degrees, {2, 4}, {10, 20}, fails);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "out of memory");
  EXPECT_TRUE(file.modules[0].degrees[0].state.empty());
}

}  // namespace
