// The policy that CONTRIBUTING.md adds, step by step.
#include "../support/policy_checks.hpp"  // defines: ballast_test::{expect_valid_plans, ...}
#include "../support/test.hpp"
#include "../support/trials.hpp"  // defines: ballast_test::trials_of

#include <ballast/partition/concepts.hpp>

// A namespace of its own, so that a snake_order that you add does not meet this one.
namespace ballast::inline v0::worked_example {

// [snake_header]
/// Deals samples as cards are dealt fairly: heaviest first to bags 0, 1, ..., m - 1, then back to
/// 0, and so on. It asks for no heap and no second look.
///
/// A sample that does not fit its bag goes to the next one, in cyclic order, that it fits.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) with all samples fitting everywhere, counts per bag differ by at most one
///             (4) then, from empty bags, loads differ by at most the heaviest cost
/// Complexity  O(n), and O(n m) in the worst case of samples that hardly fit anywhere.
struct snake_order {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace&) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    std::size_t const bags = loads.size();
    for (std::size_t dealt = 0; dealt < owner.size(); ++dealt) {
      auto const [cost, sample] = problem.heaviest_first[dealt];
      bool const forth = dealt / bags % 2 == 0;
      std::size_t bag = forth ? dealt % bags : bags - 1 - dealt % bags;
      while (!problem.fits(to_index(sample), bag)) { bag = bag + 1 == bags ? 0 : bag + 1; }
      loads[bag] += cost;
      owner[to_index(sample)] = to_id<bag_id>(bag);
    }
  }

  friend bool operator==(snake_order, snake_order) = default;
};
// [snake_header]

namespace {

// [snake_promises]
static_assert(ballast::partition_policy<snake_order>);

TEST(SnakeOrder, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  ballast_test::expect_valid_plans(snake_order{}, 41);
  ballast_test::expect_starting_loads_counted(snake_order{});
}
// [snake_promises]

// [snake_oracle]
// Oracle: walks to and fro, a step for each sample, and waits at the ends for a second one.
std::vector<bag_id> walk(ballast_test::instance const& step)
{
  std::vector<std::pair<ballast::cost_units, std::size_t>> order;
  for (ballast::cost_units const cost : step.costs) { order.emplace_back(-cost, order.size()); }
  std::ranges::sort(order);  // heaviest first, ties in sample order
  std::vector<bag_id> owner(order.size());
  int const last = static_cast<int>(step.gpus.size()) - 1;
  int bag = 0;
  int direction = 1;
  for (auto const& [negative_cost, sample] : order) {
    owner[sample] = ballast::to_id<bag_id>(static_cast<std::size_t>(bag));
    if (bag + direction < 0 || bag + direction > last) {
      direction = -direction;
    } else {
      bag += direction;
    }
  }
  return owner;
}

TEST(SnakeOrder, AgreesWithAWalkToAndFro)
{
  ballast::random_source random(42);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    auto const step = ballast_test::random_instance(random, 30, 8, 1);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const plan = ballast_test::plan_instance(step, snake_order{});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->owner, walk(step));
  }
}
// [snake_oracle]

// [snake_property]
TEST(SnakeOrder, KeepsCountsAndLoadsTogether)  // Ensures (3) (4)
{
  ballast::random_source random(43);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    auto const step = ballast_test::random_instance(random, 40, 9, 1);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const plan = ballast_test::plan_instance(step, snake_order{});
    ASSERT_TRUE(plan) << plan.error().message;
    std::vector<std::size_t> counts(step.gpus.size(), 0);
    for (bag_id const bag : plan->owner) { ++counts[to_index(bag)]; }
    EXPECT_LE(std::ranges::max(counts) - std::ranges::min(counts), 1U);
    std::int64_t const heaviest = step.costs.empty() ? 0 : std::ranges::max(step.costs);
    EXPECT_LE(std::ranges::max(plan->loads) - std::ranges::min(plan->loads), heaviest);
  }
}
// [snake_property]

// [snake_edges]
TEST(SnakeOrder, TurnsAtTheEnds)
{
  ballast_test::instance const step{{1, 1, 1, 1, 1}, {1, 2, 3, 4, 5}, {1, 1}};
  auto const plan = ballast_test::plan_instance(step, snake_order{});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->loads, testing::ElementsAre(5 + 2 + 1, 4 + 3));
}

TEST(SnakeOrder, PassesAShortSampleOnToTheNextBagItFits)
{
  ballast_test::instance const step{{2, 2, 8}, {3, 2, 1}, {4, 2, 8}};
  auto const plan = ballast_test::plan_instance(step, snake_order{});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->owner, testing::ElementsAre(bag_id{1}, bag_id{1}, bag_id{2}));
}
// [snake_edges]

}  // namespace

}  // namespace ballast::inline v0::worked_example
