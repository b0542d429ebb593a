// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "counted_allocations.hpp"
#include "instances.hpp"  // defines: ballast_test::policy_ref
#include "test.hpp"

#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace ballast_test {

/// Takes a step again and again; after the first, or the first few, none allocates.
template <class Step>
void expect_steady_state(Step const& step, int first_steps = 1)
{
  for (int round = 0; round < first_steps + 3; ++round) {
    std::size_t const before = allocations();
    bool const done = step();
    std::size_t const during = allocations() - before;
    ASSERT_TRUE(done) << "round " << round;
    if (round >= first_steps) { EXPECT_EQ(during, 0U) << "round " << round; }
  }
}

struct squared_length {
  ballast::cost_units operator()(ballast::tokens length) const { return length * length; }
};

/// A step that is planned again, in memory that has seen it, gets the same plan and allocates
/// nothing, and nor do others that are no larger. `given(lengths)` has their constraints.
template <class Cost = squared_length,
          class Constraints = ballast::placement_limits (*)(std::span<ballast::tokens const>)>
void expect_the_same_again_without_allocation(
    policy_ref const& policy, std::size_t samples, Cost const& cost = {},
    ballast::bag_layout const& bags = ballast::one_gpu_bags(24),
    Constraints const& given = [](std::span<ballast::tokens const>) {
      return ballast::placement_limits{};
    })
{
  ballast::random_source random(8);
  std::vector<ballast::tokens> lengths(samples);
  for (auto& length : lengths) { length = random.between(4, 900); }
  ballast::partition_plan plan;
  ballast::workspace memory;
  std::vector<std::uint64_t> digests;
  digests.reserve(8);
  expect_steady_state([&] {
    bool const done =
        ballast::partition_into(plan, memory, lengths, bags, cost, given(lengths), policy)
            .has_value();
    digests.push_back(plan.digest());
    if (digests.size() > 1) {
      lengths.pop_back();
      for (auto& length : lengths) { length = random.between(4, 900); }
    }
    return done;
  });
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace ballast_test
