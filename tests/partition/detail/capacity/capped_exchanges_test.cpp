#include <ballast/partition/detail/capacity/capped_exchanges.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;
using ballast::detail::capped_exchanges;

// A random plan of two bags within capacities that hardly leave room.
struct capped_plan {
  ballast_test::direct_problem given;
  std::vector<cost_units> loads{0, 0};
  std::vector<bag_id> owner;
  std::vector<std::int64_t> held{0, 0};
  ballast::detail::work_budget work{std::numeric_limits<std::uint64_t>::max()};
  ballast::workspace memory = {};
  ballast::workspace::frame frame = memory.open();

  explicit capped_plan(ballast::random_source& random) : given(draw(random))
  {
    owner.resize(given.step.costs.size());
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      bool const short_one = given.step.lengths[sample] == 1;
      std::size_t const bag = short_one ? 0 : random.below(2);
      owner[sample] = ballast::to_id<bag_id>(bag);
      loads[bag] += given.step.costs[sample];
      held[bag] += given.weights[sample];
    }
    given.capacities = {held[0] + random.between(0, 5), held[1] + random.between(0, 5)};
  }

  static ballast_test::direct_problem draw(ballast::random_source& random)
  {
    ballast_test::instance step{{}, {}, {1, 2}};
    std::vector<std::int64_t> weights;
    for (int sample = 0; sample < 10; ++sample) {
      step.lengths.push_back(random.between(1, 4));
      step.costs.push_back(random.between(0, 60));
      weights.push_back(random.between(0, 9));
    }
    return ballast_test::direct_problem(step, weights);
  }

  bool within() const
  {
    std::vector<std::int64_t> weighs{0, 0};
    std::vector<cost_units> costs{0, 0};
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      std::size_t const bag = to_index(owner[sample]);
      if (bag == 1 && given.step.lengths[sample] == 1) { return false; }
      weighs[bag] += given.weights[sample];
      costs[bag] += given.step.costs[sample];
    }
    return weighs == held && costs == loads && held[0] <= given.capacities[0] &&
           held[1] <= given.capacities[1];
  }
};

// Oracle: the least later finish over all moves and swaps of one sample.
ratio best_of_all(capped_plan const& plan, capped_exchanges const& moves, std::size_t late)
{
  std::size_t const early = 1 - late;
  auto const& step = plan.given.step;
  ratio best = later_finish(moves, late, early, 0);
  auto const fits = [&](std::size_t sample, std::size_t bag) {
    return ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag]);
  };
  std::size_t const samples = plan.owner.size();
  for (std::size_t x = 0; x < samples; ++x) {
    for (std::size_t y = 0; y <= samples; ++y) {  // the last is none
      bool const alone = y == samples;
      if (to_index(plan.owner[x]) != late || !fits(x, early)) { continue; }
      if (!alone && (to_index(plan.owner[y]) != early || !fits(y, late))) { continue; }
      if (step.costs[x] == 0 || (!alone && step.costs[y] == 0)) { continue; }
      std::int64_t const weight = plan.given.weights[x] - (alone ? 0 : plan.given.weights[y]);
      if (plan.held[early] + weight > plan.given.capacities[early]) { continue; }
      if (plan.held[late] - weight > plan.given.capacities[late]) { continue; }
      best = std::min(
          best, later_finish(moves, late, early, step.costs[x] - (alone ? 0 : step.costs[y])));
    }
  }
  return best;
}

TEST(CappedExchanges, FindTheBestSwapOfAll)
{
  ballast::random_source random(95);
  int swaps = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    capped_plan plan(random);
    capped_exchanges moves(plan.given.view(), plan.loads, plan.owner, plan.held, plan.work,
                           plan.memory, plan.frame);
    auto const finish = [&](std::size_t bag) { return ratio{plan.loads[bag], moves.speed(bag)}; };
    if (finish(0) == finish(1)) { continue; }
    std::size_t const late = finish(0) > finish(1) ? 0 : 1;
    ratio const best = best_of_all(plan, moves, late);
    auto const found = moves.find_swap(late, 1 - late);
    ASSERT_EQ(later_finish(moves, late, 1 - late, found.net), best);
    if (found.net == 0) { continue; }
    ++swaps;
    moves.make(found);
    ASSERT_TRUE(plan.within());
  }
  EXPECT_GT(swaps, 500);
}

TEST(CappedExchanges, KeepToCapacitiesWhateverTheyExchange)  // Ensures (1)
{
  ballast::random_source random(96);
  int made = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    capped_plan plan(random);
    capped_exchanges moves(plan.given.view(), plan.loads, plan.owner, plan.held, plan.work,
                           plan.memory, plan.frame);
    cost_units const least = random.between(1, 40);
    auto const found = moves.find(random.below(2), 0, {least, least, least + 9}, 8);
    if (found.from == 0) { continue; }  // a bag with itself is never asked for
    if (found.net == 0) { continue; }
    EXPECT_LE(found.net, least + 9);
    moves.make(found);
    ASSERT_TRUE(plan.within());
    ++made;
  }
  EXPECT_GT(made, 200);
}

std::int64_t samples_in(capped_plan const& plan, std::size_t bag)
{
  return std::ranges::count(plan.owner, ballast::to_id<bag_id>(bag));
}

TEST(CappedExchanges, KeepNumbersOfSamplesWhereTheyHaveTo)  // Ensures (2)
{
  ballast::random_source random(97);
  int made = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    capped_plan plan(random);
    capped_exchanges moves(plan.given.view(), plan.loads, plan.owner, plan.held, plan.work,
                           plan.memory, plan.frame, ballast::detail::exchange_counts::equal);
    std::int64_t const before = samples_in(plan, 0);
    cost_units const least = random.between(1, 40);
    auto const found = moves.find(1, 0, {least, least, least + 9}, 8);
    if (found.net != 0) { moves.make(found); }
    std::size_t const late =
        moves.speed(0) * plan.loads[1] > moves.speed(1) * plan.loads[0] ? 1 : 0;
    auto const swapped = moves.find_swap(late, 1 - late);
    if (swapped.net != 0) { moves.make(swapped); }
    auto const drawn = moves.draw_swap(0, 1, random);
    if (drawn.given_count != 0) { moves.make(drawn); }
    made += found.net != 0 && swapped.net != 0 && drawn.given_count != 0 ? 1 : 0;
    ASSERT_TRUE(plan.within());
    ASSERT_EQ(samples_in(plan, 0), before);
  }
  EXPECT_GT(made, 50);
}

TEST(CappedExchanges, RelieveAnOverrunBagWithoutFinishingLater)
{
  ballast::random_source random(98);
  int relieved = 0;
  int in_part = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    capped_plan plan(random);
    plan.given.capacities = {plan.held[0] - random.between(1, 6),
                             plan.held[1] + random.between(0, 12)};
    capped_exchanges moves(plan.given.view(), plan.loads, plan.owner, plan.held, plan.work,
                           plan.memory, plan.frame);
    auto const finish = [&](std::size_t bag) { return ratio{plan.loads[bag], moves.speed(bag)}; };
    ratio const latest = std::max(finish(0), finish(1));
    std::int64_t const over = -moves.room(0);
    auto const found = moves.find_relief(0, 1, latest, 10);
    if (found.net_weight == 0) { continue; }
    moves.make(found);
    ASSERT_LT(-moves.room(0), over);
    ASSERT_GE(moves.room(1), 0);
    ASSERT_LE(std::max(finish(0), finish(1)), latest);
    (moves.room(0) >= 0 ? relieved : in_part) += 1;
    plan.given.capacities[0] = plan.held[0];
    ASSERT_TRUE(plan.within());
  }
  EXPECT_GT(relieved, 500);
  EXPECT_GT(in_part, 10);
}

}  // namespace
