#include <ballast/partition/vectors/detail/vector_search.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"
#include "../../../support/trials.hpp"
#include "../../../support/vector_checks.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/vectors/detail/least_finish.hpp>

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
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
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

TEST(VectorSearch, GoesOnlyWhereSamplesFitAndFindRoom)  // Ensures (1) (2) (3)
{
  ballast::random_source random(152);
  int searched = 0;
  for (int trial = 0; trial < 1000 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::bag_vector_problem<2> const given{
        ballast_test::random_bag_vectors<2>(random, 40, 8)};
    auto const problem = given.view();
    std::size_t const bins = given.step.gpus.size();
    std::vector<cost_vector<2>> loads(bins, cost_vector<2>{});
    auto room = given.capacities;
    std::vector<bin_id> owner;
    for (std::size_t sample = 0; sample < given.step.costs.size(); ++sample) {
      std::size_t bin = random.below(bins);
      for (std::size_t tried = 0; tried < bins; ++tried, bin = (bin + 1) % bins) {
        if (!problem.fits(sample, bin)) { continue; }
        if (room.empty() || room[bin] >= problem.weights[sample]) { break; }
      }
      if (!problem.fits(sample, bin)) { break; }
      if (!room.empty() && room[bin] < problem.weights[sample]) { break; }
      if (!room.empty()) { room[bin] -= problem.weights[sample]; }
      owner.push_back(ballast::to_id<bin_id>(bin));
      for (std::size_t d = 0; d < 2; ++d) { loads[bin][d] += problem.costs[sample][d]; }
    }
    if (owner.size() < given.step.costs.size()) { continue; }
    auto const before = ballast::detail::finish_of<2>(problem, loads);
    ballast::detail::work_budget work(no_limit);
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast::detail::vector_search<2>(problem, loads, owner, work, scratch, memory)
        .run(ballast::ratio{});
    ballast_test::expect_kept_in_bags(given.step, owner, loads);
    EXPECT_LE(ballast::detail::finish_of<2>(problem, loads), before);
    ++searched;
  }
  EXPECT_GE(searched, 300);
}

}  // namespace
