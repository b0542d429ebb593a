#include <ballast/partition/packing/detail/kind_program.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::priced_sample;
using ballast::detail::kind_program;
using ballast::detail::weight_kinds;

TEST(KindProgram, PlansAndPricesTwoKinds)
{
  // 1,000 each of 4 and 3 in bins of 10: 500 of 4 + 3 + 3, and 250 of 4 + 4.
  std::vector<priced_sample> samples;
  for (std::uint32_t sample = 0; sample < 2000; ++sample) {
    samples.push_back({sample < 1000 ? 4 : 3, ballast::sample_id{sample}});
  }
  ballast::workspace memory;
  auto scratch = memory.open();
  kind_program program(30, scratch);
  weight_kinds kinds(30, scratch);
  kinds.list(samples, 10, true);
  ballast::detail::work_budget nodes(1 << 20);
  ASSERT_TRUE(program.solve(kinds, samples.size(), 700, nodes));
  EXPECT_EQ(kinds.bound(samples, 10, program.prices(), scratch), 750U);
  std::size_t bins = 0;
  std::vector<std::size_t> held(2, 0);
  program.for_each_pattern(
      [&](std::span<ballast::detail::pattern_entry const> pattern, std::size_t times) {
        bins += times;
        for (auto const [kind, count] : pattern) { held[kind] += count * times; }
      });
  EXPECT_EQ(bins, 750U);
  EXPECT_EQ(held, (std::vector<std::size_t>{1000, 1000}));
}

}  // namespace
