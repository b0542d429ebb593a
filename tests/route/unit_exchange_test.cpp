// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/unit_exchange.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "exchange_checks.hpp"  // defines: ballast_test::{expect_dead_rank_named, lone_rank}
#include "instances.hpp"        // defines: ballast_test::named_rows
#include "unit_steps.hpp"       // defines: ballast_test::{unit_step, random_unit_step, ...}

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/process_grid.hpp>

#include <latch>
#include <new>

namespace {

using namespace std::chrono_literals;
using ballast::error_code;
using ballast::rank_id;
using ballast::rows_of;
using ballast::thread_communicator;
using ballast::tokens;
using ballast::transfer_id;
using ballast::unit_exchange;
using ballast::unit_strategy;
using ballast_test::lone_rank;
using ballast_test::step_arrays;
using ballast_test::unit_step;

using widths = std::vector<std::size_t>;

void expect_exchanged(unit_step const& step, ballast::random_source& random)
{
  step_arrays const arrays(step.from, step.to, widths{1 + random.below(20), 16}, random);
  ballast::run_ranks(step.ranks, [&](thread_communicator& comm) {
    unit_exchange exchange;
    expect_unit_exchange(comm, step, arrays, exchange);
  });
}

TEST(UnitExchange, MovesEveryByteAndBackBetweenRandomUnits)  // Ensures (1) (2)
{
  ballast::random_source random(1919);
  int const trials = ballast_test::trials_of(1000);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    expect_exchanged(ballast_test::random_unit_step(random, 12), random);
    if (testing::Test::HasFailure()) { return; }
  }
}

// Placements of a balancer, not consecutive; senders that are receivers too.
TEST(UnitExchange, JoinsAnyPlacements)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 50; ++trial) {
    unit_step step({3, 1, 1}, {4, 1, 1}, std::vector<tokens>(20, 3));
    bool const shared = trial % 2 == 0;
    if (shared) { step.senders = {rank_id{2}, rank_id{3}, rank_id{5}}; }
    auto const owners = [&](std::vector<rank_id> const& unit) {
      std::vector<rank_id> all(step.lengths.size());
      for (rank_id& each : all) { each = unit[random.below(unit.size())]; }
      return all;
    };
    ballast::place(step.from, step.lengths, owners(step.senders), step.ranks);
    ballast::place(step.to, step.lengths, owners(step.receivers), step.ranks);
    expect_exchanged(step, random);
  }
}

// As a trainer calls it: an encoder of 3 replicas, an LLM of 2 with 2 stages each of 2 tensor
// ranks.
TEST(UnitExchange, JoinsTheModulesOfAJob)
{
  std::vector<tokens> const lengths{4, 1, 3, 2, 5, 6};
  ballast::run_ranks(11, [&](thread_communicator& comm) {
    // [units]
    constexpr std::uint32_t encoder = 0;
    constexpr std::uint32_t llm = 1;
    ballast::process_grid const grid({{.data = 3}, {2, 2, 2}});
    auto const from_ranks = grid.data_ranks(encoder, grid[encoder].pipeline - 1);
    auto const to_ranks = grid.data_ranks(llm);
    ballast::unit_pair const units{from_ranks, to_ranks};

    ballast::workspace memory;
    ballast::placement encoded;
    ballast::placement wanted;
    assign_unit(encoded, memory, lengths, from_ranks, units.groups(), grid.ranks());
    assign_unit(wanted, memory, lengths, to_ranks, units.groups(), grid.ranks());
    auto const plan = plan_units(encoded, wanted, units, unit_strategy::brokers, comm.rank());

    unit_exchange exchange;
    std::vector<float> x(static_cast<std::size_t>(plan.rows_before()) * 8, 1.0F);
    std::vector<float> x_there(static_cast<std::size_t>(plan.rows_after()) * 8);
    auto const there = exchange.forward(comm, plan, rows_of(x, x_there, 8));  // encoders go on
    auto const back = exchange.backward(comm, plan, rows_of(x_there, x, 8));  // gradients
    auto const sent = exchange.finish(comm);

    // The other tensor ranks of the first stage get the rows from the one that has them.
    auto tensor_group = comm.split(grid.colour(comm.rank(), ballast::grid_axis::tensor)).value();
    // [units]
    EXPECT_TRUE(there && back && sent);
    EXPECT_EQ(tensor_group.size(), grid[grid.place(comm.rank()).module].tensor);
    EXPECT_EQ(std::ranges::count(x_there, 1.0F), std::ssize(x_there));
  });
}

// Each sender sends three microbatches and leaves, as a stage of a pipeline does, before any
// receiver has called; the messages are told apart, and their memory is used again.
TEST(UnitExchange, LetsSendersLeaveWhileReceiversSleep)
{
  unit_step const step({4, 1, 1}, {2, 1, 1}, {5, 4, 3, 2, 1, 6});
  for (unit_strategy const strategy : ballast::unit_plan::strategies) {
    std::latch senders_left(4);
    ballast::run_ranks(step.ranks, [&](thread_communicator& comm) {
      auto const plan = plan_units(step.from, step.to, step.units(), strategy, comm.rank());
      bool const sends = to_index(comm.rank()) < 4;
      unit_exchange exchange;
      if (!sends) { senders_left.wait(); }
      for (int microbatch = 0; microbatch < 3; ++microbatch) {
        std::vector<int> x(static_cast<std::size_t>(plan.rows_before()), microbatch);
        std::vector<int> there(static_cast<std::size_t>(plan.rows_after()), -1);
        EXPECT_TRUE(exchange.forward(comm, plan, rows_of(x, there)));
        EXPECT_THAT(there, testing::Each(microbatch));
      }
      if (sends) { senders_left.count_down(); }
      EXPECT_TRUE(exchange.finish(comm));
    });
  }
}

TEST(UnitExchange, AllocatesNothingInTheSteadyState)  // Ensures (3)
{
  unit_step const step({4, 1, 1}, {6, 1, 1}, std::vector<tokens>(24, 5));
  ballast::run_ranks(step.ranks, [&](thread_communicator& comm) {
    ballast::unit_plan plan;
    ballast::workspace memory;
    unit_exchange exchange;
    std::vector<float> x(200), y(200);
    std::size_t before = 0;
    for (int round = 0; round < 6; ++round) {
      EXPECT_TRUE(comm.barrier());
      if (round == 3) { before = ballast_test::allocations(); }
      for (unit_strategy const strategy : ballast::unit_plan::strategies) {
        plan_units(plan, memory, step.from, step.to, step.units(), strategy, comm.rank());
        auto const from = std::span(x).first(static_cast<std::size_t>(plan.rows_before()));
        auto const to = std::span(y).first(static_cast<std::size_t>(plan.rows_after()));
        EXPECT_TRUE(exchange.forward(comm, plan, rows_of(from, to)));
        EXPECT_TRUE(exchange.finish(comm));  // or it is chance how many messages are under way
        EXPECT_TRUE(exchange.backward(comm, plan, rows_of(to, from)));
        EXPECT_TRUE(exchange.finish(comm));
      }
    }
    EXPECT_TRUE(comm.barrier());
    EXPECT_EQ(ballast_test::allocations(), before);
    EXPECT_TRUE(comm.barrier());
  });
}

TEST(UnitExchange, NamesADeadRankToAll)
{
  unit_step const step({2, 1, 1}, {4, 1, 1}, std::vector<tokens>(8, 100));
  for (unit_strategy const strategy : ballast::unit_plan::strategies) {
    SCOPED_TRACE(name_of(strategy));
    ballast_test::expect_dead_rank_named(step.ranks, [&](thread_communicator& comm) {
      auto const plan = plan_units(step.from, step.to, step.units(), strategy, comm.rank());
      std::vector<int> x(static_cast<std::size_t>(plan.rows_before()));
      std::vector<int> y(static_cast<std::size_t>(plan.rows_after()));
      unit_exchange exchange;
      ballast::result<void> done;
      for (int microbatch = 0; microbatch < 3 && done; ++microbatch) {
        done = exchange.forward(comm, plan, rows_of(x, y));
        if (done) { done = exchange.backward(comm, plan, rows_of(y, x)); }
      }
      return done ? exchange.finish(comm) : done;
    });
  }
}

// What the ranks of a job of 3 senders and 2 receivers say to a step in which one of them did
// something else, told by the call or by finish(), and to the next step, in which all do the same.
template <class Forward>
void expect_told_of(rank_id odd, Forward forward, std::string_view what)
{
  std::array const senders{rank_id{0}, rank_id{1}, rank_id{2}};
  std::array const receivers{rank_id{3}, rank_id{4}};
  for (unit_strategy const strategy : ballast::unit_plan::strategies) {
    SCOPED_TRACE(testing::Message()
                 << what << ", rank " << to_index(odd) << ", " << name_of(strategy));
    ballast::run_ranks(
        6,  // the last takes no part
        [&](thread_communicator& comm) {
          if (comm.rank() == rank_id{5}) { return; }
          auto const plan_of = [&](std::vector<tokens> const& lengths) {
            ballast::workspace memory;
            ballast::placement from, to;
            assign_unit(from, memory, lengths, senders, 1, 6);
            assign_unit(to, memory, lengths, receivers, 1, 6);
            return plan_units(from, to, {senders, receivers}, strategy, comm.rank());
          };
          unit_exchange exchange;
          (void)forward(comm, exchange, plan_of, comm.rank() == odd);
          auto const told = exchange.finish(comm);
          ASSERT_FALSE(told);
          EXPECT_EQ(told.error().code, error_code::mismatch) << told.error().message;
          EXPECT_EQ(told.error().ranks, std::vector{odd}) << told.error().message;
          EXPECT_THAT(told.error().message, testing::HasSubstr(what));
          auto const plan = plan_of({4, 4, 4, 4, 4, 4});
          std::vector<int> x(static_cast<std::size_t>(plan.rows_before()), 7);
          std::vector<int> y(static_cast<std::size_t>(plan.rows_after()));
          EXPECT_TRUE(exchange.forward(comm, plan, rows_of(x, y)));
          EXPECT_TRUE(exchange.finish(comm));
          EXPECT_THAT(y, testing::Each(7));
        },
        1min);
  }
}

// In the same step, on every rank of both units, and no row is that of another step.
TEST(UnitExchange, TellsAllRanksWhoDidSomethingElse)  // Ensures (5)
{
  std::vector<tokens> const usual{4, 4, 4, 4, 4, 4};
  auto const rows = [](auto element, std::size_t width, auto& comm, auto& exchange,
                       auto const& plan) {
    using T = decltype(element);
    std::vector<T> x(static_cast<std::size_t>(plan.rows_before()) * width);
    std::vector<T> y(static_cast<std::size_t>(plan.rows_after()) * width);
    return exchange.forward(comm, plan, rows_of(x, y, width));
  };
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    expect_told_of(
        rank_id{rank},
        [&](auto& comm, auto& exchange, auto const& plan_of, bool odd) {
          return rows(0, 1, comm, exchange,
                      plan_of(odd ? std::vector<tokens>{4, 4, 4, 4, 4, 8} : usual));
        },
        "the plan");
    expect_told_of(
        rank_id{rank},
        [&](auto& comm, auto& exchange, auto const& plan_of, bool odd) {
          auto const plan = plan_of(usual);
          return odd ? rows(0, 2, comm, exchange, plan) : rows(0.0, 1, comm, exchange, plan);
        },
        "the type of their elements");
    expect_told_of(
        rank_id{rank},
        [&](auto& comm, auto& exchange, auto const& plan_of, bool odd) {
          auto const done = rows(0, 1, comm, exchange, plan_of(usual));
          return odd ? done : rows(0, 1, comm, exchange, plan_of({}));  // once more, of nothing
        },
        "the plan");
  }
}

// The receiver has made an exchange more, of nothing: what comes has the right size, rows and arrays.
TEST(UnitExchange, TellsAMessageOfAnotherExchange)  // Errors
{
  std::array const sender{rank_id{0}};
  std::array const receiver{rank_id{1}};
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    bool const sends = comm.rank() == sender[0];
    unit_exchange exchange;
    auto const forward = [&](std::vector<tokens> const& lengths) {
      ballast::workspace memory;
      ballast::placement from, to;
      assign_unit(from, memory, lengths, sender, 1, 2);
      assign_unit(to, memory, lengths, receiver, 1, 2);
      auto const plan =
          plan_units(from, to, {sender, receiver}, unit_strategy::direct, comm.rank());
      std::vector<int> x(static_cast<std::size_t>(plan.rows_before()), 7);
      std::vector<int> y(static_cast<std::size_t>(plan.rows_after()));
      return exchange.forward(comm, plan, rows_of(x, y));
    };
    if (!sends) { EXPECT_TRUE(forward({})); }
    auto const done = forward({3, 2});
    EXPECT_EQ(done.has_value(), sends);
    if (!done) {
      EXPECT_THAT(done.error().message, testing::HasSubstr("which exchange comes next"));
      EXPECT_EQ(done.error().ranks, std::vector{sender[0]});
    }
    EXPECT_FALSE(exchange.finish(comm));
  });
}

// A sender learns late that its receiver wanted rows of another width. What it sends next arrives,
// and finish() tells both.
TEST(UnitExchange, SendsOnAfterAMismatchOfAnEarlierMessage)
{
  unit_step const step({1, 1, 1}, {1, 1, 1}, {4, 3});
  std::latch refused(1);
  ballast::run_ranks(step.ranks, [&](thread_communicator& comm) {
    auto const plan =
        plan_units(step.from, step.to, step.units(), unit_strategy::direct, comm.rank());
    bool const sends = comm.rank() == rank_id{0};
    std::vector<int> x(static_cast<std::size_t>(plan.rows_before()) * 2, 8);
    std::vector<int> there(static_cast<std::size_t>(plan.rows_after()) * 2, -1);
    unit_exchange exchange;
    auto const first = exchange.forward(comm, plan,
                                        sends ? rows_of(x, there, 2)
                                              : rows_of(std::span(x).first(x.size() / 2),
                                                        std::span(there).first(there.size() / 2)));
    EXPECT_EQ(first.has_value(), sends);
    if (sends) {
      refused.wait();
    } else {
      refused.count_down();
    }
    EXPECT_TRUE(exchange.forward(comm, plan, rows_of(x, there, 2)));
    EXPECT_THAT(there, testing::Each(8));
    auto const sent = exchange.finish(comm);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, error_code::mismatch) << sent.error().message;
    EXPECT_EQ(sent.error().ranks, std::vector{rank_id{1}});
    EXPECT_TRUE(exchange.finish(comm)) << "it tells once";
  });
}

// No transfer is left that would use memory which the object frees.
TEST(UnitExchange, EndsItsTransfersWhereTheCommunicatorThrows)
{
  std::vector<tokens> const lengths{2, 2};
  std::array const senders{rank_id{0}, rank_id{2}};
  std::array const receivers{rank_id{1}};
  ballast::placement from, to;
  ballast::place(from, lengths, std::array{rank_id{0}, rank_id{2}}, 3);
  ballast::place(to, lengths, std::array{rank_id{1}, rank_id{1}}, 3);
  auto const plan = plan_units(from, to, {senders, receivers}, unit_strategy::direct, rank_id{1});
  std::vector<int> none, four(4);
  for (std::size_t const throws_at : {0U, 1U}) {
    for (bool const forward : {true, false}) {
      lone_rank comm{.self = rank_id{1}, .ranks = 3, .throws_at = throws_at};
      unit_exchange exchange;
      EXPECT_THROW((void)(forward ? exchange.forward(comm, plan, rows_of(none, four))
                                  : exchange.backward(comm, plan, rows_of(four, none))),
                   std::bad_alloc);
      EXPECT_EQ(comm.begun, throws_at);
      EXPECT_EQ(comm.ended, throws_at);
    }
  }
}

// The oldest would leave a peer's receive to the message of the next call.
TEST(UnitExchange, EndsItsNewestSendsFirst)
{
  unit_step const step({1, 1, 1}, {1, 1, 1}, {1000}, 3);
  auto const plan = plan_units(step.from, step.to, step.units(), unit_strategy::direct, rank_id{0});
  std::vector<std::byte> x(1000), none;
  lone_rank comm{.ranks = 3};
  unit_exchange exchange;
  auto const send = [&] { return exchange.forward(comm, plan, rows_of(x, none, 1)); };
  for (int call = 0; call < 3; ++call) { EXPECT_TRUE(send()); }
  comm.arrived = true;
  comm.under_way = 1;  // the first has ended, so that its memory is used for the fourth
  EXPECT_TRUE(send());
  ASSERT_EQ(comm.ended, 1U);
  comm.fails_at = 0;
  EXPECT_FALSE(exchange.finish(comm));
  EXPECT_EQ(comm.cancelled, (std::vector{transfer_id{4}, transfer_id{5},  // of finish() itself
                                         transfer_id{3}, transfer_id{2}, transfer_id{1}}));
}

// Unused memory that is large enough is taken before memory that would have to grow.
TEST(UnitExchange, UsesItsMemoryAgainInAnotherOrder)  // Ensures (3)
{
  unit_step const step({1, 1, 1}, {1, 1, 1}, {1000}, 3);
  auto const plan = plan_units(step.from, step.to, step.units(), unit_strategy::direct, rank_id{0});
  std::vector<std::byte> x(9000), none;
  lone_rank comm{.ranks = 3};
  unit_exchange exchange;
  auto const send = [&](std::size_t width) {
    return exchange.forward(comm, plan, rows_of(std::span(x).first(1000 * width), none, width));
  };
  EXPECT_TRUE(send(9));
  EXPECT_TRUE(send(1));
  comm.arrived = true;
  std::size_t const before = ballast_test::allocations();
  EXPECT_TRUE(send(1));
  comm.arrived = false;
  EXPECT_TRUE(send(9));
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_TRUE(exchange.finish(comm));
}

TEST(UnitExchangeDeathTest, RefusesAnotherRanksPlanAndArraysOfOtherSizes)
{
  unit_step const step({1, 1, 1}, {1, 1, 1}, {4});
  auto comms = thread_communicator::make(2);
  auto const plan = plan_units(step.from, step.to, step.units(), unit_strategy::direct, rank_id{0});
  std::vector<int> four(4), none;
  unit_exchange exchange;
  EXPECT_DEATH((void)exchange.forward(comms[1], plan, rows_of(four, none)),
               "the plan is that of rank 0 of 2, and the communicator that of rank 1 of 2");
  EXPECT_DEATH((void)exchange.forward(comms[0], plan, rows_of(none, four)),
               "array 0 has 0 bytes in `from`, and rank 0 has 4 rows of 4 bytes");
  EXPECT_DEATH((void)exchange.backward(comms[0], plan, rows_of(four, none)),
               "array 0 has 16 bytes in `from`, and rank 0 has 0 rows");
}

}  // namespace
