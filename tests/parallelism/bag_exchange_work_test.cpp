// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/bag_exchange_work.hpp>  // first: proves it is self-contained

#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/topology/cluster.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace {

using ballast::bag_exchange_work;
using ballast::bag_mix;
using ballast::bag_traffic;
using testing::HasSubstr;

// A token of 10 kB in heads and 4 kB in routes; a unit is a nanosecond.
constexpr bag_traffic sent_per_token{.head_bytes_per_token = 10'000,
                                     .all_to_alls = 4,
                                     .routed_bytes_per_token = 4'000,
                                     .routes = 2,
                                     .units_per_second = 1e9};

TEST(BagExchangeWork, IsWhatTheLinksTake)
{
  auto machines = ballast::cluster_of({8, 4}).value();
  auto const priced = ballast::price_bag_exchanges(sent_per_token, machines);
  ASSERT_TRUE(priced) << priced.error().message;
  // Of 144 pairs of GPUs 64 + 16 are in one node, 12 of these one GPU with itself.
  double const inside = 4'000.0 * 68 / 144 / 450e9;
  double const across = 4'000.0 * 64 / 144 / 50e9;
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    double const gpus = bag_mix::gpus_of(size);
    double const heads = 10'000 * (gpus - 1) / gpus / 450e9;
    double const nanoseconds = 1e9 * (heads + std::max(inside, across));
    EXPECT_NEAR(static_cast<double>(priced->per_token[size]), nanoseconds * 1048576, 3) << size;
    EXPECT_EQ(priced->once[size], size == 0 ? 20'000 : 60'000);  // two routes, four all-to-alls
  }
}

TEST(BagExchangeWork, DoesNotFallWithTheSize)  // Ensures (2)
{
  auto const priced = ballast::price_bag_exchanges(sent_per_token, ballast::cluster_of(64).value());
  ASSERT_TRUE(priced);
  EXPECT_TRUE(std::ranges::is_sorted(priced->per_token));
}

TEST(BagExchangeWork, IsRoundedUp)
{
  bag_exchange_work exchanges;
  exchanges.per_token[1] = 1;
  EXPECT_EQ(exchanges.work(1, 0), 0);
  EXPECT_EQ(exchanges.work(1, 1), 1);
  EXPECT_EQ(exchanges.work(1, 1 << 20), 1);
  EXPECT_EQ(exchanges.work(1, (1 << 20) + 1), 2);
}

TEST(BagExchangeWork, RefusesWhatIsNoSpeed)  // Errors
{
  auto const refused = [](bag_traffic const& sent, ballast::cluster const& machines) {
    auto const priced = ballast::price_bag_exchanges(sent, machines);
    return priced ? std::string("none") : priced.error().message;
  };
  auto const machines = ballast::cluster_of(8).value();
  auto other = machines;
  other.between_nodes_bytes_per_second = 0.25;
  EXPECT_THAT(refused(sent_per_token, other),
              HasSubstr("a bandwidth of the cluster is not from 1"));
  other = machines;
  other.latency_seconds = std::numeric_limits<double>::infinity();
  EXPECT_THAT(refused(sent_per_token, other), HasSubstr("have to be numbers from 0 on"));
  auto sent = sent_per_token;
  sent.units_per_second = -1;
  EXPECT_THAT(refused(sent, machines), HasSubstr("have to be numbers from 0 on"));
  sent.units_per_second = 1e22;
  EXPECT_THAT(refused(sent, machines), HasSubstr("takes 2^40 cost units or more"));
  sent = sent_per_token;
  sent.head_bytes_per_token = std::uint64_t{1} << 32;
  EXPECT_THAT(refused(sent, machines), HasSubstr("2^32 bytes or more"));
  EXPECT_EQ(refused({}, machines), "none");
}

}  // namespace
