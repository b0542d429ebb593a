#include <ballast/partition/vectors/detail/vector_search.hpp>  // first: proves it is self-contained

#include "../../../support/vector_checks.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>

#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::bin_id;
using ballast::cost_vector;
using ballast_test::loads_of;
using ballast_test::vector_instance;

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// Searches from the given owners, and returns the loads as the search leaves them.
template <std::size_t D>
std::vector<cost_vector<D>> search(vector_instance<D> const& step, std::vector<bin_id>& owner,
                                   ballast::cost_units target, std::uint64_t steps)
{
  ballast::detail::work_budget work(steps);
  auto loads = loads_of(step, owner);
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::vector_problem<D> const problem{step.costs};
  ballast::detail::vector_search<D>(problem, loads, owner, work, scratch, memory)
      .run(ballast::ratio{target});
  return loads;
}

TEST(VectorSearch, KeepsLoadsAndOwnersTogether)  // Ensures (1)
{
  ballast::random_source random(151);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_vectors<3>(random, 60, 8);
    std::vector<bin_id> owner(step.costs.size());
    for (bin_id& bin : owner) { bin = ballast::to_id<bin_id>(random.below(step.bins)); }
    auto const before = ballast_test::largest_load(loads_of(step, owner));
    auto const loads = search(step, owner, 0, no_limit);
    ASSERT_EQ(loads, loads_of(step, owner));
    ASSERT_LE(ballast_test::largest_load(loads), before);  // Ensures (2)
  }
}

TEST(VectorSearch, MovesSamples)
{
  vector_instance<2> const step{{{3, 3}, {3, 3}, {3, 3}}, 3};
  std::vector<bin_id> owner(3, bin_id{1});
  EXPECT_EQ(ballast_test::largest_load(search(step, owner, 3, no_limit)), 3);
}

TEST(VectorSearch, ExchangesTwoForTwo)
{
  // One unit has to cross over. No single sample is one unit heavier than another of the other bin
  // or than none, but 8 + 5 is, than 6 + 6.
  vector_instance<1> const step{{{8}, {5}, {30}, {6}, {6}, {13}, {16}}, 2};
  std::vector<bin_id> owner{bin_id{0}, bin_id{0}, bin_id{0}, bin_id{1},
                            bin_id{1}, bin_id{1}, bin_id{1}};
  auto const loads = search(step, owner, 42, no_limit);
  EXPECT_EQ(loads, (std::vector<cost_vector<1>>{{42}, {42}}));
}

TEST(VectorSearch, StopsAtTheTargetAndWithoutWork)
{
  vector_instance<1> const step{{{4}, {3}, {2}, {1}}, 2};
  std::vector<bin_id> const all_in_one(4, bin_id{0});
  auto owner = all_in_one;
  (void)search(step, owner, 10, no_limit);
  EXPECT_EQ(owner, all_in_one);
  (void)search(step, owner, 0, 0);
  EXPECT_EQ(owner, all_in_one);
  EXPECT_EQ(ballast_test::largest_load(search(step, owner, 0, no_limit)), 5);
}

}  // namespace
