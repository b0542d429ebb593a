#include <ballast/partition/detail/patterns/column_generation.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::column_generation;
using ballast::detail::relaxation;
using ballast::detail::work_budget;

constexpr std::uint64_t column_nodes = std::uint64_t{1} << 30;

struct drawn_kinds {
  std::vector<cost_units> costs;
  std::vector<std::uint32_t> demands;
  [[nodiscard]] std::size_t samples() const
  {
    return std::accumulate(demands.begin(), demands.end(), std::size_t{0});
  }
};

/// Tries all plans.
bool kinds_fit(std::vector<cost_units>& left, drawn_kinds const& given, std::size_t kind,
               std::uint32_t done)
{
  if (kind == given.costs.size()) { return true; }
  if (done == given.demands[kind]) { return kinds_fit(left, given, kind + 1, 0); }
  for (std::size_t bag = 0; bag < left.size(); ++bag) {
    if (left[bag] < given.costs[kind] ||
        std::find(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(bag), left[bag]) !=
            left.begin() + static_cast<std::ptrdiff_t>(bag)) {
      continue;
    }
    left[bag] -= given.costs[kind];
    bool const found = kinds_fit(left, given, kind, done + 1);
    left[bag] += given.costs[kind];
    if (found) { return true; }
  }
  return false;
}

TEST(ColumnGeneration, ExceedsOnlyWhereNoPlanFits)  // Ensures (1)
{
  ballast::random_source random(20261105);
  ballast::workspace memory;
  auto scratch = memory.open();
  column_generation program(16, 16, 17 * 101, scratch);
  int exceeding = 0;
  int fitting = 0;
  int between = 0;
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const bags = 2 + random.below(4);
    drawn_kinds given;
    cost_units total = 0;
    cost_units cost = random.between(20, 100);
    while (given.samples() < 3 * bags && cost > 0) {
      given.costs.push_back(cost);
      given.demands.push_back(static_cast<std::uint32_t>(
          1 + random.below(std::min<std::uint64_t>(3, 3 * bags - given.samples()))));
      total += cost * given.demands.back();
      cost -= random.between(1, 15);
    }
    auto const m = static_cast<cost_units>(bags);
    cost_units const room = std::min<cost_units>(
        100, std::max(given.costs.front(), (total + m - 1) / m + random.between(0, 6)));
    ASSERT_TRUE(program.has_room_for(given.samples(), given.costs.size(), room));
    program.start(given.costs, given.demands, room);
    work_budget nodes(column_nodes);

    relaxation const end = program.solve(bags, nodes);

    std::vector<cost_units> left(bags, room);
    bool const possible = kinds_fit(left, given, 0, 0);
    ASSERT_NE(end, relaxation::unknown);
    EXPECT_FALSE(end == relaxation::exceeds && possible);
    exceeding += end == relaxation::exceeds;
    fitting += end == relaxation::fits && possible;
    between += end == relaxation::fits && !possible;
  }
  EXPECT_GT(exceeding, 40);
  EXPECT_GT(fitting, 40);
  EXPECT_LT(between, exceeding / 2) << "the relaxation is rarely wrong";
}

TEST(ColumnGeneration, RefutesWhatTheMeanAllows)
{
  // Two of three do not fit a bag, so each of the four has its own; the mean would allow three
  // bags.
  ballast::workspace memory;
  auto scratch = memory.open();
  column_generation program(8, 8, 9 * 101, scratch);
  std::vector<cost_units> const costs{51, 20};
  std::vector<std::uint32_t> const demands{4, 1};
  program.start(costs, demands, 100);
  work_budget nodes(column_nodes);
  EXPECT_EQ(program.solve(3, nodes), relaxation::exceeds);
  program.start(costs, demands, 100);
  EXPECT_EQ(program.solve(4, nodes), relaxation::fits);
}

TEST(ColumnGeneration, TakesPatternsForGood)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  column_generation program(9, 9, 10 * 31, scratch);
  std::vector<cost_units> const costs{15, 10, 5};
  std::vector<std::uint32_t> const demands{3, 3, 3};
  program.start(costs, demands, 30);
  work_budget nodes(column_nodes);
  std::vector<std::uint32_t> taken(3, 0);
  for (std::size_t bags = 3; bags > 0; --bags) {
    ASSERT_EQ(program.solve(bags, nodes), relaxation::fits) << bags;
    std::size_t most = 0;
    for (std::size_t row = 0; row < program.basis().rows(); ++row) {
      bool const more = program.basis().amounts()[row] > program.basis().amounts()[most] ||
                        !program.basis().has_pattern(most);
      if (program.basis().has_pattern(row) && more) { most = row; }
    }
    cost_units load = 0;
    program.take(most, [&](std::uint32_t kind, std::uint32_t times) {
      load += costs[kind] * times;
      taken[kind] += times;
    });
    EXPECT_EQ(load, 30);
  }
  EXPECT_EQ(taken, (std::vector<std::uint32_t>{3, 3, 3}));
}

TEST(ColumnGeneration, StopsWithItsNodes)
{
  ballast::random_source random(20261106);
  ballast::workspace memory;
  auto scratch = memory.open();
  column_generation program(60, 60, 61 * 1001, scratch);
  std::vector<cost_units> costs;
  for (cost_units cost = 600; costs.size() < 60; cost -= random.between(1, 9)) {
    costs.push_back(cost);
  }
  std::vector<std::uint32_t> const demands(60, 1);
  program.start(costs, demands, 1000);
  work_budget few(1000);
  EXPECT_EQ(program.solve(10, few), relaxation::unknown);
  EXPECT_TRUE(few.spent());
}

TEST(ColumnGeneration, CountsManySamplesInUnits)
{
  // Of 30 and 40, both 50,000: 25,000 bins of 30 + 30 + 40 leave 25,000 of 40 for two to a bin.
  ballast::workspace memory;
  auto scratch = memory.open();
  column_generation program(16, 8, 1024, scratch);
  std::vector<cost_units> const costs{40, 30};
  std::vector<std::uint32_t> const demands{50'000, 50'000};
  program.start(costs, demands, 100, 7);
  work_budget nodes(column_nodes);
  EXPECT_EQ(program.solve(37'000, nodes), relaxation::exceeds);
  EXPECT_EQ(program.solve(37'499, nodes), relaxation::exceeds);
  EXPECT_EQ(program.least_bags(), 37'500U);
  EXPECT_EQ(program.solve(37'500, nodes), relaxation::fits);
  std::int64_t covered = 0;
  for (std::size_t row = 0; row < program.basis().rows(); ++row) {
    if (!program.basis().has_pattern(row)) { continue; }
    std::int64_t const bags =
        (program.basis().amounts()[row] + program.basis().unit() / 2) / program.basis().unit();
    for (auto const [kind, times] : program.pattern(row)) {
      covered += bags * static_cast<std::int64_t>(times);
    }
  }
  EXPECT_GE(covered, 100'000);
  ASSERT_EQ(program.best_prices().size(), 2U);
  EXPECT_GE(program.best_prices()[0] + 2 * program.best_prices()[1], 1 << 21);
}

}  // namespace
