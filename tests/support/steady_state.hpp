#ifndef BALLAST_TESTS_SUPPORT_STEADY_STATE_HPP
#define BALLAST_TESTS_SUPPORT_STEADY_STATE_HPP

#include "counted_allocations.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast_test {

/// A step that is planned again, in memory that has seen it, gets the same plan and allocates
/// nothing.
template <class Policy>
void expect_the_same_again_without_allocation(Policy const& policy, std::size_t samples)
{
  ballast::random_source random(8);
  std::vector<ballast::tokens> lengths(samples);
  for (auto& length : lengths) { length = random.between(1, 900); }
  auto const bags = ballast::one_gpu_bags(24);
  auto const cost = [](ballast::tokens length) { return length * length; };
  ballast::partition_plan plan;
  ballast::workspace memory;
  std::uint64_t first = 0;
  for (int step = 0; step < 3; ++step) {
    std::size_t const before = allocations();
    ASSERT_TRUE(ballast::partition_into(plan, memory, lengths, bags, policy, cost));
    if (step == 0) {
      first = plan.digest();
    } else {
      EXPECT_EQ(allocations(), before);
      EXPECT_EQ(plan.digest(), first);
    }
  }
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_STEADY_STATE_HPP
