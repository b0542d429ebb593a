// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"
#include "drawn_windows.hpp"

namespace {

using ballast::cost_units;
using ballast::even_rounds;
using ballast::long_rounds;
using ballast_test::drawn_window;
using testing::ElementsAre;

struct loads_only {
  [[nodiscard]] static ballast::result<ballast::loaded_sample> load(std::uint64_t)
  {
    return ballast::loaded_sample{};
  }
};
struct knows_lengths : loads_only {
  [[nodiscard]] static std::vector<ballast::tokens> lengths(std::uint64_t) { return {1}; }
};
struct gives_bytes {
  [[nodiscard]] static std::vector<char> load(std::uint64_t) { return {}; }
};

static_assert(ballast::data_source<loads_only>);
static_assert(!ballast::detail::data_source_with_lengths<loads_only>);
static_assert(ballast::detail::data_source_with_lengths<knows_lengths>);
static_assert(!ballast::data_source<gives_bytes>);

TEST(DataWindows, AreOneStepOfTotalLengthsUnlessToldOtherwise)
{
  std::vector<ballast::tokens> const lengths = {3, 4};
  ballast::data_windows const windows;
  EXPECT_EQ(windows.steps, 1U);
  EXPECT_EQ(windows.held_back, 0U);
  EXPECT_EQ(windows.cost(lengths), 7);
  auto const first = [](auto of) { return 2 * of[0]; };
  ballast::data_windows const told{
      .steps = 2, .held_back = 1, .policy = ballast::even_rounds{}, .cost = first};
  EXPECT_EQ(told.cost(lengths), 6);
}

TEST(DataStep, HasADigestOfWhatTrainsAndNotOfWhoComputesIt)
{
  ballast::data_step const step{
      .number = 4, .modules = 2, .samples = {7, 9}, .lengths = {1, 2, 3, 4}};
  EXPECT_THAT(step.lengths_of(1), testing::ElementsAre(3, 4));
  ballast::data_step other = step;
  other.shares = {{.entry = 1, .rank = ballast::rank_id{1}}, {.entry = 0}};
  other.news = {"loader 1 was lost"};
  EXPECT_EQ(step.digest(), other.digest());
  other.lengths[1] = 3;
  EXPECT_NE(step.digest(), other.digest());
}

struct writes_elsewhere {
  void operator()(ballast::window_problem const&, std::span<cost_units>) const {}
};

using window_policy = decltype(ballast::data_windows::policy);
static_assert(std::constructible_from<window_policy, long_rounds>);
static_assert(std::constructible_from<window_policy, even_rounds>);
static_assert(!std::constructible_from<window_policy, writes_elsewhere>);

// Oracle: each unit, the heaviest first, tries all steps, and takes the first of those that leave
// others a place, or the first of the lightest. Sorts by other means than the library.
ballast_test::unit_steps found_by_trying(drawn_window const& drawn, std::vector<cost_units> loads,
                                         bool takes_lightest)
{
  auto const none = static_cast<std::uint32_t>(drawn.steps);
  ballast_test::unit_steps step(drawn.costs.size(), none);
  for (cost_units cost = 20; cost >= 0; --cost) {
    for (std::size_t unit = 0; unit < step.size(); ++unit) {
      if (drawn.costs[unit] != cost) { continue; }
      std::uint32_t best = none;
      for (std::uint32_t each = 0; each < none; ++each) {
        step[unit] = each;
        bool const is_better = best == none || (takes_lightest && loads[each] < loads[best]);
        if (is_better && can_be_completed(drawn, step)) { best = each; }
      }
      step[unit] = best;
      loads[best] += cost;
    }
  }
  return step;
}

template <class Policy>
void expect_steps_found_by_trying(std::uint64_t seed, bool takes_lightest)
{
  ballast::random_source random(seed);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const drawn = ballast_test::draw_window(random, 24, 6);
    std::vector<cost_units> before(drawn.steps);
    for (cost_units& load : before) { load = random.between(0, 30); }
    std::vector<cost_units> loads = before;
    auto const step = steps_by(Policy{}, drawn, loads);
    ASSERT_TRUE(can_be_completed(drawn, step));
    ASSERT_EQ(step, found_by_trying(drawn, before, takes_lightest));
    for (std::size_t unit = 0; unit < step.size(); ++unit) {
      before[step[unit]] += drawn.costs[unit];
    }
    ASSERT_EQ(loads, before);
  }
}

TEST(EvenRounds, TakesTheLightestStepThatLeavesOthersAPlace)  // Ensures (1) (2)
{
  expect_steps_found_by_trying<even_rounds>(9, true);
}

TEST(LongRounds, TakesTheFirstStepThatLeavesOthersAPlace)  // Ensures (1) (2)
{
  expect_steps_found_by_trying<long_rounds>(7, false);
}

// Oracle: all ways to give units the places of the steps.
cost_units least_sum_of_heaviest(drawn_window const& drawn)
{
  std::vector<std::size_t> unit(drawn.costs.size());
  std::iota(unit.begin(), unit.end(), std::size_t{0});
  auto least = std::numeric_limits<cost_units>::max();
  do {
    std::vector<cost_units> heaviest(drawn.steps);
    for (std::size_t place = 0; place < unit.size(); ++place) {
      auto& own = heaviest[drawn.arrived[place]];
      own = std::max(own, drawn.costs[unit[place]]);
    }
    least = std::min(least, std::reduce(heaviest.begin(), heaviest.end()));
  } while (std::ranges::next_permutation(unit).found);
  return least;
}

TEST(LongRounds, HasTheLeastSumOfHeaviestUnits)  // Ensures (3)
{
  ballast::random_source random(8);
  for (int trial = 0; trial < ballast_test::trials_of(200); ++trial) {
    drawn_window drawn;
    drawn.steps = 1 + random.below(3);
    drawn.held_back = drawn.steps;
    std::size_t const each = 1 + random.below(2);
    for (std::size_t unit = 0; unit < drawn.steps * each; ++unit) {
      drawn.costs.push_back(random.between(0, 20));
      drawn.arrived.push_back(static_cast<std::uint32_t>(unit / each));
    }
    std::vector<cost_units> loads(drawn.steps);
    auto const step = steps_by(long_rounds{}, drawn, loads);
    std::vector<cost_units> heaviest(drawn.steps);
    for (std::size_t unit = 0; unit < step.size(); ++unit) {
      heaviest[step[unit]] = std::max(heaviest[step[unit]], drawn.costs[unit]);
    }
    ASSERT_EQ(std::reduce(heaviest.begin(), heaviest.end()), least_sum_of_heaviest(drawn))
        << "trial " << trial;
  }
}

TEST(LongRounds, HoldsNothingBackWhereItMayNot)
{
  drawn_window drawn{{1, 9, 5, 7}, {0, 0, 1, 1}, 2, 0};
  std::vector<cost_units> loads(2);
  EXPECT_THAT(steps_by(long_rounds{}, drawn, loads), ElementsAre(0, 0, 1, 1));
  drawn.held_back = 1;
  EXPECT_THAT(steps_by(long_rounds{}, drawn, loads), ElementsAre(1, 0, 1, 0));
}

TEST(EvenRounds, GivesStepsTheSameWork)
{
  drawn_window const drawn{{9, 8, 1, 2}, {0, 0, 1, 1}, 2, 1};
  std::vector<cost_units> loads(2);
  EXPECT_THAT(steps_by(even_rounds{}, drawn, loads), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(loads, ElementsAre(10, 10));
}

}  // namespace
