// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/concepts.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;

TEST(NoLength, LetsEveryBagTakeSamplesThatNoneSplits)
{
  std::vector<std::string> const samples{"a", "bbb", "cc"};
  auto const cost = [](std::string const& text) { return static_cast<int>(text.size()); };
  auto const plan =
      partition(samples, one_gpu_bags(2), longest_processing_time{}, cost, no_length{}).value();
  EXPECT_EQ(plan.makespan.numerator, 3);
}

}  // namespace
