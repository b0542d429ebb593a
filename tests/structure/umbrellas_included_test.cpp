// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm.hpp>

#include "../support/test.hpp"

#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/report.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>
#include <ballast/sharding.hpp>
#include <ballast/text.hpp>
#include <ballast/topology.hpp>
#include <ballast/workload.hpp>

namespace {

TEST(Umbrellas, CanBeIncludedTogether)
{
  EXPECT_EQ(ballast::to_index(ballast::rank_id{3}), 3U);
  static_assert(ballast::partition_policy<ballast::refine<>>);
}

}  // namespace
