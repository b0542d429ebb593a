// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/bag_places.hpp>  // first: proves it is self-contained

#include "../../support/planned_mix.hpp"

#include <ballast/core/random.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/topology/cluster.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace {

using ballast::bag_mix;
using ballast::detail::bag_places;

TEST(BagPlaces, AreThoseThatLayOutFinds)
{
  ballast::random_source random(22);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<std::uint32_t> nodes(1 + random.below(3));
    for (std::uint32_t& gpus : nodes) { gpus = static_cast<std::uint32_t>(1 + random.below(12)); }
    auto const machines = ballast::cluster_of(nodes).value();
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << machines.gpus() << " GPUs");
    auto const largest = bag_mix::gpus_of(random.below(bag_mix::sizes));
    bag_places const places(machines.nodes, largest);
    std::set<bag_mix> expected;
    for (bag_mix const& mix :
         ballast_test::all_mixes(static_cast<std::uint32_t>(machines.gpus()))) {
      bool const fits = mix.spec().groups().front().gpus <= largest &&
                        ballast_test::layout_inside_nodes(mix, machines).has_value();
      if (fits) { expected.insert(mix); }
      bag_mix completed = mix;
      completed.bags[0] = 7;
      EXPECT_EQ(places.complete(completed), fits);
      if (fits) { EXPECT_EQ(completed, mix); }
    }
    std::vector<bag_mix> visited;
    places.for_each(1, [&](bag_mix const& mix) { visited.push_back(mix); });
    EXPECT_EQ(visited.size(), expected.size());
    EXPECT_EQ(std::set<bag_mix>(visited.begin(), visited.end()), expected);
    EXPECT_EQ(places.count(1'000'000), expected.size());
    EXPECT_EQ(places.count(3), std::min<std::size_t>(expected.size(), 3));
  }
}

TEST(BagPlaces, CountMixesAsTheyAreKnown)
{
  EXPECT_EQ(bag_places(ballast::cluster_of(32).value().nodes, 8).count(10'000), 165U);
  EXPECT_EQ(bag_places(ballast::cluster_of(64).value().nodes, 8).count(10'000), 969U);
}

TEST(BagPlaces, KeepToTheGridAndToWhatFits)
{
  bag_places const places(ballast::cluster_of({8, 8, 8, 8, 5}).value().nodes, 8);
  std::set<bag_mix> visited;
  places.for_each(16, [&](bag_mix const& mix) {
    EXPECT_EQ(mix.gpus(), 37U);
    EXPECT_TRUE(mix.bags[3] % 2 == 0 || mix.bags[3] == 4);
    EXPECT_TRUE(visited.insert(mix).second);
  });
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    EXPECT_TRUE(visited.contains(places.most_of(size))) << size;
  }
  EXPECT_EQ(places.most_of(3), (bag_mix{{1, 0, 1, 4}}));
  EXPECT_EQ(places.most_of(1), (bag_mix{{1, 18, 0, 0}}));
}

}  // namespace
