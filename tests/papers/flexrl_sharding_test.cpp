// SPDX-License-Identifier: Apache-2.0
// Hybrid sharding per sequence as in "FlexRL": how even it makes the work of the example and of the
// data that the paper gives, beside the paper's own method, descending lengths to the GPU with the
// fewest tokens. With exchanges at no price every sequence is split as far as heads allow, which the
// paper rejects, so both are judged with exchanges priced too.

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include "../support/sharding_strategies.hpp"
#include "../support/trials.hpp"
#include "on_page.hpp"

namespace {

using ballast::tokens;

/// Attention alone: pairs of tokens, split by 32 heads.
ballast::sharding_cost attention_of_32_heads()
{
  ballast::sharding_cost cost{.work = {.linear = 0, .quadratic = 1}, .heads = 32, .kv_heads = 8};
  return cost;
}

struct bucketing_ratios {
  double attention = 0;
  double held_tokens = 0;
};

/// Largest by mean of the GPUs, where each sequence is on the GPU with the fewest tokens so far.
bucketing_ratios ratios_of_bucketing(std::vector<tokens> const& lengths, std::size_t gpus)
{
  auto const plan =
      ballast::partition(lengths, ballast::one_gpu_bags(gpus), ballast::quadratic_cost{1}, {},
                         ballast::longest_processing_time{})
          .value();
  std::vector<double> attention(gpus, 0.0);
  std::vector<double> held(gpus, 0.0);
  for (std::size_t each = 0; each < lengths.size(); ++each) {
    auto const length = static_cast<double>(lengths[each]);
    attention[ballast::to_index(plan.owner[each])] += length * length;
    held[ballast::to_index(plan.owner[each])] += length;
  }
  auto const ratio = [&](std::vector<double> const& of) {
    return std::ranges::max(of) * static_cast<double>(gpus) /
           std::accumulate(of.begin(), of.end(), 0.0);
  };
  return {ratio(attention), ratio(held)};
}

TEST(FlexrlSharding, MakesAttentionAndTokensOfTheExampleEven)
{
  std::vector<tokens> lengths{32768, 16384, 16384};
  lengths.resize(11, 8192);
  ballast::device_groups const groups(ballast::node_sizes::equal(1, 4), 4);
  auto const plan =
      ballast::hybrid_sharding(lengths, groups, attention_of_32_heads(), 32768).value();
  EXPECT_EQ(plan.balance_ratio(), 1.0);
  EXPECT_EQ(plan.token_balance_ratio(), 1.0);
  auto const bucketing = ratios_of_bucketing(lengths, 4);
  EXPECT_EQ(bucketing.attention, 2.0);
  EXPECT_EQ(bucketing.held_tokens, 1.0);
}

TEST(FlexrlSharding, MakesAttentionOfNextQaEven)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA names no folder of real length traces"; }
  auto videos = ballast_test::rollout_groups(data, true);
  ASSERT_EQ(videos.size(), 1570U);
  ballast::device_groups const groups(ballast::node_sizes::equal(16, 8), 32);
  ballast::random_source random(7);
  ballast::sharding_plan plan;
  ballast::workspace memory;
  double worst = 0;
  double worst_of_bucketing = 0;
  for (int step = 0; step < ballast_test::trials_of(50); ++step) {
    auto const lengths = ballast_test::draw_rollouts(videos, 384, random);
    ASSERT_TRUE(hybrid_sharding_into(plan, memory, lengths, groups, attention_of_32_heads()));
    worst = std::max(worst, plan.balance_ratio());
    worst_of_bucketing = std::max(worst_of_bucketing, ratios_of_bucketing(lengths, 128).attention);
  }
  RecordProperty("worst", std::to_string(worst));
  RecordProperty("worst_of_bucketing", std::to_string(worst_of_bucketing));
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.2f in buckets, %.4f here", worst_of_bucketing, worst);
  ballast_test::expect_on_page(text.data());
  EXPECT_LE(worst, 1.05);
  EXPECT_GT(worst_of_bucketing, ballast_test::is_sanitized ? 5 : 6);  // the paper says 7.5
}

/// Figure 2, in the middle, with exchanges priced: nobody waits four times as long, and not all rows
/// are exchanged.
TEST(FlexrlSharding, MakesTheExampleEvenAtThePriceOfExchanges)
{
  std::vector<tokens> lengths{32768, 16384, 16384};
  lengths.resize(11, 8192);
  auto const machines = ballast::cluster_of(4).value();
  auto const cost = ballast_test::trained_llama(machines);
  ballast::device_groups const groups(machines.nodes, cost.heads);
  auto const plan = ballast::hybrid_sharding(lengths, groups, cost, 32768).value();
  auto const ours = ballast_test::outcome_of(lengths, plan.owner, groups, cost);
  auto const buckets =
      ballast_test::outcome_of(lengths, ballast_test::one_degree(lengths, groups, 1), groups, cost);
  auto const all =
      ballast_test::outcome_of(lengths, ballast_test::one_degree(lengths, groups, 4), groups, cost);
  EXPECT_EQ(buckets.attention, 2.0);
  EXPECT_LE(ours.balance, 1.02);
  EXPECT_LE(ours.attention, 1.05);
  ballast_test::expect_on_page(ballast_test::figures({ours.slowest / buckets.slowest}) +
                               " of the time of buckets");
  EXPECT_LT(ours.slowest, all.slowest);
  EXPECT_LE(ours.exchanged, all.exchanged / 2);
}

/// Figure 5: attention of the busiest GPU by the mean, up to 7.5 in the paper's buckets. What is even
/// here is time with exchanges in it, so attention is not quite.
TEST(FlexrlSharding, MakesNextQaAndGroupsEvenAtThePriceOfExchanges)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA names no folder of real length traces"; }
  auto const machines = ballast::cluster_of(128).value();
  auto const cost = ballast_test::trained_llama(machines);
  ballast::device_groups const groups(machines.nodes, cost.heads);
  int const steps = ballast_test::trials_of(10);
  for (bool const has_videos : {true, false}) {
    auto drawn = ballast_test::rollout_groups(data, has_videos);
    ballast::random_source random(7);
    double exchanged = 0;
    double worst_of_buckets = 0;
    for (int step = 0; step < steps; ++step) {
      SCOPED_TRACE(testing::Message() << (has_videos ? "NExT-QA" : "groups") << ", step " << step);
      auto const lengths = ballast_test::draw_rollouts(drawn, 384, random);
      auto const plan = ballast::hybrid_sharding(lengths, groups, cost).value();
      auto const of = [&](std::span<ballast::group_id const> owner) {
        return ballast_test::outcome_of(lengths, owner, groups, cost);
      };
      auto const ours = of(plan.owner);
      EXPECT_LE(ours.balance, 1.05);
      EXPECT_NEAR(ours.slowest, static_cast<double>(plan.makespan), 1);
      for (std::uint32_t const degree : {1U, 8U, 32U}) {  // 32: as far as heads allow
        EXPECT_LT(ours.slowest, of(ballast_test::one_degree(lengths, groups, degree)).slowest);
      }
      auto const buckets = of(ballast_test::one_degree(lengths, groups, 1));
      EXPECT_LT(ours.attention, buckets.attention);
      worst_of_buckets = std::max(worst_of_buckets, buckets.attention);
      exchanged += ours.exchanged / steps;
    }
    EXPECT_LE(exchanged, has_videos ? 0.6 : 0.25);  // 0.97 of 32 GPUs for all
    EXPECT_GT(worst_of_buckets, ballast_test::is_sanitized ? 3 : 5.5);
  }
}

}  // namespace
