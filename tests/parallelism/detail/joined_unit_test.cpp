// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/joined_unit.hpp>  // first: proves it is self-contained

#include "../../support/trials.hpp"
#include "../../support/unit_chain.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::detail::joined_unit;

TEST(JoinedUnit, KeepsWhatTheSimulatedPipelineKeeps)  // Ensures (1)
{
  ballast::random_source random(31);
  int const trials = ballast_test::trials_of(400);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const units = ballast_test::random_units(random);
    std::uint64_t const microbatches = 1 + random.below(24);
    std::size_t virtual_stages = 0;
    std::size_t rank = 0;
    for (auto const& each : units) {
      virtual_stages += each.stages * each.virtual_stages;
      rank += each.stages;
    }
    auto const peaks = ballast_test::simulated_peaks(units, microbatches,
                                                     std::vector<std::uint64_t>(virtual_stages, 1));
    std::uint64_t behind = 0;
    for (std::size_t at = units.size(); at-- > 0;) {
      joined_unit const unit{units[at].stages, units[at].virtual_stages, microbatches};
      auto const end = peaks.begin() + static_cast<std::ptrdiff_t>(rank);
      rank -= units[at].stages;
      auto const first = peaks.begin() + static_cast<std::ptrdiff_t>(rank);
      ASSERT_EQ(unit.kept(behind), *first);
      ASSERT_EQ(*first, *std::max_element(first, end)) << "the first stage keeps most";
      behind = unit.depth(behind);
    }
  }
}

TEST(JoinedUnit, KeepsNoLessWithMoreStagesBehind)  // Ensures (2)
{
  for (std::uint64_t parts = 1; parts <= 4; ++parts) {
    for (std::uint64_t microbatches = 1; microbatches <= 24; ++microbatches) {
      for (std::uint64_t stages = 1; stages <= 12; ++stages) {
        for (std::uint64_t behind = 0; behind <= 12; ++behind) {
          joined_unit const unit{stages, parts, microbatches};
          joined_unit const longer{stages + 1, parts, microbatches};
          EXPECT_LE(unit.kept(behind), unit.kept(behind + 1));
          EXPECT_LE(unit.depth(behind), unit.depth(behind + 1));
          EXPECT_LE(unit.kept(behind), longer.kept(behind));
          EXPECT_LE(unit.depth(behind), longer.depth(behind));
          std::uint64_t const most = unit.kept(behind);
          EXPECT_EQ(unit.kept(unit.most_behind(most)), most);
          EXPECT_GE(unit.most_behind(most), std::min(behind, microbatches));
          EXPECT_LE(unit.kept(unit.most_behind(most + 1)), most + 1);
        }
      }
    }
  }
}

}  // namespace
