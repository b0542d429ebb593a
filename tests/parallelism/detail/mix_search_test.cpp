// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/mix_search.hpp>  // first: proves it is self-contained

#include "../../support/planned_mix.hpp"

#include <ballast/core/random.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/parallelism/bag_exchange_work.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/detail/bag_places.hpp>
#include <ballast/parallelism/detail/mix_batches.hpp>
#include <ballast/parallelism/detail/mix_step.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace {

using ballast::bag_mix;
using ballast::detail::mix_search;
using ballast::detail::summed_mix;

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

ballast::detail::mix_batches batches_to_search(std::size_t gpus, std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::vector<ballast::sample_batch> batches(3);
  for (auto& batch : batches) {
    for (std::size_t sample = 0; sample < 3 * gpus; ++sample) {
      batch.lengths.push_back(random.between(8, 60) * random.between(1, 60));
    }
  }
  ballast::bag_exchange_work exchanges;
  exchanges.once = {0, 500, 500, 500};
  exchanges.per_token = {1 << 20, 90 << 20, 130 << 20, 150 << 20};
  ballast::quadratic_cost const cost{.linear = 1000, .quadratic = 1};
  return ballast::detail::read_mix_batches(std::span(batches), 0, exchanges, gpus, cost).value();
}

// Oracle: prices every mix to the end.
std::vector<summed_mix> all_summed(ballast::detail::mix_batches const& data, std::uint32_t gpus)
{
  std::vector<summed_mix> all;
  ballast::detail::mix_steps steps(data.exchanges);
  for (bag_mix const& mix : ballast_test::all_mixes(gpus)) {
    std::uint64_t placed = 0;
    all.push_back({steps.sum(mix, data.batches, placed), mix});
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(MixSearch, FindsTheBestOfAll)  // Ensures (1) (2)
{
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    constexpr std::uint32_t gpus = 24;
    auto const data = batches_to_search(gpus, seed);
    ballast::detail::bag_places const places(ballast::cluster_of(gpus).value().nodes, 8);
    mix_search search(data, places, false, 5, unlimited);
    auto const found = search.run(1000);
    EXPECT_TRUE(search.proven());
    auto const all = all_summed(data, gpus);
    ASSERT_GE(found.size(), 5U);
    for (std::size_t place = 0; place < 5; ++place) {
      EXPECT_EQ(found[place].sum, all[place].sum);
      EXPECT_EQ(found[place].mix, all[place].mix);
    }
    EXPECT_EQ(std::count_if(found.begin(), found.end(),
                            [](summed_mix const& each) { return each.mix.is_uniform(); }),
              4);
  }
}

TEST(MixSearch, ComesNearTheBestWhereItDoesNotTryAll)
{
  constexpr std::uint32_t gpus = 40;
  auto const data = batches_to_search(gpus, 3);
  ballast::detail::bag_places const places(ballast::cluster_of(gpus).value().nodes, 8);
  mix_search search(data, places, false, 5, unlimited);
  auto const found = search.run(10);
  EXPECT_FALSE(search.proven());
  EXPECT_LE(static_cast<double>(found.front().sum),
            1.01 * static_cast<double>(all_summed(data, gpus).front().sum));
}

TEST(MixSearch, StopsWhereTheWorkIsUsedUp)
{
  auto const data = batches_to_search(64, 1);
  ballast::detail::bag_places const places(ballast::cluster_of(64).value().nodes, 8);
  mix_search search(data, places, false, 1, 10);
  EXPECT_EQ(search.run(1000).size(), 4U);  // the uniform ones
  EXPECT_FALSE(search.proven());
  EXPECT_LE(search.placed(), 4 * data.samples);
}

}  // namespace
