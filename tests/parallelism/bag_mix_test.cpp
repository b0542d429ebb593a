// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/bag_mix.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/cost/latency_fit.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

namespace {

using ballast::bag_exchange_work;
using ballast::bag_mix;
using ballast::bag_traffic;
using namespace ballast::literals;
using testing::HasSubstr;

TEST(BagMix, IsASpecificationOfLargerBagsFirst)
{
  constexpr bag_mix mix{{8, 0, 2, 1}};
  static_assert(mix.gpus() == 24);
  static_assert(mix.spec() == "g8n1+g4n2+g1n8"_bags);
  static_assert(!mix.is_uniform());
  static_assert(bag_mix{{0, 0, 6, 0}}.is_uniform());
  EXPECT_EQ(bag_mix{}.gpus(), 0U);
  EXPECT_EQ(bag_mix{}.spec().bags(), 0U);
}

TEST(BagMix, IsOrderedByTheSmallerBagsFirst)  // Ensures (1)
{
  EXPECT_LT((bag_mix{{0, 4, 0, 0}}), (bag_mix{{2, 3, 0, 0}}));
  EXPECT_LT((bag_mix{{0, 0, 0, 1}}), (bag_mix{{0, 0, 2, 0}}));
}

// A token of 10 kB in the heads of two layers and 4 kB in routes; a unit is a nanosecond.
constexpr bag_traffic sent_per_token{.layers = 2,
                                     .head_bytes_per_token_and_layer = 5'000,
                                     .all_to_alls_per_layer = 2,
                                     .routed_bytes_per_token = 4'000,
                                     .routes = 2,
                                     .units_per_second = 1e9};

TEST(BagExchangeWork, IsWhatTheLinksTake)
{
  auto machines = ballast::cluster_of({8, 4}).value();
  auto const priced = ballast::price_bag_exchanges(sent_per_token, machines).value();
  // Of 144 pairs of GPUs 64 + 16 are in one node, 12 of these one GPU with itself.
  double const inside = 4'000.0 * 68 / 144 / 450e9;
  double const across = 4'000.0 * 64 / 144 / 50e9;
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    double const gpus = bag_mix::gpus_of(size);
    double const heads = 10'000 * (gpus - 1) / gpus / 450e9;
    double const nanoseconds = 1e9 * (heads + std::max(inside, across));
    EXPECT_NEAR(static_cast<double>(priced.per_token[size]), nanoseconds * 1048576, 3) << size;
    EXPECT_EQ(priced.once[size], size == 0 ? 20'000 : 60'000);  // two routes, four all-to-alls
  }
}

TEST(BagExchangeWork, DoesNotFallWithTheSize)  // Ensures (2)
{
  auto const priced =
      ballast::price_bag_exchanges(sent_per_token, ballast::cluster_of(64).value()).value();
  EXPECT_TRUE(std::ranges::is_sorted(priced.per_token));
}

TEST(BagExchangeWork, IsRoundedUp)
{
  bag_exchange_work exchanges;
  exchanges.per_token[1] = 1;
  exchanges.per_sample[1] = 1 << 19;
  EXPECT_EQ(exchanges.work(1, 0, 0), 0);
  EXPECT_EQ(exchanges.work(1, 1, 0), 1);
  EXPECT_EQ(exchanges.work(1, 1 << 20, 0), 1);
  EXPECT_EQ(exchanges.work(1, (1 << 20) + 1, 0), 2);
  EXPECT_EQ(exchanges.work(1, 1 << 20, 2), 2);
  EXPECT_EQ(exchanges.work(1, 1 << 20, 3), 3);
}

TEST(BagExchangeWork, RoutesOnceForAllLayers)
{
  auto traffic = sent_per_token;
  traffic.head_bytes_per_token_and_layer = 0;
  auto const machines = ballast::cluster_of(8).value();
  auto const few = ballast::price_bag_exchanges(traffic, machines).value();
  traffic.layers = 57;
  auto const many = ballast::price_bag_exchanges(traffic, machines).value();
  EXPECT_EQ(few.per_token, many.per_token);
  EXPECT_EQ(many.once[3] - many.once[0], 57 * 20'000);  // two all-to-alls in each layer
}

TEST(BagExchangeWork, IsWhatTheFitSaysOfAStep)
{
  ballast::step_fit const fit{.compute = {.seconds_per_call = 3e-3},
                              .seconds_per_exchanged_token = 2e-6,
                              .seconds_per_sequence = 5e-5};
  auto const priced = ballast::price_bag_exchanges(fit).value();
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    std::uint32_t const gpus = bag_mix::gpus_of(size);
    ballast::step_fit::measurement const step{
        .length_sum = 70'000, .square_sum = 0, .sequences = 9, .gpus = gpus};
    auto const work = static_cast<double>(priced.work(size, step.length_sum, step.sequences));
    EXPECT_NEAR(work / gpus + static_cast<double>(priced.once[size]),
                1e9 * fit.seconds({.linear = 1, .quadratic = 1}, step), 1);
  }
  EXPECT_FALSE(ballast::price_bag_exchanges({.compute = {}, .seconds_per_exchanged_token = -1e-9}));
  EXPECT_FALSE(ballast::price_bag_exchanges({.compute = {}, .seconds_per_sequence = 2e3}));
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
  sent.head_bytes_per_token_and_layer = std::uint64_t{1} << 31;
  EXPECT_THAT(refused(sent, machines), HasSubstr("2^32 bytes or more"));
  EXPECT_EQ(refused({.layers = 1}, machines), "none");
  EXPECT_THAT(refused({}, machines), HasSubstr("for how many layers"));
}

}  // namespace
