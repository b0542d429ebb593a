// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/orchestrated_step.hpp>

#include "../support/test.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::padded_batches;
using ballast::quadratic_cost;

TEST(Phase, IsMadeOfWhatItIsGiven)
{
  ballast::phase const whole{ballast::one_gpu_bags(4), quadratic_cost{.linear = 3},
                             padded_batches{}, 4};
  static_assert(
      std::same_as<decltype(whole), ballast::phase<quadratic_cost, padded_batches> const>);
  EXPECT_EQ(whole.bags.gpus(), 4U);
  EXPECT_EQ(whole.cost_of(5), 15);
  EXPECT_EQ(whole.rate, 4U);
}

TEST(Phase, NeitherShortensNorCapsUnlessToldTo)
{
  auto const square = [](ballast::tokens length) { return length * length; };
  ballast::phase const plain{ballast::one_gpu_bags(1), square, padded_batches{}};
  EXPECT_EQ(plain.rate, 1U);
  EXPECT_EQ(plain.most_per_gpu, ballast::partition_constraints::no_limit);
  EXPECT_FALSE(plain.homes);
}

}  // namespace
