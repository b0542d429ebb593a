// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/staged.hpp>

#include "../route/bag_arrays.hpp"
#include "../route/instances.hpp"
#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "rows_on_host.hpp"
#include "staged_on_host.hpp"

#include <cuda_bf16.h>
#include <cstring>

namespace {

using ballast::rank_id;
using ballast::route_plan;
using ballast::sequence_rows;
using ballast::staged;
using ballast::tokens;
using ballast::ulysses_bound;
using ballast::ulysses_plan;
using ballast_test::bag_case;
using ballast_test::staged_on_host;
using testing::Each;
using testing::ElementsAreArray;

// What follows from the arrays' elements, and less than an alignment for each array.
TEST(Staged, SaysHowLargeItsMemoryIs)
{
  auto const expect_bytes = [](std::size_t found, std::size_t least) {
    EXPECT_GE(found, least);
    EXPECT_LE(found, least + 7 * std::size_t{256});
  };
  expect_bytes(staged<route_plan>::bytes({.ranks = 1, .ranges = 0}), 12 + 16);
  expect_bytes(staged<route_plan>::bytes({.ranks = 8, .ranges = 1000}), 12 + 8 * 16 + 1000 * 56);
  expect_bytes(staged<route_plan>::bytes({.ranks = 1, .ranges = 200'000'000}), 11'200'000'028);
  expect_bytes(staged<ulysses_plan>::bytes({.sequences = 4, .gpus = 3, .query_heads = 8}),
               5 * (8 + 4 + 4 * 8));
  expect_bytes(staged<sequence_rows>::bytes(20), 22 * 8);
  // 63 sequences and what is behind them end where an alignment does, in each of three arrays.
  constexpr ulysses_bound even{.sequences = 63, .gpus = 3, .query_heads = 8};
  constexpr ulysses_bound odd{.sequences = 64, .gpus = 3, .query_heads = 8};
  constexpr ulysses_bound more{.sequences = 63, .gpus = 4, .query_heads = 8};
  EXPECT_EQ(staged<ulysses_plan>::bytes(even), (1 + 2 + 8 + 1) * std::size_t{256});
  EXPECT_EQ(staged<ulysses_plan>::bytes(odd), (1 + 3 + 9 + 2) * std::size_t{256});
  EXPECT_EQ(staged<ulysses_plan>::bytes(more), (1 + 2 + 10 + 1) * std::size_t{256});
}

// What a kernel reads of one side, as a table again.
void expect_table(ballast::device_ranges const& there, ballast::route_table const& table)
{
  std::uint32_t next = 0;
  for (std::uint32_t peer = 0; peer < table.rows().size(); ++peer) {
    for (ballast::route_table::range const range : table[rank_id{peer}]) {
      ASSERT_LT(next, *there.count);
      EXPECT_EQ(there.ranges[next].first, range.first);
      EXPECT_EQ(there.ranges[next].count, range.count);
      EXPECT_EQ(there.ranges[next].peer, peer);
      ++next;
    }
  }
  EXPECT_EQ(next, *there.count);
  std::span const rows(there.rows, there.ranks);
  EXPECT_THAT(rows.first(table.rows().size()), ElementsAreArray(table.rows()));
  EXPECT_THAT(rows.subspan(table.rows().size()), Each(0));
}

TEST(StagedRoute, HoldsThePlanThatWasStagedLast)
{
  ballast::random_source random(20240607);
  staged_on_host<route_plan> there({.ranks = 9, .ranges = 200});
  for (int trial = 0; trial < 200; ++trial) {
    std::size_t const ranks = 1 + random.below(9);
    auto const bags = ballast_test::random_bags(ranks, random);
    ballast_test::random_step const step(random.below(40), bags, random);
    auto const rank = ballast::to_id<rank_id>(random.below(ranks));
    auto const plan = ballast::plan_route(step.read, step.computed, rank);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << ranks << " ranks");
    there.hold(plan);

    auto const [sent, received, kept] = there->tables();
    expect_table(sent, plan.sent);
    expect_table(received, plan.received);
    EXPECT_THAT(std::span(kept.kept, *kept.count), ElementsAreArray(plan.kept));

    auto const& traffic = there->plan();
    EXPECT_EQ(traffic.rank, plan.rank);
    EXPECT_EQ(traffic.rows_before, plan.rows_before);
    EXPECT_EQ(traffic.rows_after, plan.rows_after);
    EXPECT_THAT(traffic.sent, ElementsAreArray(plan.sent.rows()));
    EXPECT_THAT(traffic.received, ElementsAreArray(plan.received.rows()));
  }
}

TEST(StagedRoute, MovesNothingBeforeTheFirstPlan)
{
  staged_on_host<route_plan> there({.ranks = 3, .ranges = 5});
  there.upload();
  auto const [sent, received, kept] = there->tables();
  EXPECT_EQ(*sent.count, 0U);
  EXPECT_EQ(*received.count, 0U);
  EXPECT_EQ(*kept.count, 0U);
  EXPECT_THAT(std::span(sent.rows, 3), Each(0));
  EXPECT_THAT(std::span(received.rows, 3), Each(0));
}

// One rank's plan with a given number of ranges.
route_plan plan_of(std::size_t ranks, int sent, int received, int kept)
{
  route_plan plan;
  plan.sent.start(ranks);
  plan.received.start(ranks);
  for (int range = 0; range < sent; ++range) { plan.sent.add(rank_id{1}, {range, 1}); }
  for (int range = 0; range < received; ++range) { plan.received.add(rank_id{1}, {range, 1}); }
  for (int range = 0; range < kept; ++range) { plan.kept.push_back({range, range, 1}); }
  plan.sent.finish();
  plan.received.finish();
  return plan;
}

TEST(StagedRoute, RefusesAPlanAboveItsBoundAndKeepsWhatItHas)  // Ensures (2)
{
  staged_on_host<route_plan> there({.ranks = 2, .ranges = 3});
  ASSERT_TRUE(there->stage(plan_of(2, 3, 3, 3)));
  std::vector const before(there.pinned().begin(), there.pinned().end());

  auto const expect_refused = [&](route_plan const& plan, char const* what) {
    EXPECT_FALSE(there->holds(plan));
    auto const refused = there->stage(plan);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
    EXPECT_THAT(refused.error().message, testing::HasSubstr(what));
    EXPECT_TRUE(std::ranges::equal(there.pinned(), before));
    EXPECT_EQ(there->plan().sent.size(), 2U);
  };
  expect_refused(plan_of(3, 0, 0, 0), "3 ranks, and what holds it on the device is made for 2;");
  expect_refused(plan_of(2, 4, 1, 1), "4 ranges of rows to send, and");
  expect_refused(plan_of(2, 1, 5, 1), "5 ranges of rows to receive, and");
  expect_refused(plan_of(2, 1, 1, 6), "6 ranges of rows to keep, and");
}

TEST(StagedRoute, IsHeldByTheBoundMadeForIt)
{
  for (auto const& plan : {plan_of(2, 3, 1, 2), plan_of(3, 0, 7, 0), plan_of(5, 2, 2, 9)}) {
    staged_on_host<route_plan> there(staged<route_plan>::bound_for(plan));
    EXPECT_TRUE(there->holds(plan));
  }
}

TEST(StagedRoute, AllocatesNothingInTheSteadyState)  // Ensures (3)
{
  staged_on_host<route_plan> there({.ranks = 4, .ranges = 10});
  auto const plan = plan_of(4, 10, 7, 3);
  auto const before = ballast_test::allocations();
  bool const fits = there->stage(plan).has_value();
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_TRUE(fits);
}

TEST(StagedDeathTest, RefusesWhatIsTooSmallOrNoBound)
{
  using on_route = staged<route_plan>;
  using on_bag = staged<ulysses_plan>;
  std::vector<std::byte> memory(5000);
  std::span const all(memory);
  EXPECT_DEATH(on_route({2, 3}, all.first(100), all), "100 bytes of device memory");
  EXPECT_DEATH(on_route({2, 3}, all, all.first(100)), "100 bytes of pinned memory");
  EXPECT_DEATH(on_route({0, 1}, all, all), "over no ranks");
  EXPECT_DEATH(on_route({1, 1U << 29}, all, all), "a route of 536870912 ranges");
  EXPECT_DEATH(on_bag({0, 3, 8}, all, all), "a bag of 3 GPUs with 0 sequences and 8");
  EXPECT_DEATH(on_bag({4, 0, 8}, all, all), "a bag of 0 GPUs with 4 sequences and 8");
  EXPECT_DEATH(on_bag({4, 3, 0}, all, all), "a bag of 3 GPUs with 4 sequences and 0");
  EXPECT_DEATH(on_bag({1'000'000'000, 3, 8}, all, all), "too many to be numbered");
}

TEST(StagedRouteDeathTest, RefusesRangesThatAreNoPartOfASample)
{
  staged_on_host<route_plan> there({.ranks = 2, .ranges = 3});
  route_plan plan = plan_of(2, 0, 0, 0);
  plan.sent.start(2);
  plan.sent.add(rank_id{1}, {0, ballast::longest_sample + 1});
  plan.sent.finish();
  EXPECT_DEATH((void)there->stage(plan), "a range of .* rows for rank 1,");
}

constexpr ulysses_bound bag_bound{.sequences = 4, .gpus = 3, .query_heads = 8};

/// A bag's tables, read where kernels would.
struct staged_bag : staged_on_host<ulysses_plan> {
  staged_bag() : staged_on_host(bag_bound) {}

  std::vector<tokens> lengths()
  {
    return {(*this)->tables().lengths, (*this)->tables().lengths + 5};
  }
  std::vector<std::int32_t> cu_seqlens()
  {
    return {(*this)->tables().cu_seqlens, (*this)->tables().cu_seqlens + 5};
  }
};

// That the rows of all GPUs are right, the tables' test says.
TEST(StagedBag, HoldsThePlansLengthsAndZerosBehindThem)
{
  staged_bag there;
  there.upload();
  EXPECT_EQ(there.lengths(), std::vector<tokens>(5, 0));
  EXPECT_EQ(there.cu_seqlens(), std::vector<std::int32_t>(5, 0));
  EXPECT_EQ(there->plan().rows(), 0);
  auto const four = bag_case{3, {5, 0, 9, 100}, 8}.plan();
  there.hold(four);
  EXPECT_EQ(there.lengths(), (std::vector<tokens>{5, 0, 9, 100, 0}));
  EXPECT_EQ(there.cu_seqlens(), (std::vector<std::int32_t>{0, 5, 5, 14, 114}));
  EXPECT_EQ(there->plan(), four);
  there.hold(bag_case{3, {7}, 8}.plan());
  EXPECT_EQ(there.lengths(), (std::vector<tokens>{7, 0, 0, 0, 0}));
  EXPECT_EQ(there.cu_seqlens(), (std::vector<std::int32_t>{0, 7, 7, 7, 7}));
  EXPECT_EQ(there->tables().rows(3), 7);
}

TEST(StagedBag, RefusesWhatItIsNotMadeFor)  // Ensures (2)
{
  staged_bag there;
  auto const kept = bag_case{3, {7}, 8}.plan();
  there.hold(kept);
  auto const expect_refused = [&](ulysses_plan const& plan, char const* sentence) {
    EXPECT_FALSE(there->holds(plan));
    auto const refused = there->stage(plan);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
    EXPECT_EQ(refused.error().message, sentence);
    there.upload();
    EXPECT_EQ(there.lengths(), (std::vector<tokens>{7, 0, 0, 0, 0}));
    EXPECT_EQ(there->plan(), kept);
  };
  expect_refused(bag_case{3, {3, 3, 3, 3, 3}, 8}.plan(),
                 "the bag has 5 sequences, and what holds its plan on the device is made for 4; "
                 "make it for the most of any step");
  expect_refused(
      bag_case{3, {ballast::longest_sample, 1}, 8}.plan(),
      "the bag has 2147483648 rows, and cu_seqlens counts them in 32 bits; give it fewer "
      "sequences");
  expect_refused(bag_case{2, {7}, 4}.plan(),
                 "the plan is for 2 GPUs, 4 query heads and whole groups of 0 key-value heads, and "
                 "what holds it on the device is made for 3, 8 and 0; make another for this bag");
  EXPECT_FALSE(there->holds(bag_case{2, {7}, 8}.plan()));
  EXPECT_FALSE(there->holds(bag_case{3, {7}, 4}.plan()));
}

TEST(StagedBag, StagesWithoutAllocating)  // Ensures (3)
{
  staged_bag there;
  std::vector<ulysses_plan> const plans = {bag_case{3, {5, 0, 9, 100}, 8}.plan(),
                                           bag_case{3, {}, 8}.plan()};
  std::size_t const before = ballast_test::allocations();
  for (auto const& plan : plans) { (void)there->stage(plan); }
  EXPECT_EQ(ballast_test::allocations(), before);
}

constexpr std::uint32_t most_sequences = 20;

template <class T>
std::vector<T> drawn(std::size_t count, ballast::random_source& random)
{
  std::vector<T> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(static_cast<T>(static_cast<float>(random.between(-1000, 1000)) / 7));
  }
  return all;
}

template <class T>
bool same_bytes(std::vector<T> const& one, std::vector<T> const& other)
{
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
}

// The oracle is the host's functions; zeros below zero are among the numbers.
template <class T>
void expect_as_on_the_host(staged_on_host<sequence_rows>& there, std::vector<tokens> const& copies,
                           std::size_t width, ballast::random_source& random)
{
  auto const all = static_cast<std::size_t>(std::reduce(copies.begin(), copies.end()));
  there.hold({copies, {}});
  auto const rows = drawn<T>(copies.size() * width, random);
  std::vector<T> repeated(all * width), expected(repeated.size());
  ballast_test::run_rows_on_host(
      ballast::detail::repeated_rows<T>{there->tables(), rows.data(), repeated.data(), width});
  ballast::repeat_rows<T>(copies, rows, expected);
  EXPECT_TRUE(same_bytes(repeated, expected));

  auto gradients = drawn<T>(repeated.size(), random);
  if (!gradients.empty()) { gradients.front() = -T{}; }
  std::vector<T> sums(rows.size()), expected_sums(rows.size());
  ballast_test::run_rows_on_host(
      ballast::detail::summed_rows<T>{there->tables(), gradients.data(), sums.data(), width});
  ballast::sum_rows<T>(copies, gradients, expected_sums);
  EXPECT_TRUE(same_bytes(sums, expected_sums));
}

TEST(StagedSequenceRows, AreRepeatedAndSummedAsOnTheHost)
{
  ballast::random_source random(20250301);
  staged_on_host<sequence_rows> there(most_sequences);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<tokens> copies(random.below(most_sequences + 1));
    for (tokens& each : copies) { each = random.between(0, 9); }
    std::size_t const width = random.below(20);
    expect_as_on_the_host<float>(there, copies, width, random);
    expect_as_on_the_host<double>(there, copies, width, random);
    if (testing::Test::HasFailure()) { return; }
  }
}

TEST(StagedSequenceRows, Of16BitsAreAddedInFp32)
{
  staged_on_host<sequence_rows> there(most_sequences);
  there.hold({{3}, {}});
  std::vector<__nv_bfloat16> const gradients{256.0F, 1.0F, 1.0F};  // 257 is not one of bf16
  std::vector<__nv_bfloat16> sum(1);
  ballast_test::run_rows_on_host(ballast::detail::summed_rows<__nv_bfloat16>{
      there->tables(), gradients.data(), sum.data(), 1});
  EXPECT_EQ(static_cast<float>(sum[0]), 258);
}

TEST(StagedSequenceRows, RefuseMoreSequencesThanTheyAreMadeFor)  // Ensures (1) (2)
{
  staged_on_host<sequence_rows> there(most_sequences);
  there.upload();
  EXPECT_EQ(*there->tables().count, 0);
  there.hold({{2, 1}, {}});
  auto const refused = there->stage({std::vector<tokens>(most_sequences + 1, 1), {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(refused.error().message,
            "there are rows of 21 sequences, and their table on the device is made for 20; make it "
            "for the most of any step");
  there.upload();
  EXPECT_EQ(*there->tables().count, 2);
  EXPECT_EQ(there->tables().begins[2], 3);
}

}  // namespace
