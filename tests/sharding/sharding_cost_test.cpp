// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/sharding_cost.hpp>  // first: proves it is self-contained

#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/topology/cluster.hpp>

namespace {

using namespace ballast;

TEST(ShardingCost, KnowsHowGroupsLieOnNodes)
{
  std::vector<std::uint32_t> const sizes{6, 8, 5};
  node_sizes const nodes(sizes);
  EXPECT_EQ(shape_of(device_group{rank_id{2}, 2}, nodes), (group_shape{2, 2, 2}));
  EXPECT_EQ(shape_of(device_group{rank_id{0}, 6}, nodes), (group_shape{6, 6, 6}));
  EXPECT_EQ(shape_of(device_group{rank_id{0}, 14}, nodes), (group_shape{14, 6, 8}));
  EXPECT_EQ(shape_of(device_group{rank_id{18}, 1}, nodes), (group_shape{1, 1, 1}));
}

TEST(ShardingCost, SplitsTokensEvenlyAndAttentionByHeads)
{
  sharding_cost const cost{.work = {.linear = 6, .quadratic = 12}, .heads = 12};
  EXPECT_EQ(cost.at({1, 1, 1})(10), 60 + 1200);
  EXPECT_EQ(cost.at({2, 2, 2})(10), 30 + 600);
  EXPECT_EQ(cost.at({6, 6, 6})(10), 10 + 200);
  EXPECT_EQ(cost.at({8, 8, 8})(10), 8 + 200);  // 7.5 rounded; two of twelve heads on most GPUs
  EXPECT_EQ(cost.at({8, 8, 8})(0), 0);
  EXPECT_EQ(cost.at({8, 8, 8})(-1), no_cost);
}

/// The formula in floating point, GPU by GPU.
double exchange_seconds(sharding_cost const& cost, tokens length,
                        std::vector<std::uint32_t> const& in_nodes)
{
  double gpus = 0;
  for (std::uint32_t const here : in_nodes) { gpus += here; }
  double const kv_heads = std::min<double>(cost.heads, std::max<double>(cost.kv_heads, gpus));
  double const row = 2 * (cost.heads + kv_heads) * static_cast<double>(cost.bytes_per_head);
  double const to_each = static_cast<double>(length) / gpus * row / gpus;
  double longest = 0;
  for (std::uint32_t const here : in_nodes) {
    double const within = to_each * (here - 1);
    double const between = to_each * (gpus - here);
    longest = std::max({longest, within / static_cast<double>(cost.within_node_bytes_per_second),
                        between / static_cast<double>(cost.between_nodes_bytes_per_second)});
  }
  return longest;
}

TEST(ShardingCost, AddsWhatTheSlowestGpuExchanges)  // Ensures (1)
{
  random_source random(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::uint32_t> sizes(1 + random.below(4));
    for (auto& size : sizes) { size = 1 + static_cast<std::uint32_t>(random.below(8)); }
    node_sizes const nodes(sizes);
    auto const gpus = static_cast<std::uint32_t>(nodes.gpus());
    sharding_cost cost;
    cost.work = {
        .linear = random.below(1 << 20), .quadratic = random.below(99), .fraction_bits = 4};
    cost.heads = gpus + static_cast<std::uint32_t>(random.below(9));
    cost.kv_heads = 1 + static_cast<std::uint32_t>(random.below(cost.heads));
    cost.bytes_per_head = random.below(1 << 20);
    cost.within_node_bytes_per_second = 1 + random.below(std::uint64_t{1} << 40);
    cost.between_nodes_bytes_per_second = 1 + random.below(std::uint64_t{1} << 36);
    cost.units_per_second = 1 + random.below(1'000'000'000'000);
    cost.latency = random.between(0, 1000);
    tokens const length = random.between(1, 100'000);
    auto const l = static_cast<double>(length);
    double expected = static_cast<double>(cost.work(length));
    if (gpus > 1) {
      double const share = std::ceil(static_cast<double>(cost.heads) / gpus) / cost.heads;
      expected =
          (static_cast<double>(cost.work.linear) * l / gpus +
           static_cast<double>(cost.work.quadratic) * l * l * share) /
              16 +
          exchange_seconds(cost, length, sizes) * static_cast<double>(cost.units_per_second) +
          static_cast<double>(cost.latency);
    }
    if (expected > 9e18) { continue; }
    auto const found = cost.at(shape_of(device_group{rank_id{0}, gpus}, nodes))(length);
    EXPECT_NEAR(static_cast<double>(found), expected, 2 + expected * 1e-12) << "trial " << trial;
  }
}

TEST(ShardingCost, HasNoCostWhereItDoesNotFit)
{
  sharding_cost cost{.work = {.linear = 1}, .heads = 4};
  cost.bytes_per_head = std::numeric_limits<std::uint64_t>::max();
  cost.units_per_second = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(cost.at({2, 2, 2})(2), no_cost);
  EXPECT_EQ(cost.at({1, 1, 1})(2), 2);
}

transformer_shape llama()
{
  return {.hidden = 4096,
          .layers = 32,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn_hidden = 14336,
          .gated_ffn = true,
          .mask = attention_mask::causal};
}

TEST(ShardingCost, OfATransformerHasTheExchangesOfAllLayersInBothDirections)
{
  auto const machines = cluster_of(16).value();
  gamma_fit const fit{.seconds_per_flop = 1 / 400e12, .gamma = 1};
  auto const cost = sharding_cost_of(llama(), fit, machines).value();
  EXPECT_EQ(cost.heads, 32U);
  EXPECT_EQ(cost.kv_heads, 8U);
  EXPECT_EQ(cost.bytes_per_head, 128U * 2 * 32 * 2);
  EXPECT_EQ(cost.within_node_bytes_per_second, 450'000'000'000U);
  EXPECT_EQ(cost.between_nodes_bytes_per_second, 50'000'000'000U);
  EXPECT_EQ(cost.latency, 2 * 2 * 32 * 10'000'000);  // 10 us in picoseconds
  auto const forward = forward_flops(llama()).value();
  auto const step = step_flops(forward, {}).value();
  EXPECT_EQ(cost.at({1, 1, 1})(4096), latency_cost(fit, step).value()(4096));
  auto const recomputed =
      sharding_cost_of(llama(), fit, machines, training_passes{.recompute = 1}, 4).value();
  EXPECT_EQ(recomputed.bytes_per_head, 128U * 4 * 32 * 3);
}

TEST(ShardingCost, PricesTheLargestShareOfWholeGroups)
{
  for (auto const& [heads, keys] :
       {std::pair{28U, 7U}, {28U, 4U}, {32U, 8U}, {12U, 1U}, {6U, 6U}}) {
    sharding_cost const cost{
        .work = {.quadratic = 1}, .heads = heads, .kv_heads = keys, .whole_groups = true};
    for (std::uint32_t gpus = 1; gpus <= heads; ++gpus) {
      head_split const split{heads, gpus, keys};
      std::int64_t most = 0;
      for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
        most = std::max(most, split.share(gpu, heads).count);
      }
      EXPECT_EQ(cost.heads_of_gpu(gpus), most);
      EXPECT_NEAR(static_cast<double>(cost.at({gpus, gpus, gpus})(heads)),
                  static_cast<double>(most * heads), 1);
    }
  }
}

/// The bytes are counted by the plan of the exchanges themselves.
TEST(ShardingCost, SplitByRowsPassesKeysAndValuesToTheNextGpu)
{
  sharding_cost const cost{.work = {.linear = 6, .quadratic = 12},
                           .heads = 4,
                           .kv_heads = 2,
                           .bytes_per_head = 10,
                           .within_node_bytes_per_second = 20,
                           .between_nodes_bytes_per_second = 4,
                           .units_per_second = 1,
                           .latency = 7,
                           .by_rows = true};
  EXPECT_EQ(cost.at({1, 1, 1})(30), 6 * 30 + 12 * 900);
  // Of 30 rows 6 pass four times, 2 heads of keys and 2 of values of 10 bytes each.
  EXPECT_EQ(cost.at({5, 5, 5})(30), 6 * 6 + 12 * 180 + 4 * 6 * 4 * 10 / 20 + 7);
  EXPECT_EQ(cost.at({5, 2, 3})(30), 6 * 6 + 12 * 180 + 4 * 6 * 4 * 10 / 4 + 7);
}

TEST(ShardingCost, PricesAForwardPassAlone)
{
  auto const machines = cluster_of(8).value();
  gamma_fit const fit{.seconds_per_flop = 1 / 400e12, .gamma = 1};
  auto const once = training_passes{}.frozen(frozen_gradient::stops);
  auto const cost = sharding_cost_of(llama(), fit, machines, once).value();
  auto const trained = sharding_cost_of(llama(), fit, machines).value();
  for (tokens const length : {64, 4'096, 100'000}) {
    std::vector<tokens> const one{length};
    ulysses_plan plan;
    plan.assign(one, 8, 32);
    head_shape const queries{32, 2 * 128};
    head_shape const keys{8, 2 * 128};
    double const bytes = static_cast<double>(
        plan.to_heads_volume(0, std::array{queries, keys, keys}).bytes_sent +
        plan.to_heads_volume(0, std::array{queries}).bytes_received);  // of the output, back
    double const exchanges = 32 * (bytes / 450e9 + 2 * 10e-6);         // layers
    double const work = static_cast<double>(cost.work(length)) / 8;
    double const whole = static_cast<double>(cost.at({8, 8, 8})(length));
    EXPECT_NEAR(whole, work + exchanges * 1e12, 1e-6 * whole + 4);
    EXPECT_NEAR(3 * static_cast<double>(cost.work(length)),
                static_cast<double>(trained.work(length)), 4);
  }
  EXPECT_EQ(2 * cost.bytes_per_head, trained.bytes_per_head);
  EXPECT_EQ(2 * cost.latency, trained.latency);
}

TEST(ShardingCost, RefusesWhatIsNoModelOrCluster)  // Errors
{
  auto machines = cluster_of(16).value();
  gamma_fit const fit{.seconds_per_flop = 1 / 400e12, .gamma = 1};
  EXPECT_FALSE(sharding_cost_of({}, fit, machines));
  EXPECT_FALSE(sharding_cost_of(llama(), {}, machines));
  machines.latency_seconds = -1;
  ballast_test::expect_refused(sharding_cost_of(llama(), fit, machines), error_code::out_of_range,
                               0, "latency of the cluster");
  machines.between_nodes_bytes_per_second = 0;
  ballast_test::expect_refused(sharding_cost_of(llama(), fit, machines), error_code::out_of_range,
                               0, "bandwidth");
}

TEST(ShardingCostDeathTest, RefusesMoreGpusThanHeads)
{
  sharding_cost const cost{.work = {.linear = 1}, .heads = 4};
  EXPECT_DEATH((void)cost.at({8, 8, 8}), "over 8 GPUs by its 4 heads");
}

sharding_plan two_gpus()
{
  sharding_plan plan;
  plan.owner = {group_id{2}, group_id{0}};
  plan.costs = {30, 20};
  plan.loads = {50, 30};
  plan.tokens_of = {8, 4};
  plan.makespan = 50;
  plan.lower_bound = 40;
  return plan;
}

TEST(ShardingPlan, SaysHowEvenAndHowGoodItIs)
{
  sharding_plan plan = two_gpus();
  EXPECT_DOUBLE_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
  EXPECT_DOUBLE_EQ(plan.balance_ratio(), 1.25);
  EXPECT_DOUBLE_EQ(plan.token_balance_ratio(), 8.0 / 6.0);
  plan.lower_bound = 50;
  EXPECT_EQ(plan.gap(), 0);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(ShardingPlan, WithoutWorkIsEven)
{
  EXPECT_EQ(sharding_plan{}.gap(), 0);
  EXPECT_EQ(sharding_plan{}.balance_ratio(), 1);
  EXPECT_EQ(sharding_plan{}.token_balance_ratio(), 1);
}

TEST(ShardingPlan, HasADigestThatEveryDecisionEnters)
{
  ballast_test::expect_digest_of_all(
      two_gpus(), {[](auto& of) { of.owner[1] = group_id{1}; }, [](auto& of) { of.costs[0] = 31; },
                   [](auto& of) { of.loads[0] = 51; }, [](auto& of) { of.groups_digest = 1; }});
}

}  // namespace
