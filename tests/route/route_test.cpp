// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/route.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "instances.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <atomic>
#include <cstring>

namespace {

using ballast::rank_id;
using ballast::result;
using ballast::row_array;
using ballast::rows_of;
using ballast::thread_communicator;
using ballast::to_index;
using ballast::tokens;
using testing::ElementsAre;

// Activations of two bytes that no arithmetic understands, as bf16 is to the host.
struct bf16 {
  std::uint16_t bits;
};

constexpr std::size_t activation_width = 3;

struct rank_arrays {
  std::vector<bf16> activations;
  std::vector<std::int32_t> tags;
  std::vector<float> positions;

  explicit rank_arrays(tokens rows)
      : activations(static_cast<std::size_t>(rows) * activation_width),
        tags(static_cast<std::size_t>(rows)),
        positions(static_cast<std::size_t>(rows) * 2)
  {}
  // Values that tell tokens apart; the floats include bit patterns that are no number.
  explicit rank_arrays(std::vector<std::int64_t> const& names)
      : rank_arrays(static_cast<tokens>(names.size()))
  {
    for (std::size_t row = 0; row < names.size(); ++row) {
      for (std::size_t at = 0; at < activation_width; ++at) {
        activations[row * activation_width + at] = {
            static_cast<std::uint16_t>(names[row] * 31 + static_cast<std::int64_t>(at))};
      }
      tags[row] = static_cast<std::int32_t>(names[row]);
      std::uint32_t const bits = 0x7f800001U + static_cast<std::uint32_t>(names[row]);
      std::memcpy(&positions[2 * row], &bits, sizeof(bits));
      positions[2 * row + 1] = -0.0F;
    }
  }
  [[nodiscard]] std::vector<std::byte> bytes() const
  {
    std::vector<std::byte> all;
    for (auto const part : {std::as_bytes(std::span(activations)), std::as_bytes(std::span(tags)),
                            std::as_bytes(std::span(positions))}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
};

auto forward(thread_communicator& comm, ballast::route_plan const& plan, ballast::workspace& memory,
             rank_arrays const& from, rank_arrays& to)
{
  return ballast::route(comm, plan, memory,
                        rows_of(from.activations, to.activations, activation_width),
                        rows_of(from.tags, to.tags), rows_of(from.positions, to.positions, 2));
}

auto backward(thread_communicator& comm, ballast::route_plan const& plan,
              ballast::workspace& memory, rank_arrays const& from, rank_arrays& to)
{
  return ballast::reverse_route(
      comm, plan, memory, rows_of(from.activations, to.activations, activation_width),
      rows_of(from.tags, to.tags), rows_of(from.positions, to.positions, 2));
}

TEST(Route, BringsArraysOfDifferentTypesByteForByteAndBack)  // Ensures (1)
{
  ballast::random_source random(1);
  for (int trial = 0; trial < 60; ++trial) {
    std::size_t const ranks = 1 + random.below(9);
    auto const bags = ballast_test::random_bags(ranks, random);
    ballast_test::random_step const step(random.below(30), bags, random);
    auto const before = ballast_test::named_rows(step.read);
    auto const after = ballast_test::named_rows(step.computed);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << ranks << " ranks");
    ballast::run_ranks(ranks, [&](thread_communicator& comm) {
      auto const plan = ballast::plan_route(step.read, step.computed, comm.rank());
      ballast::workspace memory;
      rank_arrays const read(before[to_index(comm.rank())]);
      rank_arrays computed(plan.rows_after);
      EXPECT_TRUE(forward(comm, plan, memory, read, computed).has_value());
      EXPECT_EQ(computed.bytes(), rank_arrays(after[to_index(comm.rank())]).bytes());
      rank_arrays back(plan.rows_before);
      EXPECT_TRUE(backward(comm, plan, memory, computed, back).has_value());
      EXPECT_EQ(back.bytes(), read.bytes());
    });
  }
}

TEST(Route, AllocatesNothingInTheSteadyState)  // Ensures (2)
{
  ballast::random_source random(4);
  auto const bags = ballast_test::random_bags(4, random);
  ballast_test::random_step const step(40, bags, random);
  auto const names = ballast_test::named_rows(step.read);
  std::atomic<bool> allocated = false;
  ballast::run_ranks(4, [&](thread_communicator& comm) {
    auto const plan = ballast::plan_route(step.read, step.computed, comm.rank());
    ballast::workspace memory;
    rank_arrays const read(names[to_index(comm.rank())]);
    rank_arrays computed(plan.rows_after);
    rank_arrays back(plan.rows_before);
    auto const both = [&] {
      return forward(comm, plan, memory, read, computed).has_value() &&
             backward(comm, plan, memory, computed, back).has_value();
    };
    EXPECT_TRUE(both());
    EXPECT_TRUE(comm.barrier());
    auto const before = ballast_test::allocations();  // of all ranks, which do nothing else
    bool const moved = both() && comm.barrier().has_value();
    if (ballast_test::allocations() != before) { allocated = true; }
    EXPECT_TRUE(comm.barrier());
    EXPECT_TRUE(moved);
  });
  EXPECT_FALSE(allocated);
}

TEST(Route, OfRanksWithNothingAndOfNoArraysIsAnExchangeToo)
{
  std::array<tokens, 1> const lengths{6};
  auto const read = ballast::place(lengths, std::array{rank_id{2}}, 3);
  auto const computed = ballast::place(lengths, std::array{rank_id{0}}, 3);
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    auto const plan = ballast::plan_route(read, computed, comm.rank());
    ballast::workspace memory;
    std::vector<std::int64_t> x(static_cast<std::size_t>(plan.rows_before), 5);
    std::vector<std::int64_t> y(static_cast<std::size_t>(plan.rows_after), -1);
    EXPECT_TRUE(ballast::route(comm, plan, memory, rows_of(x, y)));
    EXPECT_TRUE(ballast::route(comm, plan, memory));
    if (comm.rank() == rank_id{0}) {
      EXPECT_THAT(y, ElementsAre(5, 5, 5, 5, 5, 5));
    } else {
      EXPECT_TRUE(y.empty());
    }
  });
}

TEST(Route, IsPlannedFromTwoPlacements)
{
  ballast::gathered_samples<tokens> const all{{7, 3}, {rank_id{0}, rank_id{1}}, 2};
  ballast::bag_layout const bags(std::array{ballast::bag{rank_id{0}, 2}});
  auto const plan = ballast::partition(all.samples, bags, ballast::quadratic_cost{1}, {},
                                       ballast::longest_processing_time{})
                        .value();
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    ballast::workspace memory;
    // [route]
    auto const as_read = ballast::place_as_read(all);            // where data loaders left them
    auto const as_planned = ballast::place(plan, bags).value();  // where the plan wants them
    auto const to_compute = ballast::plan_route(as_read, as_planned, comm.rank());

    auto const before = static_cast<std::size_t>(to_compute.rows_before);
    auto const after = static_cast<std::size_t>(to_compute.rows_after);
    std::vector<float> x(before * 64);
    std::vector<float> x_there(after * 64);
    std::vector<std::int32_t> position(before);
    std::vector<std::int32_t> position_there(after);
    auto const moved = ballast::route(comm, to_compute, memory, rows_of(x, x_there, 64),
                                      rows_of(position, position_there));
    auto const back = ballast::reverse_route(comm, to_compute, memory, rows_of(x_there, x, 64));
    // [route]
    EXPECT_TRUE(moved && back);
    EXPECT_EQ(after, comm.rank() == rank_id{0} ? 6U : 4U);
  });
}

// A document of 12 tokens with images at 1 to 4 and 7 to 11, and one of 5 that is an image.
TEST(Route, BringsWhatAnEncoderMadeIntoTheSequences)
{
  std::vector<tokens> const lengths{12, 5};
  std::vector<ballast::bag_id> const llm_owner{ballast::bag_id{0}, ballast::bag_id{1}};
  ballast::bag_layout const llm_bags(
      std::array{ballast::bag{rank_id{0}, 2}, ballast::bag{rank_id{2}, 1}});
  std::vector<tokens> const image_lengths{3, 4, 5};
  std::vector<ballast::bag_id> const encoder_owner{ballast::bag_id{2}, ballast::bag_id{1},
                                                   ballast::bag_id{0}};
  auto const encoder_bags = ballast::one_gpu_bags(3);
  // [parts]
  std::vector<ballast::sample_part> const images{
      {ballast::sample_id{0}, 1, 3}, {ballast::sample_id{0}, 7, 4}, {ballast::sample_id{1}, 0, 5}};
  // image by image, where the encoder's plan put them
  auto const encoded = ballast::place(image_lengths, encoder_owner, encoder_bags);
  // where the language model's plan puts its sequences
  auto const sequences = ballast::place(lengths, llm_owner, llm_bags);
  auto const wanted = ballast::place_parts(sequences, images);
  // [parts]
  auto const names = ballast_test::named_rows(encoded);
  auto const arrived = ballast::run_ranks(3, [&](thread_communicator& comm) {
    ballast::workspace memory;
    auto const plan = ballast::plan_route(encoded, wanted, comm.rank());
    std::vector<std::int64_t> there(static_cast<std::size_t>(plan.rows_after), -1);  // a text
    EXPECT_TRUE(ballast::route(comm, plan, memory, rows_of(names[to_index(comm.rank())], there)));
    return there;
  });
  auto const name = ballast_test::token_name;
  EXPECT_THAT(arrived[0], ElementsAre(-1, name(0, 0), name(0, 1), name(0, 2), -1, -1));
  EXPECT_THAT(arrived[1], ElementsAre(-1, name(1, 0), name(1, 1), name(1, 2), name(1, 3), -1));
  EXPECT_THAT(arrived[2], ElementsAre(name(2, 0), name(2, 1), name(2, 2), name(2, 3), name(2, 4)));
}

// Its operations come one after another, so that the one that failed is the last.
struct failing_mover {
  std::size_t fails_at;
  std::size_t& calls;

  std::span<std::byte> room(std::size_t /*bytes*/) { return {}; }
  ballast::result<void> pack(std::span<std::byte> /*outgoing*/) { return next(); }
  ballast::result<void> keep() { return next(); }
  ballast::result<void> arrive() { return next(); }
  ballast::result<void> unpack(std::span<std::byte const> /*incoming*/) { return next(); }

 private:
  ballast::result<void> next()
  {
    if (calls++ != fails_at) { return {}; }
    return ballast::fail(ballast::error_code::transport, fails_at, "broken");
  }
};

// What rank 1 of three does otherwise hides behind equal sizes of messages, but for one plan; all
// ranks are told.
TEST(Route, OfOtherArraysOrPlansIsAMismatchOnEveryRank)
{
  std::array<tokens, 2> const lengths{2, 2};
  auto const read = ballast::place(lengths, std::array{rank_id{0}, rank_id{0}}, 3);
  auto const computed = ballast::place(lengths, std::array{rank_id{0}, rank_id{1}}, 3);
  auto const other = ballast::place(lengths, std::array{rank_id{1}, rank_id{0}}, 3);
  auto const longer = ballast::place(lengths, std::array{rank_id{2}, rank_id{2}}, 3);
  enum class odd { element, width, number, plan, sizes };
  for (odd const what : {odd::element, odd::width, odd::number, odd::plan, odd::sizes}) {
    ballast::run_ranks(3, [&](thread_communicator& comm) {
      bool const differs = comm.rank() == rank_id{1};
      bool const is_in_plan = what == odd::plan || what == odd::sizes;
      auto const& changed = what == odd::plan ? other : longer;
      auto const plan =
          ballast::plan_route(read, differs && is_in_plan ? changed : computed, comm.rank());
      ballast::workspace memory;
      std::vector<double> x(static_cast<std::size_t>(plan.rows_before), 1.0);
      std::vector<double> y(static_cast<std::size_t>(plan.rows_after), 2.0);
      std::vector<float> narrow(4 * x.size()), narrow_there(4 * y.size());
      auto const rows = [&](std::size_t first, std::size_t width) {
        return rows_of(std::span(narrow).subspan(first * x.size(), width * x.size()),
                       std::span(narrow_there).subspan(first * y.size(), width * y.size()), width);
      };
      auto const done = !differs || is_in_plan ? route(comm, plan, memory, rows_of(x, y))
                        : what == odd::element ? route(comm, plan, memory, rows(0, 2))
                        : what == odd::width   ? route(comm, plan, memory, rows(0, 1))
                                               : route(comm, plan, memory, rows(0, 1), rows(1, 1));
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ballast::error_code::mismatch);
      EXPECT_EQ(done.error().ranks, std::vector{rank_id{1}}) << done.error().message;
      bool const in_arrays = done.error().message.find("give arrays") != std::string::npos;
      EXPECT_EQ(in_arrays, !is_in_plan) << done.error().message;
      EXPECT_THAT(y, testing::Each(2.0));
      EXPECT_TRUE(comm.barrier());
    });
  }
}

TEST(Route, EndsWithTheFirstFailureOfItsMover)
{
  std::array<tokens, 1> const none{0};
  for (std::size_t fails_at = 0; fails_at < 4; ++fails_at) {
    auto comms = thread_communicator::make(1);
    ballast::workspace memory;
    std::size_t calls = 0;
    auto const moved = ballast::detail::exchange_rows(comms[0], {rank_id{0}, 0, 0, none, none}, {},
                                                      memory, failing_mover{fails_at, calls});
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().position, fails_at);
    EXPECT_EQ(calls, fails_at + 1);
  }
}

TEST(RouteDeathTest, RefusesArraysAndPlansThatAreNotItsOwn)
{
  auto const where = ballast::place(std::array<tokens, 1>{2}, std::array{rank_id{0}}, 1);
  auto const plan = ballast::plan_route(where, where, rank_id{0});
  auto comms = thread_communicator::make(1);
  ballast::workspace memory;
  std::vector<int> two(2);
  std::vector<int> three(3);
  EXPECT_DEATH((void)ballast::route(comms[0], plan, memory, rows_of(three, two)),
               "array 0 has 12 bytes in `from`, and rank 0 has 2 rows of 4 bytes before");
  EXPECT_DEATH((void)ballast::route(comms[0], plan, memory, rows_of(two, three)),
               "array 0 has 12 bytes in `to`, and rank 0 has 2 rows of 4 bytes after");
  ballast::row_array const no_rows{};
  EXPECT_DEATH((void)ballast::route(comms[0], plan, memory, no_rows),
               "array 0 has rows of no bytes");
  std::vector<int> four(4);
  auto const first = std::span(four).first(2);
  auto const middle = std::span(four).subspan(1, 2);
  EXPECT_DEATH((void)ballast::route(comms[0], plan, memory, rows_of(first, middle)),
               "`to` of array 0 overlaps ");
  EXPECT_DEATH(
      (void)ballast::route(comms[0], plan, memory, rows_of(two, first), rows_of(two, middle)),
      "`to` of array 0 overlaps ");
  auto const wider = ballast::place(std::array<tokens, 1>{2}, std::array{rank_id{0}}, 2);
  auto const of_two = ballast::plan_route(wider, wider, rank_id{0});
  EXPECT_DEATH((void)ballast::route(comms[0], of_two, memory, rows_of(two, two)),
               "the route is that of rank 0 of 2, and the communicator that of rank 0 of 1");
}

/// All that is asked of a carrier.
struct least_carrier {
  [[nodiscard]] rank_id rank() const { return {}; }
  [[nodiscard]] std::size_t size() const { return 1; }
  result<void> begin_step() { return {}; }
  result<void> route(ballast::route_plan const&, row_array const&) { return {}; }
  result<void> reverse_route(ballast::route_plan const&, row_array const&) { return {}; }
  result<void> copy(row_array const&) { return {}; }
};
static_assert(ballast::row_carrier<least_carrier>);
static_assert(ballast::row_carrier<ballast::host_carrier<ballast::thread_communicator>>);

TEST(HostCarrier, MovesRowsThereAndBack)
{
  std::vector<ballast::tokens> const lengths{3, 2};
  std::vector<rank_id> const source{rank_id{0}, rank_id{1}};
  std::vector<rank_id> const owner{rank_id{1}, rank_id{0}};
  auto const read = ballast::place(lengths, source, 2);
  auto const computed = ballast::place(lengths, owner, 2);
  ballast::run_ranks(2, [&](ballast::thread_communicator& comm) {
    ballast::host_carrier carrier(comm);
    EXPECT_EQ(carrier.rank(), comm.rank());
    EXPECT_EQ(carrier.size(), 2U);
    auto const plan = ballast::plan_route(read, computed, comm.rank());
    bool const first = comm.rank() == rank_id{0};
    std::vector<int> const own = first ? std::vector{1, 2, 3} : std::vector{4, 5};
    std::vector<int> there(5 - own.size());
    std::vector<int> copied(there.size());
    std::vector<int> back(own.size());
    EXPECT_TRUE(carrier.begin_step());
    EXPECT_TRUE(carrier.route(plan, ballast::rows_of(own, there)));
    EXPECT_TRUE(carrier.copy(ballast::rows_of(there, copied)));
    EXPECT_EQ(copied, first ? (std::vector{4, 5}) : (std::vector{1, 2, 3}));
    EXPECT_TRUE(carrier.reverse_route(plan, ballast::rows_of(copied, back)));
    EXPECT_EQ(back, own);
  });
}

}  // namespace
