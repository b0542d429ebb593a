#include <ballast/partition/detail/plan_items.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::bag_layout;
using ballast::batching;
using ballast::cost_units;
using ballast::error_code;
using ballast::ratio;
using ballast::detail::planned_items;

// Puts item i into bag plan[i], and says that no plan is faster than `proven`.
struct told {
  std::vector<std::size_t> plan;
  ratio proven = {};
  batching how = batching::packed;

  ratio operator()(ballast::partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, ballast::workspace&) const
  {
    std::vector<cost_units> heaviest(loads.size(), 0);
    for (std::size_t item = 0; item < owner.size(); ++item) {
      owner[item] = ballast::to_id<bag_id>(plan[item]);
      if (plan[item] == loads.size()) { continue; }
      heaviest[plan[item]] = std::max(heaviest[plan[item]], problem.costs[item]);
      loads[plan[item]] += how == batching::padded ? 1 : problem.costs[item];
    }
    for (std::size_t bag = 0; bag < loads.size() && how == batching::padded; ++bag) {
      loads[bag] *= heaviest[bag];
    }
    return proven;
  }
  batching batches() const { return how; }
  friend bool operator==(told const&, told const&) = default;
};

struct items {
  std::vector<cost_units> costs;
  std::vector<std::int64_t> weights = {};
  std::vector<std::uint32_t> first_sample = {};
  std::vector<ballast::tokens> lengths = std::vector<ballast::tokens>(costs.size(), 8);
};

struct items_outcome {
  ballast::result<void> planned;
  ratio bound;
  std::vector<cost_units> loads;
};

items_outcome plan(items const& given, bag_layout const& bags, told const& policy,
                   std::int64_t most_per_gpu = 0)
{
  std::vector<cost_units> loads(bags.size(), 0);
  std::vector<bag_id> owner(given.costs.size(), ballast::to_id<bag_id>(bags.size()));
  ballast::workspace memory;
  ratio bound;
  auto planned = ballast::detail::plan_items(
      planned_items{given.costs, given.lengths, given.weights, {}, given.first_sample}, bags,
      policy, most_per_gpu, loads, owner, bound, memory);
  return {std::move(planned), bound, std::move(loads)};
}

TEST(PlanItems, AnswersTheBestBoundThatIsKnown)
{
  // The mean is 6; the policy knows no better, or it does.
  EXPECT_EQ(plan({{6, 4, 2}}, ballast::one_gpu_bags(2), told{{0, 1, 1}}).bound, (ratio{6, 1}));
  EXPECT_EQ(plan({{6, 4, 3}}, ballast::one_gpu_bags(2), told{{0, 1, 0}, {8, 1}}).bound,
            (ratio{8, 1}));
  EXPECT_EQ(told{}, told{});
}

TEST(PlanItems, MultipliesInPaddedBatches)
{
  auto const padded =
      plan({{6, 4, 2}}, ballast::one_gpu_bags(2), told{{0, 1, 1}, {}, batching::padded});
  ASSERT_TRUE(padded.planned);
  EXPECT_EQ(padded.loads, (std::vector<cost_units>{6, 8}));
}

TEST(PlanItems, RefusesPaddedLoadsThatCouldOverflow)
{
  constexpr auto most = ballast::no_cost - 1;
  told const policy{{0, 0, 0}, {}, batching::padded};
  EXPECT_TRUE(plan({{1, most / 3, 1}}, ballast::one_gpu_bags(1), policy).planned);
  auto const overflow = plan({{1, most / 3 + 1, 1}}, ballast::one_gpu_bags(1), policy).planned;
  ASSERT_FALSE(overflow);
  EXPECT_EQ(overflow.error().code, error_code::out_of_range);
  EXPECT_EQ(overflow.error().position, 1U);
}

TEST(PlanItems, RefusesABagThatIsTooHeavy)
{
  auto const fits = plan({{1, 1, 1}, {4, 5, 6}}, ballast::one_gpu_bags(2), told{{0, 0, 1}}, 9);
  EXPECT_TRUE(fits.planned);
  auto const over = plan({{1, 1, 1}, {4, 5, 6}}, ballast::one_gpu_bags(2), told{{0, 0, 1}}, 8);
  ASSERT_FALSE(over.planned);
  EXPECT_EQ(over.planned.error().code, error_code::infeasible);
  EXPECT_EQ(over.planned.error().position, 1U);
}

TEST(PlanItems, GivesLargerBagsMoreRoom)
{
  bag_layout const bags(
      std::vector<ballast::bag>{{ballast::rank_id{0}, 2}, {ballast::rank_id{2}, 1}});
  EXPECT_TRUE(plan({{1, 1, 1}, {4, 5, 4}}, bags, told{{0, 0, 1}}, 5).planned);
  EXPECT_FALSE(plan({{1, 1, 1}, {4, 5, 4}}, bags, told{{0, 1, 1}}, 5).planned);
  // A limit so large that two GPUs of it do not fit 63 bits is none.
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_TRUE(plan({{1, 1, 1}, {4, 5, 4}}, bags, told{{0, 0, 1}}, most).planned);
}

TEST(PlanItems, NamesAnItemWithoutABagByItsFirstSample)
{
  auto const out =
      plan({{1, 1, 1}, {6, 6, 6}, {0, 5, 7}}, ballast::one_gpu_bags(2), told{{0, 1, 2}}, 10);
  ASSERT_FALSE(out.planned);
  EXPECT_EQ(out.planned.error().position, 7U);
  EXPECT_THAT(out.planned.error().message,
              testing::HasSubstr("sample 7 and what stays with it weigh 6 and found no bag"));
}

TEST(PlanItemsDeathTest, EndsTheProgramWithoutCapacitiesForAnItemWithoutABag)
{
  EXPECT_DEATH(plan({{1, 1}}, ballast::one_gpu_bags(1), told{{0, 1}}),
               "the policy left sample 1 without a bag");
}

TEST(MovedShare, IsThatOfTokensWhoseSampleLeavesItsBag)
{
  using ballast::detail::moved_share;
  std::vector<bag_id> const owner{bag_id{0}, bag_id{1}, bag_id{1}};
  std::vector<bag_id> const home{bag_id{0}, bag_id{0}, bag_id{1}};
  EXPECT_EQ(moved_share(owner, std::vector<ballast::tokens>{5, 3, 2}, home), (ratio{3, 10}));
  EXPECT_EQ(moved_share(owner, std::vector<ballast::tokens>{0, 0, 0}, home), (ratio{0, 1}));
  EXPECT_EQ(moved_share(owner, std::vector<ballast::tokens>{5, 3, 2}, {}), (ratio{0, 1}));
}

}  // namespace
