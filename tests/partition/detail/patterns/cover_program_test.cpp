#include <ballast/partition/detail/patterns/column_generation.hpp>  // first: proves it is self-contained

#include "../../../support/test.hpp"

#include <cstdlib>

namespace {

using namespace ballast;
using ballast::detail::cover_program;
using ballast::detail::fixed_point_inverse;
using ballast::detail::pattern_entry;
using ballast::detail::pattern_list;
using ballast::detail::simplex_basis;
using ballast::detail::simplex_number;
using ballast::detail::work_budget;

constexpr std::uint64_t cover_nodes = std::uint64_t{1} << 30;

struct cover_step {
  std::vector<cost_units> costs;
  std::vector<std::uint32_t> demands;
  cost_units room = 0;
};

cover_step random_cover_step(random_source& random)
{
  cover_step each;
  each.room = random.between(5, 40);
  cost_units cost = each.room;
  while (cost > 0 && each.costs.size() < 6) {
    each.costs.push_back(cost);
    each.demands.push_back(static_cast<std::uint32_t>(1 + random.below(3)));
    cost -= random.between(1, each.room / 2);
  }
  return each;
}

/// One sample of each kind, then all other patterns that fit the room.
void list_all(pattern_list& patterns, cover_step const& given)
{
  for (std::uint32_t kind = 0; kind < given.costs.size(); ++kind) {
    std::vector<pattern_entry> const single{{kind, 1}};
    ASSERT_TRUE(patterns.add(single));
  }
  std::vector<pattern_entry> pattern;
  auto const extend = [&](auto const& self, std::uint32_t from, cost_units room) -> void {
    if (!pattern.empty()) { ASSERT_TRUE(patterns.add(pattern)); }
    for (std::uint32_t kind = from; kind < given.costs.size(); ++kind) {
      for (std::uint32_t times = 1;
           times <= given.demands[kind] && times * given.costs[kind] <= room; ++times) {
        pattern.push_back({kind, times});
        self(self, kind + 1, room - times * given.costs[kind]);
        pattern.pop_back();
      }
    }
  };
  extend(extend, 0, given.room);
}

/// That the program covers `demands` with amounts that are not negative.
void expect_covers(cover_program const& program, pattern_list const& patterns,
                   std::vector<std::uint32_t> const& demands)
{
  std::vector<std::int64_t> covered(demands.size(), 0);
  for (std::size_t row = 0; row < program.basis().rows(); ++row) {
    EXPECT_GE(program.basis().amounts()[row], -simplex_number::one / 4096);
    if (!program.basis().has_pattern(row)) { continue; }
    for (auto const [kind, times] : patterns[program.basis().column(row)]) {
      covered[kind] += times * program.basis().amounts()[row];
    }
  }
  for (std::size_t kind = 0; kind < demands.size(); ++kind) {
    EXPECT_GE(covered[kind], demands[kind] * simplex_number::one - simplex_number::one / 2048)
        << kind;
  }
}

/// That no pattern is worth more than one, so that the prices of the demands are a lower bound.
std::int64_t worth_of_demands(cover_program const& program, pattern_list const& patterns,
                              std::vector<std::uint32_t> const& demands)
{
  for (std::size_t pattern = 0; pattern < patterns.size(); ++pattern) {
    std::int64_t worth = 0;
    for (auto const [kind, times] : patterns[pattern]) {
      worth += times * program.basis().prices()[kind];
    }
    EXPECT_LE(worth, simplex_number::one + simplex_number::one / 4096) << pattern;
  }
  std::int64_t sum = 0;
  for (std::size_t kind = 0; kind < demands.size(); ++kind) {
    EXPECT_GE(program.basis().prices()[kind], -simplex_number::one / 4096);
    sum += program.basis().prices()[kind] * static_cast<std::int64_t>(demands[kind]);
  }
  return sum;
}

void expect_proven(cover_program const& program, pattern_list const& patterns,
                   std::vector<std::uint32_t> const& demands)
{
  ASSERT_TRUE(program.basis().is_usable());
  expect_covers(program, patterns, demands);
  std::int64_t const bound = worth_of_demands(program, patterns, demands);
  EXPECT_NEAR(static_cast<double>(program.basis().value()), static_cast<double>(bound),
              static_cast<double>(simplex_number::one) / 1024);
}

TEST(CoverProgram, EndsWhereAmountsAndPricesProveEachOther)  // Ensures (1) (2), also after take()
{
  random_source random(20261103);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    cover_step given = random_cover_step(random);
    workspace memory;
    auto scratch = memory.open();
    pattern_list patterns(20'000, 120'000, scratch);
    list_all(patterns, given);
    cover_program program(given.costs.size(), patterns, scratch);
    program.start(given.demands);
    work_budget nodes(cover_nodes);
    program.minimise(0, nodes);
    expect_proven(program, patterns, given.demands);

    std::size_t row = random.below(program.basis().rows());
    while (!program.basis().has_pattern(row)) { row = (row + 1) % program.basis().rows(); }
    for (auto const [kind, times] : patterns[program.basis().column(row)]) {
      given.demands[kind] -= std::min(given.demands[kind], times);
    }
    program.take(row);
    program.restore(nodes);
    EXPECT_GE(*std::ranges::min_element(program.basis().amounts()), -simplex_number::one / 16'384);
    program.minimise(0, nodes);
    expect_proven(program, patterns, given.demands);
  }
}

TEST(CoverProgram, StopsWhereItIsEnough)
{
  workspace memory;
  auto scratch = memory.open();
  pattern_list patterns(100, 1000, scratch);
  cover_step const given{{6, 4, 3}, {4, 4, 4}, 13};
  list_all(patterns, given);
  cover_program program(3, patterns, scratch);
  program.start(given.demands);
  EXPECT_GE(program.basis().value(), 12 * simplex_number::one) << "one bag per sample";
  work_budget nodes(cover_nodes);
  program.minimise(5 * simplex_number::one + program.basis().tolerance(), nodes);
  EXPECT_LE(program.basis().value(), 5 * simplex_number::one + program.basis().tolerance());
  EXPECT_GT(program.basis().value(), 3 * simplex_number::one);

  work_budget none(0);
  std::int64_t const value = program.basis().value();
  program.minimise(0, none);
  EXPECT_EQ(program.basis().value(), value);
}

// What no plan shows: that numbers stay exact enough, and that a basis says where they do not.

TEST(FixedPointInverse, TimesTheMatrixIsTheIdentity)
{
  random_source random(20261102);
  workspace memory;
  auto scratch = memory.open();
  fixed_point_inverse inverse(8, scratch);
  std::vector<std::int64_t> step(8);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const rows = 1 + random.below(8);
    std::vector<std::vector<pattern_entry>> columns(rows);
    for (std::uint32_t row = 0; row < rows; ++row) { columns[row] = {{row, 1}}; }
    inverse.reset(rows);
    for (int exchange = 0; exchange < 12; ++exchange) {
      std::vector<pattern_entry> column;
      for (std::uint32_t kind = 0; kind < rows; ++kind) {
        if (random.below(2) == 0) {
          column.push_back({kind, static_cast<std::uint32_t>(1 + random.below(3))});
        }
      }
      inverse.times(column, step);
      std::size_t const row = random.below(rows);
      if (std::abs(step[row]) < simplex_number::one / 8) { continue; }
      std::vector<std::int64_t> const before = step;
      ASSERT_TRUE(inverse.replace(row, step));
      EXPECT_EQ(step, before);
      columns[row] = column;
    }
    for (std::size_t each = 0; each < rows; ++each) {
      inverse.times(columns[each], step);
      for (std::size_t row = 0; row < rows; ++row) {
        std::int64_t const expected = row == each ? simplex_number::one : 0;
        EXPECT_LE(std::abs(step[row] - expected), simplex_number::one / 4096) << each << ' ' << row;
      }
    }
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<std::int64_t> in_row(rows);
      inverse.copy_row(row, in_row);
      for (std::size_t each = 0; each < rows; ++each) {
        EXPECT_EQ(in_row[each], inverse.column(each)[row]);
      }
    }
  }
}

TEST(FixedPointInverse, MultipliesLargeNumbersInMoreBits)
{
  constexpr std::int64_t one = simplex_number::one;
  workspace memory;
  auto scratch = memory.open();
  fixed_point_inverse inverse(2, scratch);
  inverse.reset(2);
  std::array<std::int64_t, 2> step{one / 1024, 4 * one};
  ASSERT_TRUE(inverse.replace(0, step));
  EXPECT_EQ(inverse.column(0)[0], 1024 * one);
  EXPECT_EQ(inverse.column(0)[1], -4096 * one);
  EXPECT_EQ(inverse.column(1)[0], 0);
  EXPECT_EQ(inverse.column(1)[1], one);
}

TEST(FixedPointInverse, SaysWhereNumbersBecomeTooLarge)
{
  workspace memory;
  auto scratch = memory.open();
  fixed_point_inverse inverse(2, scratch);
  inverse.reset(2);
  std::array<std::int64_t, 2> step{1, 0};  // a divisor of 2^-28 makes an entry of 2^28
  EXPECT_FALSE(inverse.replace(0, step));
  inverse.reset(2);
  step = {simplex_number::one, simplex_number::limit};
  EXPECT_FALSE(inverse.replace(0, step));
  inverse.reset(2);
  step = {simplex_number::one / 32'768, simplex_number::one * 1024};
  EXPECT_FALSE(inverse.replace(0, step));
}

/// Two kinds, of which there are 3 and 2; patterns of one sample, and one of two and one.
struct two_kinds {
  workspace memory;
  workspace::frame scratch = memory.open();
  pattern_list patterns{3, 4, scratch};
  simplex_basis basis{2, patterns, scratch};
  work_budget nodes{1'000'000};

  two_kinds()
  {
    for (std::uint32_t kind = 0; kind < 2; ++kind) {
      EXPECT_TRUE(patterns.add(std::array{pattern_entry{kind, 1}}));
    }
    EXPECT_TRUE(patterns.add(std::array{pattern_entry{0, 2}, pattern_entry{1, 1}}));
    basis.start(std::array<std::uint32_t, 2>{3, 2});
  }
};

/// Up to what demands are raised by.
void expect_about(std::int64_t value, double expected)
{
  EXPECT_NEAR(static_cast<double>(value) / static_cast<double>(simplex_number::one), expected,
              1e-5);
}

TEST(SimplexBasis, InvertsAnewWhereItIsInexact)
{
  two_kinds program;
  std::vector<std::int64_t> step(2);
  program.basis.copy_step(2, step);
  step[1] += simplex_number::one / 64;  // as if errors had grown that far
  program.basis.exchange(0, 2, -2 * simplex_number::one, step, program.nodes);
  std::uint64_t const before = program.nodes.left();

  program.basis.invert_if_inexact(program.nodes);

  EXPECT_LT(program.nodes.left(), before);
  expect_about(program.basis.value(), 2);
  bool has_the_pattern = false;
  for (std::size_t at = 0; at < 2; ++at) { has_the_pattern |= program.basis.column(at) == 2; }
  EXPECT_TRUE(has_the_pattern);

  std::uint64_t const exact = program.nodes.left();
  program.basis.invert_if_inexact(program.nodes);
  EXPECT_EQ(program.nodes.left(), exact) << "nothing to do";
}

TEST(SimplexBasis, IsNoLongerUsableWhereNumbersGrowTooLarge)
{
  two_kinds program;
  std::vector<std::int64_t> step{1, 0};
  program.basis.exchange(0, 2, -2 * simplex_number::one, step, program.nodes);
  EXPECT_FALSE(program.basis.is_usable());
}

}  // namespace
