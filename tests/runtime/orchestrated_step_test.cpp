// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/orchestrated_step.hpp>

#include "../support/test.hpp"

namespace {

using ballast::bag_id;
using ballast::orchestrated_step;
using ballast::sample_id;

orchestrated_step small_step()
{
  orchestrated_step step;
  step.lengths = {5};
  step.planned.owner = {bag_id{0}};
  step.modalities.resize(2);
  step.modalities[0].lengths = {8};
  step.modalities[0].parts = {{sample_id{0}, 1, 4}};
  step.modalities[0].planned.owner = {bag_id{1}};
  return step;
}

TEST(OrchestratedStep, HasADigestThatDiffersWhereRanksWouldMoveOtherRows)
{
  std::uint64_t const same = small_step().digest();
  EXPECT_EQ(small_step().digest(), same);
  auto const differs = [same](auto const& change) {
    orchestrated_step step = small_step();
    change(step);
    return step.digest() != same;
  };
  EXPECT_TRUE(differs([](auto& step) { step.planned.owner[0] = bag_id{1}; }));
  EXPECT_TRUE(differs([](auto& step) { step.lengths[0] = 6; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].planned.owner[0] = bag_id{0}; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].lengths[0] = 7; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].parts[0].first = 0; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].parts[0].count = 3; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities.resize(3); }));
}

}  // namespace
