// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/plan_slots.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

#include <ballast/sharding/slots_plan.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

namespace {

using namespace ballast;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

node_sizes one_node(std::size_t gpus)
{
  return node_sizes::equal(1, gpus);
}

// As a ring splits it, without exchanges: a l / g + b l^2 / g.
sharding_cost ring(std::uint64_t linear, std::uint64_t quadratic)
{
  return {.work = {linear, quadratic, 0}, .by_rows = true};
}

// Heads, exchanges inside nodes and between them, and latency.
sharding_cost ulysses(std::uint32_t heads)
{
  return {.work = {1000, 1, 0},
          .heads = heads,
          .kv_heads = heads >= 2 ? heads / 2 : 1,
          .bytes_per_head = 50,
          .within_node_bytes_per_second = 400'000'000,
          .between_nodes_bytes_per_second = 50'000'000,
          .units_per_second = 1'000'000,
          .latency = 500};
}

std::vector<std::uint32_t> sizes_of(slots_plan const& plan, std::size_t slot)
{
  std::vector<std::uint32_t> sizes;
  for (std::size_t at = plan.first_group[slot]; at < plan.first_group[slot + 1]; ++at) {
    sizes.push_back(plan.groups[at].ranks.gpus);
  }
  return sizes;
}

// What slots_plan and plan_slots_into ensure, from the lengths, the cost and the rules alone.
void expect_true_plan(slots_plan const& plan, std::vector<tokens> const& lengths,
                      node_sizes const& nodes, sharding_cost const& cost, slot_groups const& rules)
{
  ASSERT_EQ(plan.ranks, nodes.gpus());
  ASSERT_THAT(plan.first_group, SizeIs(plan.slots + 1));
  EXPECT_EQ(plan.lengths, lengths);
  EXPECT_EQ(plan.slots % rules.multiple_of, 0U);
  std::vector<int> seen(lengths.size());
  std::vector<cost_units> ready(plan.ranks);
  cost_units sum = 0;
  for (std::size_t slot = 0; slot < plan.slots; ++slot) {
    std::size_t next = 0;  // rank
    cost_units longest = 0;
    for (std::size_t at = plan.first_group[slot]; at < plan.first_group[slot + 1]; ++at) {
      auto const id = to_id<group_id>(at);
      auto const& group = plan.groups[at];
      ASSERT_EQ(group.slot, slot);
      ASSERT_EQ(to_index(group.ranks.first), next);
      EXPECT_EQ(to_index(plan.group_of(group.ranks.first, slot)), at);
      next += group.ranks.gpus;
      auto const samples = plan.samples[id];
      auto const cu_seqlens = plan.cu_seqlens[id];
      ASSERT_THAT(cu_seqlens, SizeIs(samples.size() + 1));
      if (rules.samples != counts{}) { EXPECT_LE(std::ssize(samples), rules.samples.number); }
      cost_units load = 0;
      tokens held = 0;
      if (!samples.empty()) {
        EXPECT_LE(group.ranks.gpus, rules.largest);
        if (rules.aligned) { EXPECT_EQ(to_index(group.ranks.first) % group.ranks.gpus, 0U); }
        if (rules.powers_of_two) { EXPECT_TRUE(std::has_single_bit(group.ranks.gpus)); }
        auto const shape = shape_of(group.ranks, nodes);
        auto const first_node = nodes.node_of(group.ranks.first);
        EXPECT_TRUE(
            shape.most_in_node == group.ranks.gpus ||
            (group.ranks.gpus > nodes.largest() && nodes.first(first_node) == group.ranks.first));
        auto const at_degree = cost.at(shape);
        load = at_degree.latency;
        for (std::size_t pack = 0; pack < samples.size(); ++pack) {
          tokens const length = lengths[to_index(samples[pack])];
          ++seen[to_index(samples[pack])];
          EXPECT_EQ(to_index(plan.owner[samples[pack]]), at);
          EXPECT_EQ(cu_seqlens[pack + 1] - cu_seqlens[pack], length);
          load += at_degree.work(length) + at_degree.exchanges(length);
          held += (length + group.ranks.gpus - 1) / group.ranks.gpus;
        }
      }
      EXPECT_EQ(group.load, load);
      EXPECT_EQ(group.held, held);
      bool const is_above =
          std::find(plan.above_cap.begin(), plan.above_cap.end(), id) != plan.above_cap.end();
      EXPECT_EQ(is_above, held > rules.most_per_gpu);
      if (is_above) {
        EXPECT_TRUE(rules.is_soft);
        EXPECT_THAT(samples, SizeIs(1));
      }
      longest = std::max(longest, load);
      cost_units begin = 0;
      for (std::size_t rank = next - group.ranks.gpus; rank < next; ++rank) {
        begin = std::max(begin, ready[rank]);
      }
      std::fill_n(ready.begin() + static_cast<std::ptrdiff_t>(next - group.ranks.gpus),
                  group.ranks.gpus, begin + load);
    }
    ASSERT_EQ(next, plan.ranks);
    EXPECT_EQ(plan.length_of(slot), longest);
    sum += longest;
  }
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_EQ(plan.makespan, rules.meet == grid_meeting::microbatch
                               ? sum
                               : *std::max_element(ready.begin(), ready.end()));
  EXPECT_LE(plan.makespan, sum);
  EXPECT_LE(plan.lower_bound, plan.makespan);
  EXPECT_GE(plan.slots, plan.fewest_slots);
}

// All partitions of the ranks of one node into groups, and all owners: the least sum of the longest
// groups of `slots` slots.
struct all_slots {
  std::vector<tokens> lengths;
  std::size_t ranks = 0;
  std::size_t slots = 0;
  sharding_cost cost;
  slot_groups rules;
  std::optional<cost_units> best = std::nullopt;

  struct group {
    std::size_t slot;
    std::uint32_t gpus;
    cost_units load = 0;
    tokens held = 0;
    std::uint32_t samples = 0;
  };
  std::vector<group> groups = {};

  void tile(std::size_t slot, std::uint32_t left, std::uint32_t largest)
  {
    if (left == 0) { return slot + 1 == slots ? own(0) : tile(slot + 1, whole(), whole()); }
    for (std::uint32_t gpus = std::min(left, largest); gpus > 0; --gpus) {
      groups.push_back({slot, gpus});
      tile(slot, left - gpus, gpus);
      groups.pop_back();
    }
  }

  [[nodiscard]] std::uint32_t whole() const { return static_cast<std::uint32_t>(ranks); }

  [[nodiscard]] cost_units end() const
  {
    std::vector<cost_units> longest(slots);
    for (group const& each : groups) {
      longest[each.slot] = std::max(longest[each.slot], each.load);
    }
    return std::reduce(longest.begin(), longest.end());
  }

  void own(std::size_t sample)
  {
    if (best && end() >= *best) { return; }
    if (sample == lengths.size()) {
      best = end();
      return;
    }
    tokens const length = lengths[sample];
    for (std::size_t at = 0; at < groups.size(); ++at) {
      group const before = groups[at];
      bool const is_alike = at > 0 && groups[at - 1].slot == before.slot &&
                            groups[at - 1].gpus == before.gpus && groups[at - 1].samples == 0 &&
                            before.samples == 0;
      tokens const share = (length + before.gpus - 1) / before.gpus;
      bool const is_admitted =
          before.gpus <= rules.largest && (cost.by_rows || before.gpus <= cost.heads) &&
          (!rules.powers_of_two || std::has_single_bit(before.gpus)) &&
          (before.gpus == 1 || length >= before.gpus) &&
          (rules.samples == counts{} || before.samples < rules.samples.number) &&
          before.held + share <= rules.most_per_gpu;
      if (is_alike || !is_admitted) { continue; }
      auto const degree = cost.at({before.gpus, before.gpus, before.gpus});
      groups[at].load += (before.samples == 0 ? degree.latency : 0) + degree.work(length) +
                         degree.exchanges(length);
      groups[at].held += share;
      ++groups[at].samples;
      own(sample + 1);
      groups[at] = before;
    }
  }

  [[nodiscard]] std::optional<cost_units> optimum()
  {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    tile(0, whole(), whole());
    return best;
  }
};

TEST(PlanSlots, FindsTheOptimumOfSmallSteps)
{
  random_source random(64);
  int planned = 0;
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const ranks = 1 + random.below(6);
    std::size_t const samples = random.below(trial % 3 == 0 ? 9 : 7);
    std::vector<tokens> lengths(samples);
    for (tokens& each : lengths) { each = static_cast<tokens>(random.below(400)); }
    auto const cost = trial % 2 == 0 ? ulysses(1 + static_cast<std::uint32_t>(random.below(8)))
                                     : ring(random.below(300), 1 + random.below(2));
    slot_groups rules{.powers_of_two = random.below(3) == 0, .number = 1 + random.below(2)};
    if (random.below(2) == 0) { rules.most_per_gpu = 50 + static_cast<tokens>(random.below(300)); }
    if (random.below(4) == 0) { rules.samples = counts::at_most(random.between(1, 2)); }
    if (random.below(4) == 0) { rules.largest = 1 + static_cast<std::uint32_t>(random.below(6)); }
    rules.work = 2'000'000;
    auto const plan = plan_slots(lengths, one_node(ranks), cost, rules);
    auto const optimum = all_slots{lengths, ranks, *rules.number, cost, rules}.optimum();
    ASSERT_EQ(plan.has_value(), optimum.has_value()) << (plan ? "" : plan.error().message);
    if (!plan) { continue; }
    ++planned;
    ASSERT_NO_FATAL_FAILURE(expect_true_plan(*plan, lengths, one_node(ranks), cost, rules));
    EXPECT_EQ(plan->makespan, *optimum);
    EXPECT_LE(plan->lower_bound, *optimum);
  }
  EXPECT_GE(planned, 5);
}

TEST(PlanSlots, TilesEightRanksByFiveAndThree)
{
  constexpr tokens c = 960;
  std::vector<tokens> const lengths{5 * c, 3 * c};
  auto const plan = plan_slots(lengths, one_node(8), ring(1, 0), {.most_per_gpu = c}).value();
  EXPECT_EQ(plan.slots, 1U);
  EXPECT_THAT(sizes_of(plan, 0), ElementsAre(5, 3));
  EXPECT_EQ(plan.makespan, c);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PlanSlots, PacksBothOnAllEightWhereOnlyPowersOfTwoAreAdmitted)
{
  constexpr tokens c = 960;
  std::vector<tokens> const lengths{5 * c, 3 * c};
  slot_groups rules{.powers_of_two = true, .most_per_gpu = c};
  auto const packed = plan_slots(lengths, one_node(8), ring(1, 0), rules).value();
  EXPECT_THAT(sizes_of(packed, 0), ElementsAre(8));
  EXPECT_EQ(packed.makespan, c);
  rules.samples = counts::at_most(1);
  auto const alone = plan_slots(lengths, one_node(8), ring(1, 0), rules).value();
  EXPECT_EQ(alone.slots, 2U);
  EXPECT_LE(alone.makespan, c * 11 / 8);  // 8 and 4 ranks
}

TEST(PlanSlots, SplitsSquaresOverAllRanks)
{
  constexpr tokens c = 960;
  std::vector<tokens> const lengths{5 * c, 3 * c};
  auto const plan = plan_slots(lengths, one_node(8), ring(0, 1), {.most_per_gpu = c}).value();
  EXPECT_THAT(sizes_of(plan, 0), ElementsAre(8));
  EXPECT_EQ(plan.makespan, c * c * 17 / 4);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PlanSlots, KeepsItsPromisesOverNodesOfAnySizes)  // also by steps that meet once
{
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    random_source random(trial);
    std::vector<std::uint32_t> each(1 + random.below(6));
    for (std::uint32_t& gpus : each) {
      gpus = trial % 2 == 0 ? 8 : 1 + static_cast<std::uint32_t>(random.below(8));
    }
    node_sizes const nodes(each);
    auto const lengths =
        draw_lengths(clamped_lengths{lognormal_lengths{.median = 1000, .sigma = 1.3}, 0, 40'000},
                     random.below(200), random);
    std::vector<std::uint32_t> const listed{1, 3, 4, 12};
    slot_groups rules{.powers_of_two = random.below(3) == 0,
                      .aligned = random.below(3) == 0,
                      .is_soft = random.below(2) == 0,
                      .multiple_of = 1 + random.below(3)};
    if (random.below(3) == 0) { rules.sizes = listed; }
    if (random.below(2) == 0) { rules.most_per_gpu = 3000; }
    if (random.below(4) == 0) { rules.samples = counts::at_most(random.between(1, 3)); }
    if (random.below(2) == 0) { rules.meet = grid_meeting::step; }
    auto const cost = random.below(2) == 0 ? ulysses(32) : ring(3000, 1);
    auto const plan = plan_slots(lengths, nodes, cost, rules);
    if (!plan) {
      EXPECT_FALSE(rules.is_soft) << plan.error().message;
      EXPECT_GT(lengths[plan.error().position], 3000);
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(expect_true_plan(*plan, lengths, nodes, cost, rules));
    EXPECT_EQ(plan->digest(), plan_slots(lengths, nodes, cost, rules)->digest());
  }
}

// One degree for all samples and slots, as context parallelism is run: the longest first, each to the
// least loaded group with room, of the fewest slots in which all have some.
std::optional<cost_units> one_degree(std::vector<tokens> lengths, std::size_t ranks,
                                     std::uint32_t gpus, degree_cost const& cost, tokens cap)
{
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  std::size_t const in_slot = ranks / gpus;
  for (std::size_t slots = 1; slots <= lengths.size(); ++slots) {
    std::vector<std::pair<cost_units, tokens>> groups(slots * in_slot);
    bool has_room = true;
    for (tokens const length : lengths) {
      tokens const share = (length + gpus - 1) / gpus;
      auto best = groups.end();
      for (auto at = groups.begin(); at != groups.end(); ++at) {
        bool const fits = at->second + share <= cap;
        if (fits && (best == groups.end() || at->first < best->first)) { best = at; }
      }
      has_room = has_room && best != groups.end();
      if (!has_room) { break; }
      best->first +=
          (best->second == 0 ? cost.latency : 0) + cost.work(length) + cost.exchanges(length);
      best->second += share;
    }
    if (!has_room) { continue; }
    std::sort(groups.begin(), groups.end(), std::greater<>());  // alike ones into one slot
    cost_units sum = 0;
    for (std::size_t slot = 0; slot < slots; ++slot) { sum += groups[slot * in_slot].first; }
    return sum;
  }
  return std::nullopt;
}

// Exchanges that take long however little they send: the second sample is shorter than the longest
// one takes on its group already on few GPUs, and not with its own latency.
TEST(PlanSlots, BoundsLargeStepsByTheLeastTimeOfSamples)
{
  auto const nodes = node_sizes::equal(17, 8);
  auto cost = ring(1, 0);
  cost.latency = 8000;
  std::vector<tokens> lengths(2200, 1);
  lengths[7] = 64'000;
  lengths[8] = 63'999;
  ballast::cost_units least = cost.at({1, 1, 1})(64'000);
  for (std::uint32_t gpus = 2; gpus <= 64; ++gpus) {
    auto const shape = ballast::shape_of({rank_id{0}, gpus}, nodes);
    least = std::min(least, cost.at(shape)(64'000));
  }
  auto const plan = ballast::plan_slots(lengths, nodes, cost, {.largest = 64}).value();
  EXPECT_LE(plan.lower_bound, least);
  EXPECT_GE(plan.makespan, least);
}

TEST(PlanSlots, EndsNoLaterThanOneDegreeForAll)  // but for 0.4 %
{
  double sum = 0;
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    random_source random(trial);
    auto const lengths = draw_lengths(
        clamped_lengths{lognormal_lengths{.median = 2000, .sigma = 1.2}, 8, 60'000}, 200, random);
    auto const nodes = node_sizes::equal(4, 8);
    auto const cost = ulysses(32);
    auto const plan = plan_slots(lengths, nodes, cost, {.most_per_gpu = 8192}).value();
    for (std::uint32_t const gpus : {1U, 2U, 4U, 8U, 16U, 32U}) {
      auto const shape = shape_of({rank_id{0}, gpus}, nodes);
      auto const other = one_degree(lengths, nodes.gpus(), gpus, cost.at(shape), 8192);
      if (other) { EXPECT_LE(plan.makespan, *other / 1000 * 1004) << "on " << gpus; }
    }
    sum += plan.gap();
  }
  EXPECT_LE(sum / 20, 0.05);
}

TEST(PlanSlots, PlansStepsWithoutSamplesAndSamplesWithoutTokens)
{
  auto const none = plan_slots({}, one_node(4), ring(1, 1), {.multiple_of = 2}).value();
  EXPECT_EQ(none.slots, 0U);
  EXPECT_EQ(none.makespan, 0);
  std::vector<tokens> const empty{0, 0, 0};
  auto const plan = plan_slots(empty, one_node(2), ring(1, 1), {.most_per_gpu = 1}).value();
  ASSERT_NO_FATAL_FAILURE(
      expect_true_plan(plan, empty, one_node(2), ring(1, 1), {.most_per_gpu = 1}));
  EXPECT_EQ(plan.makespan, 0);
  std::vector<tokens> const one{7};
  auto const fewer = plan_slots(one, one_node(4), ring(1, 1), {.largest = 2, .number = 2}).value();
  EXPECT_EQ(fewer.slots, 2U);
  EXPECT_EQ(fewer.empty_cells(), 6U);
}

TEST(PlanSlots, TellsASampleThatFitsNowhere)
{
  std::vector<tokens> const lengths{10, 900, 20};
  auto const cost = ring(1, 0);
  ballast_test::expect_refused(plan_slots(lengths, one_node(4), cost, {.most_per_gpu = 100}),
                               error_code::infeasible, 1, "a soft cap");
  slot_groups const rules{.most_per_gpu = 100, .is_soft = true};
  auto const plan = plan_slots(lengths, one_node(4), cost, rules).value();
  ASSERT_NO_FATAL_FAILURE(expect_true_plan(plan, lengths, one_node(4), cost, rules));
  EXPECT_THAT(plan.above_cap, ElementsAre(plan.owner[sample_id(1)]));
}

TEST(PlanSlots, RefusesRulesThatAdmitNothing)
{
  std::vector<tokens> const lengths{10, 20};
  auto const code = [&](slot_groups const& rules) {
    return plan_slots(lengths, one_node(4), ulysses(8), rules).error().code;
  };
  std::vector<std::uint32_t> const none{0};
  std::vector<std::uint32_t> const large{16};
  EXPECT_EQ(code({.sizes = none}), error_code::out_of_range);
  EXPECT_EQ(code({.sizes = large}), error_code::infeasible);
  EXPECT_EQ(code({.largest = 0}), error_code::out_of_range);
  EXPECT_EQ(code({.samples = counts::at_most(0)}), error_code::out_of_range);
  EXPECT_EQ(code({.samples = counts::filled()}), error_code::out_of_range);
  EXPECT_EQ(code({.number = 3, .multiple_of = 2}), error_code::infeasible);
  EXPECT_EQ(code({.most_per_gpu = 5, .number = 1}), error_code::infeasible);
  std::vector<tokens> const negative{1, -1};
  EXPECT_EQ(plan_slots(negative, one_node(4), ulysses(8)).error().position, 1U);
}

TEST(PlanSlots, AllocatesNothingOnceItHasSeenAStepAsLarge)
{
  random_source random(3);
  auto const lengths = draw_lengths(
      clamped_lengths{lognormal_lengths{.median = 1000, .sigma = 1.3}, 1, 40'000}, 300, random);
  slots_plan plan;
  workspace memory;
  auto const run = [&] {
    return plan_slots_into(plan, memory, lengths, node_sizes::equal(4, 8), ulysses(64),
                           {.most_per_gpu = 4096});
  };
  ASSERT_TRUE(run());
  auto const before = ballast_test::allocations();
  ASSERT_TRUE(run());
  EXPECT_EQ(ballast_test::allocations(), before);
}

}  // namespace
