// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/sharded_exchange.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "exchange_checks.hpp"  // defines: ballast_test::{expect_dead_rank_named, lone_rank}
#include "sharded_steps.hpp"    // defines: ballast_test::{sharded_case, random_sharded_step, ...}

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

#include <latch>
#include <new>
#include <stdexcept>

namespace {

using namespace std::chrono_literals;
using ballast::error_code;
using ballast::group_id;
using ballast::rank_id;
using ballast::sharded_exchange;
using ballast::sharded_packs;
using ballast::thread_communicator;
using ballast::tokens;
using ballast_test::lone_rank;
using ballast_test::sharded_arrays;
using ballast_test::sharded_case;

static_assert(std::is_trivially_copyable_v<sharded_packs::event>);
static_assert(std::invocable<ballast::sharded_packs::ignore_events const&, sharded_packs::event>);
static_assert(std::is_empty_v<ballast::sharded_packs::ignore_events>);

// Ranks are late at random places, and no barrier keeps them in the same step.
TEST(ShardedExchange, EqualsTheUnshardedStepBitForBit)  // Ensures (1) (2)
{
  auto const steps = ballast_test::random_sharded_steps(ballast_test::trials_of(2000), 8, 811);
  ballast::run_ranks(8, [&](thread_communicator& comm) {
    std::array<sharded_exchange<>, 3> exchanges{sharded_exchange(1), sharded_exchange(2),
                                                sharded_exchange(8)};
    for (std::size_t trial = 0; trial < steps.size(); ++trial) {
      SCOPED_TRACE(testing::Message() << "step " << trial << ", rank " << to_index(comm.rank()));
      ballast_test::random_delays const delays(8 * trial + to_index(comm.rank()));
      auto const done = expect_unsharded_step(comm, steps[trial], exchanges[trial % 3], delays);
      ASSERT_TRUE(done) << done.error().message;
      if (testing::Test::HasFailure()) { return; }
    }
  });
}

/// Two nodes of four. Rank 0 is in all groups that have sequences: of 8, of 4 and of 2, and has one
/// of its own.
sharded_case step_of_four_packs(tokens length = 16)
{
  ballast::random_source random(3);
  ballast::device_groups const all(ballast::node_sizes::equal(2, 4), 8);
  std::vector<group_id> owner;
  for (std::uint32_t const degree : {1U, 8U, 2U, 4U}) {
    owner.push_back(*all.group_of(rank_id{0}, degree));
  }
  owner.push_back(*all.group_of(rank_id{7}, 4));
  return {all, std::vector<tokens>(owner.size(), length), owner, 8, 4, 2, random};
}

std::string text_of(sharded_packs::event event, ballast::device_groups const& all)
{
  static constexpr std::array names{"to_heads", "have_heads", "compute", "to_tokens",
                                    "have_tokens"};
  return names[static_cast<std::size_t>(event.phase)] + std::string(" ") +
         std::to_string(all[event.group].gpus);
}

// And waits for nobody where it begins them: the others come once rank 0 has begun the first.
TEST(ShardedExchange, BeginsExchangesBeforeItComputes)
{
  auto const step = step_of_four_packs();
  using texts = std::vector<std::string>;
  std::latch begun(1);
  auto const seen = ballast::run_ranks(
      8,
      [&](thread_communicator& comm) {
        std::array<texts, 3> all;
        sharded_exchange by_one;
        sharded_exchange by_three(3);
        sharded_arrays arrays(step, comm.rank());
        std::optional<sharded_packs::event> open;
        bool const is_first = comm.rank() == rank_id{0};
        bool has_begun = false;
        auto const watch = [&](texts& to) {
          return [&](sharded_packs::event event) {
            EXPECT_EQ(open.has_value(), event.is_over) << "phases do not overlap";
            if (event.is_over) {
              EXPECT_EQ(open->phase, event.phase);
              EXPECT_EQ(open->group, event.group);
              open.reset();
              if (is_first && !std::exchange(has_begun, true)) { begun.count_down(); }
            } else {
              open = event;
              to.push_back(text_of(event, step.all));
            }
          };
        };
        auto const forward = [&](std::size_t pack) { arrays.compute_forward(pack); };
        auto const backward = [&](std::size_t pack) { arrays.compute_backward(pack); };
        if (!is_first) { begun.wait(); }
        EXPECT_TRUE(by_one.forward(comm, arrays.packs, arrays.inputs(), arrays.outputs(), forward,
                                   watch(all[0])));
        if (is_first && !has_begun) { begun.count_down(); }
        EXPECT_TRUE(by_one.backward(comm, arrays.packs, arrays.output_gradients(),
                                    arrays.input_gradients(), backward, watch(all[1])));
        EXPECT_TRUE(by_three.forward(comm, arrays.packs, arrays.inputs(), arrays.outputs(), forward,
                                     watch(all[2])));
        return all;
      },
      1min);
  EXPECT_EQ(seen[0][0], (texts{"to_heads 8", "compute 1",                                 //
                               "to_heads 4", "have_heads 8", "compute 8", "to_tokens 8",  //
                               "to_heads 2", "have_heads 4", "compute 4", "to_tokens 4",  //
                               "have_heads 2", "compute 2", "to_tokens 2",                //
                               "have_tokens 8", "have_tokens 4", "have_tokens 2"}));
  EXPECT_EQ(seen[0][1],
            (texts{"to_heads 2", "to_heads 4", "have_heads 2", "compute 2", "to_tokens 2",  //
                   "to_heads 8", "have_heads 4", "compute 4", "to_tokens 4",                //
                   "have_heads 8", "compute 8", "to_tokens 8", "compute 1",                 //
                   "have_tokens 2", "have_tokens 4", "have_tokens 8"}));
  EXPECT_EQ(seen[0][2], (texts{"to_heads 8", "to_heads 4", "to_heads 2", "compute 1",  //
                               "have_heads 8", "compute 8", "to_tokens 8",             //
                               "have_heads 4", "compute 4", "to_tokens 4",             //
                               "have_heads 2", "compute 2", "to_tokens 2",             //
                               "have_tokens 8", "have_tokens 4", "have_tokens 2"}));
  EXPECT_EQ(seen[6][0],
            (texts{"to_heads 8", "to_heads 4", "have_heads 8", "compute 8", "to_tokens 8",
                   "have_heads 4", "compute 4", "to_tokens 4", "have_tokens 8", "have_tokens 4"}));
}

TEST(ShardedExchange, AllocatesNothingInTheSteadyState)  // Ensures (3)
{
  auto const large = step_of_four_packs(40);
  auto const small = step_of_four_packs(12);
  ballast::run_ranks(8, [&](thread_communicator& comm) {
    sharded_arrays of_large(large, comm.rank());
    sharded_arrays of_small(small, comm.rank());
    ballast::sharded_packs packs;
    sharded_exchange exchange(2);
    std::size_t before = 0;
    for (int round = 0; round < 6; ++round) {
      EXPECT_TRUE(comm.barrier());
      if (round == 3) { before = ballast_test::allocations(); }
      for (auto* const arrays : {&of_large, &of_small}) {
        packs.assign(arrays->step.plan, arrays->step.all, comm.rank(), arrays->step.query_heads,
                     arrays->step.whole_groups_of);
        EXPECT_TRUE(exchange.forward(comm, packs, arrays->inputs(), arrays->outputs(),
                                     [&](std::size_t pack) { arrays->compute_forward(pack); }));
        EXPECT_TRUE(exchange.backward(comm, packs, arrays->output_gradients(),
                                      arrays->input_gradients(),
                                      [&](std::size_t pack) { arrays->compute_backward(pack); }));
      }
    }
    EXPECT_TRUE(comm.barrier());
    EXPECT_EQ(ballast_test::allocations(), before);
    EXPECT_TRUE(comm.barrier());
  });
}

TEST(ShardedExchange, NamesADeadRankToAll)
{
  auto const step = step_of_four_packs();
  ballast_test::expect_dead_rank_named(8, [&](thread_communicator& comm) {
    sharded_exchange exchange;
    sharded_arrays arrays(step, comm.rank());
    return exchange.forward(comm, arrays.packs, arrays.inputs(), arrays.outputs(),
                            [&](std::size_t pack) { arrays.compute_forward(pack); });
  });
}

// Attention of one rank throws, in each of its packs in turn, or what watches it: the others learn
// that it left.
TEST(ShardedExchange, EndsItsTransfersWhereAttentionOrWatchThrows)  // Ensures (4)
{
  auto const step = step_of_four_packs();
  for (bool const watch_throws : {false, true}) {
    for (std::size_t throws_at = 0; throws_at < 4; ++throws_at) {
      std::array<ballast::result<void>, 8> ends;
      auto const run = [&](thread_communicator& comm) {
        sharded_arrays arrays(step, comm.rank());
        sharded_exchange exchange;
        std::size_t watched = 0;
        auto const compute = [&](std::size_t pack) {
          if (comm.rank() == rank_id{0} && pack == throws_at && !watch_throws) {
            throw std::runtime_error("attention");
          }
          arrays.compute_forward(pack);
        };
        auto const watch = [&](sharded_packs::event const&) {
          if (comm.rank() == rank_id{0} && watched++ == 3 * throws_at && watch_throws) {
            throw std::runtime_error("watch");
          }
        };
        auto& done = ends[to_index(comm.rank())];
        done =
            exchange.forward(comm, arrays.packs, arrays.inputs(), arrays.outputs(), compute, watch);
        if (done) { done = comm.barrier(); }
      };
      EXPECT_THROW(ballast::run_ranks(8, run), std::runtime_error);
      for (std::size_t rank = 1; rank < 8; ++rank) {
        ASSERT_FALSE(ends[rank]);
        EXPECT_EQ(ends[rank].error().code, error_code::peer_lost);
        EXPECT_EQ(ends[rank].error().ranks, std::vector{rank_id{0}});
      }
    }
  }
}

// As a trainer calls it: a sequence of 60 tokens over four GPUs, one of 22 over two, and short
// ones.
TEST(ShardedExchange, RunsALayerOfATrainer)
{
  std::vector<tokens> const lengths{60, 22, 9, 7, 11, 8};
  ballast::sharding_cost cost{.work = ballast::quadratic_cost{1, 1, 0}, .heads = 8, .kv_heads = 2};
  auto const attention = [](ballast::sharded_packs::group_pack const& pack,
                            std::uint32_t kv_heads) {
    return ballast_test::linear_attention{pack.plan.lengths(), pack.plan.split(), pack.gpu,
                                          kv_heads, 16};
  };
  ballast::run_ranks(4, [&](thread_communicator& comm) {
    // [sharded]
    ballast::device_groups const groups(ballast::node_sizes::equal(1, 4), 4);
    auto const plan = ballast::hybrid_sharding(lengths, groups, cost).value();
    ballast::sharded_packs packs;
    packs.assign(plan, groups, comm.rank(), 8);

    auto const rows = static_cast<std::size_t>(packs.rows());
    std::vector<double> q(rows * 8 * 16, 1), k(rows * 2 * 16, 1), v(k), out(q.size());
    std::vector<double> q_whole(packs.heads_of_sequences(8) * 16), out_whole(q_whole);
    std::vector<double> k_whole(packs.heads_of_sequences(2) * 16), v_whole(k_whole);
    ballast::sharded_exchange exchange;  // one for all layers and steps
    auto const done = exchange.forward(
        comm, packs,
        std::array{ballast::heads_of(q, q_whole, 8, 16), ballast::heads_of(k, k_whole, 2, 16),
                   ballast::heads_of(v, v_whole, 2, 16)},
        std::array{ballast::heads_of(out_whole, out, 8, 16)}, [&](std::size_t pack) {
          auto const part = [&](auto& between, auto& whole, std::uint32_t heads) {
            return packs.for_attention(pack, std::span(between), std::span(whole), heads, 16);
          };
          attention(packs[pack], 2)
              .forward(part(q, q_whole, 8), part(k, k_whole, 2), part(v, v_whole, 2),
                       part(out, out_whole, 8));
        });
    // [sharded]
    EXPECT_TRUE(done);
    EXPECT_EQ(groups[plan.owner[0]].gpus, 4);
    EXPECT_EQ(out.size(), q.size());
    for (std::size_t pack = 0; pack < packs.size(); ++pack) {
      // Of ones, token t of a sequence gets 16 from itself and from each of the t before it.
      packs[pack].plan.for_each_chunk(
          packs[pack].gpu, [&](ballast::ulysses_plan::bag_chunk const& chunk) {
            auto const own = packs.between_attentions(pack, std::span(out), 8, 16);
            auto const at = [&](tokens row) { return own[static_cast<std::size_t>(row) * 8 * 16]; };
            EXPECT_EQ(at(chunk.own_row + chunk.count - 1) - at(chunk.own_row),
                      16 * static_cast<double>(chunk.count - 1));
          });
    }
  });
}

// One rank has another length, twice as many elements of half the width, goes backward, or has begun
// more packs ahead, with the same arrays.
TEST(ShardedExchange, TellsBothRanksWhatOneDidOtherwise)  // Ensures (5)
{
  enum class odd { length, element, direction, ahead };
  ballast::random_source random(4);
  ballast::device_groups const all(ballast::node_sizes::equal(1, 2), 2);
  std::vector const owner{*all.group_of(rank_id{0}, 2)};
  sharded_case const usual(all, {8}, owner, 4, 4, 2, random);
  sharded_case const longer(all, {10}, owner, 4, 4, 2, random);
  for (odd const what : {odd::length, odd::element, odd::direction, odd::ahead}) {
    SCOPED_TRACE(static_cast<int>(what));
    ballast::run_ranks(2, [&](thread_communicator& comm) {
      bool const differs = comm.rank() == rank_id{1};
      sharded_arrays arrays(differs && what == odd::length ? longer : usual, comm.rank());
      sharded_exchange exchange(differs && what == odd::ahead ? 2 : 1);
      auto inputs = arrays.inputs();
      for (auto& each : inputs) { each.element_bytes /= differs && what == odd::element ? 2 : 1; }
      auto const ignore = [](std::size_t) {};
      auto const end = differs && what == odd::direction
                           ? exchange.backward(comm, arrays.packs, inputs, arrays.outputs(), ignore)
                           : exchange.forward(comm, arrays.packs, inputs, arrays.outputs(), ignore);
      ASSERT_FALSE(end);
      EXPECT_EQ(end.error().code, error_code::mismatch) << end.error().message;
      EXPECT_EQ(end.error().ranks, std::vector{differs ? rank_id{0} : rank_id{1}});
    });
  }
}

TEST(ShardedExchange, EndsItsTransfersWhereTheCommunicatorFails)  // Ensures (4)
{
  ballast::random_source random(5);
  ballast::device_groups const all(ballast::node_sizes::equal(1, 2), 2);
  sharded_case const step(all, {8, 3}, {*all.group_of(rank_id{0}, 2), group_id{0}}, 4, 4, 2,
                          random);
  for (std::size_t at = 0; at < 4; ++at) {  // a receive and a send, in both directions
    for (bool const throws : {true, false}) {
      lone_rank comm{.arrived = true};
      (throws ? comm.throws_at : comm.fails_at) = at;
      sharded_exchange exchange;
      sharded_arrays arrays(step, rank_id{0});
      auto const run = [&] {
        return exchange.forward(comm, arrays.packs, arrays.inputs(), arrays.outputs(),
                                [&](std::size_t pack) { arrays.compute_forward(pack); });
      };
      if (throws) {
        EXPECT_THROW((void)run(), std::bad_alloc);
      } else {
        auto const done = run();
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, error_code::transport);
      }
      EXPECT_EQ(comm.ended, comm.begun);
    }
  }
}

TEST(ShardedExchangeDeathTest, RejectsPacksAndArraysOfOthers)
{
  lone_rank comm;
  auto const of_eight = step_of_four_packs();
  sharded_arrays other(of_eight, rank_id{0});
  EXPECT_DEATH((void)sharded_exchange<>().forward(comm, other.packs, other.inputs(),
                                                  other.outputs(), [](std::size_t) {}),
               "the packs are those of rank 0 of 8");
  ballast::random_source random(6);
  ballast::device_groups const all(ballast::node_sizes::equal(1, 2), 2);
  sharded_case const step(all, {5}, {group_id{2}}, 4, 4, 2, random);
  sharded_arrays arrays(step, rank_id{0});
  arrays.o.pop_back();
  EXPECT_DEATH((void)sharded_exchange<>().forward(comm, arrays.packs, arrays.inputs(),
                                                  arrays.outputs(), [](std::size_t) {}),
               "array 0 of to_tokens has .* bytes in `to`");
  EXPECT_DEATH(sharded_exchange<>(0), "exchanges of 0 packs ahead");
}

}  // namespace
