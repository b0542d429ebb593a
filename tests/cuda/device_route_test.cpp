// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/device_route.hpp>

#include "../route/instances.hpp"
#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"
#include "host_rows.hpp"
#include "rows_on_host.hpp"

#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <cuda_bf16.h>
#include <cstring>

namespace {

using ballast::device_route;
using ballast::device_sequence_rows;
using ballast::rank_id;
using ballast::route_bound;
using ballast::route_plan;
using ballast::route_table;
using ballast::tokens;
using ballast_test::route_memory;
using testing::Each;
using testing::ElementsAreArray;
using testing::HasSubstr;

static_assert(device_route::bytes({.ranks = 1, .ranges = 0}) == 32);
static_assert(device_route::bytes({.ranks = 8, .ranges = 1000}) == 16 + 8 * 16 + 1000 * 56);
static_assert(device_route::bytes({.ranks = 1, .ranges = 500'000'000}) > 28'000'000'000);

// What a kernel reads of one side, as a table again.
void expect_table(ballast::device_ranges const& there, route_table const& table)
{
  std::uint32_t next = 0;
  for (std::uint32_t peer = 0; peer < table.rows().size(); ++peer) {
    for (ballast::row_range const range : table[rank_id{peer}]) {
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

TEST(DeviceRoute, HoldsThePlanThatWasStagedLast)
{
  ballast::random_source random(20240607);
  route_bound const bound{.ranks = 9, .ranges = 200};
  route_memory memory(bound);
  device_route there(bound, memory.device(), memory.pinned());
  for (int trial = 0; trial < 200; ++trial) {
    std::size_t const ranks = 1 + random.below(9);
    auto const bags = ballast_test::random_bags(ranks, random);
    ballast_test::random_step const step(random.below(40), bags, random);
    auto const rank = ballast::to_id<rank_id>(random.below(ranks));
    auto const plan = ballast::plan_route(step.read, step.computed, rank);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << ranks << " ranks");
    ASSERT_TRUE(there.stage(plan));
    memory.upload();

    expect_table(there.sent(), plan.sent);
    expect_table(there.received(), plan.received);
    EXPECT_THAT(std::span(there.kept().kept, *there.kept().count), ElementsAreArray(plan.kept));

    auto const traffic = there.traffic();
    EXPECT_EQ(traffic.rank, plan.rank);
    EXPECT_EQ(traffic.rows_before, plan.rows_before);
    EXPECT_EQ(traffic.rows_after, plan.rows_after);
    EXPECT_THAT(traffic.sent, ElementsAreArray(plan.sent.rows()));
    EXPECT_THAT(traffic.received, ElementsAreArray(plan.received.rows()));
  }
}

TEST(DeviceRoute, MovesNothingBeforeTheFirstPlan)
{
  route_bound const bound{.ranks = 3, .ranges = 5};
  route_memory memory(bound);
  device_route const there(bound, memory.device(), memory.pinned());
  memory.upload();
  EXPECT_EQ(*there.sent().count, 0U);
  EXPECT_EQ(*there.received().count, 0U);
  EXPECT_EQ(*there.kept().count, 0U);
  EXPECT_THAT(std::span(there.sent().rows, 3), Each(0));
  EXPECT_THAT(std::span(there.received().rows, 3), Each(0));
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

TEST(DeviceRoute, RefusesAPlanAboveItsBoundAndKeepsWhatItHas)  // Ensures (2)
{
  route_bound const bound{.ranks = 2, .ranges = 3};
  route_memory memory(bound);
  device_route there(bound, memory.device(), memory.pinned());
  ASSERT_TRUE(there.stage(plan_of(2, 3, 3, 3)));
  std::vector const before(memory.pinned().begin(), memory.pinned().end());

  auto const expect_refused = [&](route_plan const& plan, char const* what) {
    auto const staged = there.stage(plan);
    ASSERT_FALSE(staged);
    EXPECT_EQ(staged.error().code, ballast::error_code::out_of_range);
    EXPECT_THAT(staged.error().message, HasSubstr(what));
    EXPECT_TRUE(std::ranges::equal(memory.pinned(), before));
    EXPECT_EQ(there.traffic().sent.size(), 2U);
  };
  expect_refused(plan_of(3, 0, 0, 0), "3 ranks, and the device route is made for 2;");
  expect_refused(plan_of(2, 4, 1, 1), "4 ranges of rows to send, and");
  expect_refused(plan_of(2, 1, 5, 1), "5 ranges of rows to receive, and");
  expect_refused(plan_of(2, 1, 1, 6), "6 ranges of rows to keep, and");
}

TEST(DeviceRoute, AllocatesNothingInTheSteadyState)  // Ensures (3)
{
  route_bound const bound{.ranks = 4, .ranges = 10};
  route_memory memory(bound);
  device_route there(bound, memory.device(), memory.pinned());
  auto const plan = plan_of(4, 10, 7, 3);
  auto const before = ballast_test::allocations();
  bool const staged = there.stage(plan).has_value();
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_TRUE(staged);
}

TEST(DeviceRouteDeathTest, RefusesMemoryThatIsTooSmallOrMisaligned)
{
  route_bound const bound{.ranks = 2, .ranges = 3};
  route_memory memory(bound);
  auto const device = memory.device();
  auto const pinned = memory.pinned();
  EXPECT_DEATH(device_route(bound, device.first(100), pinned), "100 bytes of device memory");
  EXPECT_DEATH(device_route(bound, device, pinned.first(100)), "100 bytes of pinned memory");
  route_bound const smaller{.ranks = 1, .ranges = 3};
  EXPECT_DEATH(device_route(smaller, device.subspan(8), pinned),
               "the device memory does not begin");
  EXPECT_DEATH(device_route(smaller, device, pinned.subspan(8)),
               "the pinned memory does not begin");
  EXPECT_DEATH(device_route({.ranks = 0, .ranges = 1}, device, pinned), "over no ranks");
  EXPECT_DEATH(device_route({.ranks = 1, .ranges = 1U << 29}, device, pinned),
               "a route of 536870912 ranges");
}

TEST(DeviceRouteDeathTest, RefusesRangesThatAreNoPartOfASample)
{
  route_bound const bound{.ranks = 2, .ranges = 3};
  route_memory memory(bound);
  device_route there(bound, memory.device(), memory.pinned());
  route_plan plan = plan_of(2, 0, 0, 0);
  plan.sent.start(2);
  plan.sent.add(rank_id{1}, {0, ballast::longest_sample + 1});
  plan.sent.finish();
  EXPECT_DEATH((void)there.stage(plan), "a range of .* rows for rank 1,");
}

constexpr std::uint32_t most_sequences = 20;

/// Copies that kernels read where they were staged.
struct staged_copies {
  std::vector<tokens> memory;
  device_sequence_rows there;

  staged_copies() : memory(most_sequences + 2, -1), there(most_sequences, bytes(), bytes()) {}

  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(memory)); }
};

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
void expect_as_on_the_host(staged_copies& staged, std::vector<tokens> const& copies,
                           std::size_t width, ballast::random_source& random)
{
  auto const all = static_cast<std::size_t>(std::reduce(copies.begin(), copies.end()));
  ASSERT_TRUE(staged.there.stage(copies));
  auto const rows = drawn<T>(copies.size() * width, random);
  std::vector<T> repeated(all * width), expected(repeated.size());
  ballast_test::run_rows_on_host(
      ballast::detail::repeated_rows<T>{staged.there.table(), rows.data(), repeated.data(), width});
  ballast::repeat_rows<T>(copies, rows, expected);
  EXPECT_TRUE(same_bytes(repeated, expected));

  auto gradients = drawn<T>(repeated.size(), random);
  if (!gradients.empty()) { gradients.front() = -T{}; }
  std::vector<T> sums(rows.size()), expected_sums(rows.size());
  ballast_test::run_rows_on_host(
      ballast::detail::summed_rows<T>{staged.there.table(), gradients.data(), sums.data(), width});
  ballast::sum_rows<T>(copies, gradients, expected_sums);
  EXPECT_TRUE(same_bytes(sums, expected_sums));
}

TEST(DeviceSequenceRows, AreRepeatedAndSummedAsOnTheHost)
{
  ballast::random_source random(20250301);
  staged_copies staged;
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<tokens> copies(random.below(most_sequences + 1));
    for (tokens& each : copies) { each = random.between(0, 9); }
    std::size_t const width = random.below(20);
    expect_as_on_the_host<float>(staged, copies, width, random);
    expect_as_on_the_host<double>(staged, copies, width, random);
    if (testing::Test::HasFailure()) { return; }
  }
}

TEST(DeviceSequenceRows, Of16BitsAreAddedInFp32)
{
  staged_copies staged;
  ASSERT_TRUE(staged.there.stage(std::vector<tokens>{3}));
  std::vector<__nv_bfloat16> const gradients{256.0F, 1.0F, 1.0F};  // 257 is not one of bf16
  std::vector<__nv_bfloat16> sum(1);
  ballast_test::run_rows_on_host(ballast::detail::summed_rows<__nv_bfloat16>{
      staged.there.table(), gradients.data(), sum.data(), 1});
  EXPECT_EQ(static_cast<float>(sum[0]), 258);
}

TEST(DeviceSequenceRows, RefuseMoreSequencesThanTheyAreMadeFor)  // Ensures (1) (2)
{
  staged_copies staged;
  EXPECT_EQ(*staged.there.table().count, 0);
  ASSERT_TRUE(staged.there.stage(std::vector<tokens>{2, 1}));
  auto const refused = staged.there.stage(std::vector<tokens>(most_sequences + 1, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(refused.error().message,
            "there are rows of 21 sequences, and their table on the device is made for 20; make it "
            "for the most of any step");
  EXPECT_EQ(*staged.there.table().count, 2);
  EXPECT_EQ(staged.there.table().begins[2], 3);
}

TEST(DeviceSequenceRowsDeathTest, RejectTooLittleMemory)
{
  std::vector<std::byte> small(8);
  EXPECT_DEATH(device_sequence_rows(most_sequences, small, small), "for copies that take 176");
}

}  // namespace
