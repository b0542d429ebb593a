// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/step_entry.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::report::check_line;
using ballast::report::step_entry;
using ballast::report::task_entry;

// Two samples on two bags, of which a test spoils something.
struct step {
  std::vector<ballast::tokens> lengths = {9, 8};
  std::vector<ballast::cost_units> costs = {81, 64};
  std::vector<bag_id> owner = {bag_id{0}, bag_id{1}};
  std::vector<ballast::cost_units> loads = {81, 64};
  std::vector<std::uint32_t> speeds = {1, 1};
  ballast::ratio makespan = {81, 1};
  ballast::ratio bound = {81, 1};
  std::vector<std::int64_t> measured = {5, 4};

  [[nodiscard]] step_entry entry() const
  {
    return {4, lengths, costs, owner, loads, speeds, makespan, bound, measured};
  }
};

template <class Spoil>
void expect_wrong(Spoil const& spoil, std::size_t position, std::string const& sentence)
{
  step wrong;
  spoil(wrong);
  auto const checked = check_line(wrong.entry());
  ASSERT_FALSE(checked) << sentence;
  EXPECT_EQ(checked.error(),
            (ballast::error{ballast::error_code::out_of_range, position, "step 4 " + sentence}));
}

TEST(CheckLine, NamesWhatIsWrongWithAStep)  // Ensures (1), Errors
{
  expect_wrong([](step& of) { of.costs.pop_back(); }, 0,
               "has 2 lengths, 1 cost and 2 owners; give each sample one of each");
  expect_wrong([](step& of) { of.lengths.pop_back(); }, 0,
               "has 1 length, 2 costs and 2 owners; give each sample one of each");
  expect_wrong([](step& of) { of.speeds.push_back(1); }, 0,
               "has loads of 2 bags and speeds of 3; give each bag one of each");
  expect_wrong([](step& of) { of = {{}, {}, {}, {}, {}}; }, 0,
               "has no bags; give the loads and speeds of its plan");
  expect_wrong([](step& of) { of.lengths[1] = -1; }, 1, "has -1 in lengths[1]; give 0 or more");
  expect_wrong([](step& of) { of.costs[0] = -7; }, 0, "has -7 in costs[0]; give 0 or more");
  expect_wrong([](step& of) { of.loads[1] = -2; }, 1, "has -2 in loads[1]; give 0 or more");
  expect_wrong([](step& of) { of.speeds[1] = 0; }, 1, "has 0 in speeds[1]; give 1 or more");
  expect_wrong([](step& of) { of.measured[1] = -3; }, 1,
               "has -3 in measured_ns[1]; give 0 or more");
  expect_wrong([](step& of) { of.owner[1] = bag_id{2}; }, 1,
               "gives sample 1 to bag 2 of 2; give an owner below the number of bags");
  expect_wrong([](step& of) { of.lengths = {std::int64_t{1} << 62, std::int64_t{1} << 62}; }, 1,
               "has lengths that add up to 2^63 or more; give numbers of tokens");
  expect_wrong([](step& of) { of.makespan = {81, 0}; }, 0,
               "has a makespan of 81/0; give a numerator from 0 and a denominator from 1");
  expect_wrong([](step& of) { of.bound = {-1, 1}; }, 0,
               "has a bound of -1/1; give a numerator from 0 and a denominator from 1");
  expect_wrong([](step& of) { of.bound = {163, 2}; }, 0,
               "has a makespan of 81/1, which is below its bound of 163/2; give both of one plan");
}

TEST(CheckLine, NamesWhatIsWrongWithATask)  // Ensures (1), Errors
{
  task_entry const right{.rank = 1, .stage = 1, .microbatch = 2, .start = 5, .end = 9};
  auto const sentence_of = [&right](task_entry const& wrong) {
    auto const checked = check_line(4, std::vector{right, wrong});
    EXPECT_FALSE(checked);
    EXPECT_EQ(checked.error().position, 1U);
    return checked.error().message;
  };
  std::string const remedy = " ns; give times from the start of the step, the end last";
  auto wrong = right;
  wrong.start = -20;
  EXPECT_EQ(sentence_of(wrong), "step 4 has task 1 from -20 to 9" + remedy);
  wrong = right;
  wrong.end = 4;
  EXPECT_EQ(sentence_of(wrong), "step 4 has task 1 from 5 to 4" + remedy);
  wrong = right;
  wrong.simulated_end = -1;
  EXPECT_EQ(sentence_of(wrong), "step 4 has task 1 from 0 to -1" + remedy);
  wrong = right;
  wrong.stage = 1 << 20;
  EXPECT_EQ(sentence_of(wrong),
            "step 4 has task 1 of rank 1, stage 1048576 and microbatch 2; give numbers below "
            "1048576");
  EXPECT_EQ(check_line(4, {}).error().message,
            "step 4 has no tasks; leave out a step that ran none");
  EXPECT_TRUE(check_line(4, std::vector{right, right}));
}

TEST(CheckLine, TakesTheEdgesOfWhatIsRightAndAllocatesNothing)  // Ensures (1) (2)
{
  step none;  // of no samples, as of a rank that reads nothing; no times
  none.lengths.clear();
  none.costs.clear();
  none.owner.clear();
  none.measured.clear();
  none.loads = {0, 0};
  none.makespan = none.bound = {0, 1};
  step longest;
  longest.lengths = {std::int64_t{1} << 62, (std::int64_t{1} << 62) - 1};
  longest.makespan = {162, 2};
  std::size_t const before = ballast_test::allocations();
  bool const right = check_line(none.entry()) && check_line(longest.entry());
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_TRUE(right);
}

}  // namespace
