// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_SHARDING_CHECKS_HPP
#define BALLAST_TESTS_SUPPORT_SHARDING_CHECKS_HPP

#include "sharding_oracles.hpp"  // defines: ballast_test::sharding_step

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/topology/device_groups.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast_test {

/// What a plan says of itself, worked out anew from its owners.
inline void expect_true_plan(ballast::sharding_plan const& plan, sharding_step const& step)
{
  ASSERT_EQ(plan.owner.size(), step.lengths.size());
  ASSERT_EQ(plan.samples.size(), step.groups.size());
  std::vector<ballast::cost_units> loads(step.groups.gpus(), 0);
  std::vector<ballast::tokens> held(step.groups.gpus(), 0);
  std::vector<ballast::tokens> rounded_up(step.groups.gpus(), 0);
  for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
    std::size_t const group = ballast::to_index(plan.owner[sample]);
    auto const time = step.time(sample, group);
    ASSERT_TRUE(time.has_value()) << "sample " << sample << " may not go to group " << group;
    ASSERT_EQ(plan.costs[sample], *time);
    ASSERT_TRUE(std::ranges::binary_search(plan.samples[plan.owner[sample]],
                                           ballast::to_id<ballast::sample_id>(sample)));
    auto const where = step.groups[plan.owner[sample]];
    for (std::uint32_t gpu = 0; gpu < where.gpus; ++gpu) {
      std::size_t const rank = ballast::to_index(where.first) + gpu;
      loads[rank] += *time;
      held[rank] += ballast::chunk_of(step.lengths[sample], where.gpus, gpu).count;
      rounded_up[rank] += step.share(sample, group);
    }
  }
  EXPECT_EQ(plan.loads, loads);
  EXPECT_EQ(plan.tokens_of, held);
  EXPECT_LE(*std::ranges::max_element(rounded_up), step.limit);
  EXPECT_EQ(plan.makespan, *std::ranges::max_element(loads));
  EXPECT_LE(plan.lower_bound, plan.makespan);
  EXPECT_EQ(plan.groups_digest, step.groups.digest());
  EXPECT_EQ(plan.lengths, step.lengths);
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_SHARDING_CHECKS_HPP
