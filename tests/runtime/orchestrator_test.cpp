// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/orchestrator.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/orchestrated_steps.hpp"
#include "../support/test.hpp"
#include "../support/time_limits.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/route/ahead_carrier.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology.hpp>

#include <new>

namespace {

using ballast::error_code;
using ballast::multimodal_samples;
using ballast::orchestrator;
using ballast::phase;
using ballast::rank_id;
using ballast::thread_communicator;
using ballast::tokens;
using testing::ElementsAre;

phase<ballast::quadratic_cost, ballast::longest_processing_time> plain_phase(std::size_t ranks,
                                                                             std::uint32_t rate = 1)
{
  return {ballast::one_gpu_bags(ranks), {.linear = 1}, {}, rate};
}

/// One sample: an image and a text.
multimodal_samples captioned(tokens image, tokens text)
{
  multimodal_samples read;
  read.start_sample();
  read.add(0, image);
  read.add(1, text);
  return read;
}

TEST(Orchestrator, PutsRowsWhereANaiveRearrangementDoes)  // Ensures (1) (2)
{
  int const steps = ballast_test::trials_of(25);
  for (std::size_t const ranks : {1U, 2U, 4U, 5U}) {
    auto const wrong = ballast::run_ranks(ranks, [&](thread_communicator& comm) {
      return ballast_test::wrong_arrays_of_jobs(comm, 20240607 + ranks, 4, steps);
    });
    EXPECT_THAT(wrong, testing::Each(0U)) << ranks << " ranks";
  }
}

TEST(Orchestrator, PutsThemThereWhereACarrierSendsAhead)
{
  auto const wrong = ballast::run_ranks(4, [](thread_communicator& comm) {
    ballast::ahead_carrier rows(comm);
    std::tuple const encoders{plain_phase(4, 2), plain_phase(4)};
    return ballast_test::wrong_arrays(comm, encoders, plain_phase(4), 7,
                                      ballast_test::trials_of(25), rows);
  });
  EXPECT_THAT(wrong, testing::Each(0U));
}

TEST(Orchestrator, TakesTextAloneAndAStepOfNothing)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    orchestrator job(comm, std::tuple{}, plain_phase(2));
    multimodal_samples read;
    ASSERT_TRUE(job.submit(read));
    ASSERT_TRUE(job.next());
    EXPECT_EQ(job.rows_in_model(), 0U);
    read.start_sample();
    read.add(0, 3);
    ASSERT_TRUE(job.submit(read));
    ASSERT_TRUE(job.next());
    EXPECT_THAT(job.lengths_in_model(), ElementsAre(3));
    std::vector<int> const words{1, 2, 3};
    std::vector<int> sequence(3);
    ASSERT_TRUE(job.to_model(0, ballast::rows_of(words, sequence)));
    EXPECT_EQ(sequence, words);
  });
}

TEST(Orchestrator, IsTakenAndSubmittedInTurn)
{
  ballast::run_ranks(1, [](thread_communicator& comm) {
    orchestrator job(comm, std::tuple{plain_phase(1)}, plain_phase(1));
    EXPECT_EQ(job.next().error().code, error_code::wrong_order);
    ASSERT_TRUE(job.submit(captioned(4, 5)));
    EXPECT_EQ(job.submit(captioned(4, 5)).error().code, error_code::wrong_order);
    ASSERT_TRUE(job.next());
    ASSERT_TRUE(job.submit(captioned(8, 1)));
    EXPECT_EQ(job.rows_in_model(), 9U);  // still the step before
    EXPECT_EQ(job.rows_read(0), 4U);
    ASSERT_TRUE(job.next());
    EXPECT_EQ(job.rows_read(0), 8U);
    EXPECT_LE(job.waited(), 2U);
  });
}

TEST(Orchestrator, MovesRowsToPassesAndBackOnlyWherePlansDiffer)  // Ensures (6) (7)
{
  constexpr std::size_t ranks = 4;
  ballast::run_ranks(ranks, [](thread_communicator& comm) {
    std::size_t const rank = ballast::to_index(comm.rank());
    ballast::sharding_cost cost{.work = {.linear = 9, .quadratic = 1}, .heads = 4, .latency = 100};
    ballast::device_groups const groups(ballast::node_sizes::equal(1, ranks), 4);
    phase const reward{ballast::one_gpu_bags(ranks), ballast::quadratic_cost{.quadratic = 1},
                       ballast::longest_processing_time{}};
    orchestrator job(comm, std::tuple{}, ballast::hybrid_phase{groups, cost},
                     std::tuple{ballast::shared_plan{}, reward, ballast::shared_plan{1}});
    static_assert(decltype(job)::passes() == 3);
    multimodal_samples read;
    for (tokens sample = 0; sample < 3; ++sample) {
      read.start_sample();
      read.add(0, 5 + 90 * sample * static_cast<tokens>(rank));
    }
    ASSERT_TRUE(job.submit(read));
    std::vector<int> rows(2000);
    std::size_t before = 0;
    for (int number = 0; number < 6; ++number) {
      ASSERT_TRUE(job.next());
      ASSERT_TRUE(comm.barrier());
      if (number == 3) { before = ballast_test::allocations(); }
      ASSERT_TRUE(job.submit(read));
      auto const& step = job.step();
      // Row by row, which token of which sample should be there.
      std::span const all(rows);
      auto const written = [&](ballast::placement const& where, std::span<int> to) {
        for (std::size_t sample = 0; sample < where.size(); ++sample) {
          for (ballast::piece const& each : where[ballast::to_id<ballast::sample_id>(sample)]) {
            if (each.rank != comm.rank()) { continue; }
            for (tokens token = 0; token < each.count; ++token) {
              to[static_cast<std::size_t>(each.row + token)] =
                  static_cast<int>(1000 * sample) + static_cast<int>(each.first + token);
            }
          }
        }
      };
      auto const own = all.first(job.rows_in_model());
      written(step.as_computed, own);
      EXPECT_FALSE(step.passes[0].moves);
      EXPECT_TRUE(step.passes[1].moves);
      EXPECT_TRUE(step.passes[2].moves);
      auto rest = all.subspan(own.size());
      for (std::size_t pass = 0; pass < 3; ++pass) {
        std::size_t const count = job.rows_in_pass(pass);
        ASSERT_LE(2 * count + own.size(), rest.size());
        auto const there = rest.first(count);
        auto const ought = rest.subspan(count, count);
        auto const back = rest.subspan(2 * count, own.size());
        if (pass == 0 && rank == 1) {
          ASSERT_TRUE(job.to_pass(0, ballast::rows_of(own, own)));  // in place, one rank alone
          continue;
        }
        std::ranges::fill(back, -1);
        ASSERT_TRUE(job.to_pass(pass, ballast::rows_of(own, there)));
        written(step.passes[pass].as_computed, ought);
        EXPECT_TRUE(std::ranges::equal(there, ought)) << "pass " << pass;
        ASSERT_TRUE(job.from_pass(pass, ballast::rows_of(there, back)));
        EXPECT_TRUE(std::ranges::equal(back, own)) << "pass " << pass;
      }
    }
    ASSERT_TRUE(comm.barrier());
    EXPECT_EQ(ballast_test::allocations(), before);
    ASSERT_TRUE(job.next());
    EXPECT_EQ(job.lengths_in_pass(1).size(), job.step().passes[1].own_lengths.size());
  });
}

TEST(Orchestrator, RunsThePassesOfAReinforcementLearningStep)
{
  auto const machines = ballast::cluster_of(4).value();
  ballast::run_ranks(4, [&](thread_communicator& comm) {
    multimodal_samples answers;
    for (tokens answer = 0; answer < 3; ++answer) {  // each prompt was answered on three ranks
      answers.start_sample(answer);
      answers.add(0, 40 + 4'000 * answer);
    }
    // [passes]
    using namespace ballast;
    auto const model = find_known_model("llama3-8b").value().shape;
    gamma_fit const measured{.seconds_per_flop = 1 / 400e12, .gamma = 1};
    auto const trained = sharding_cost_of(model, measured, machines).value();
    auto const once =
        training_passes{}.frozen(frozen_gradient::stops);  // a forward pass and no other
    auto const forward_only = sharding_cost_of(model, measured, machines, once).value();
    device_groups const groups(machines.nodes, trained.heads);
    phase reward{one_gpu_bags(machines.gpus()), forward_only.work, refine{}};
    reward.together = true;  // the answers to a prompt on one GPU

    orchestrator step(comm, std::tuple{}, hybrid_phase{groups, trained, 65'536},  // the update
                      std::tuple{shared_plan{},  // the old log-probabilities
                                 hybrid_phase{groups, forward_only, 65'536},  // the reference
                                 reward});
    or_throw(step.submit(answers));
    or_throw(step.next());
    std::vector<std::uint32_t> ids(step.rows_in_model()), ids_there(step.rows_in_pass(1));
    std::vector<float> logs(step.rows_in_model()), logs_there(step.rows_in_pass(1));
    or_throw(step.to_pass(1, rows_of(ids, ids_there)));
    // the reference model computes logs_there
    or_throw(step.from_pass(1, rows_of(logs_there, logs)));
    // [passes]
    EXPECT_FALSE(step.step().passes[0].moves);
    auto const& owner = step.step().passes[2].planned.owner;
    for (std::size_t answer = 3; answer < owner.size(); ++answer) {
      EXPECT_EQ(owner.at(answer), owner.at(answer - 3));
    }
  });
}

TEST(Orchestrator, AllocatesNothingOnceTwoStepsWereAsLarge)  // Ensures (7)
{
  for (std::size_t const ranks : {1U, 3U}) {
    ballast::run_ranks(ranks, [ranks](thread_communicator& comm) {
      orchestrator job(comm, std::tuple{plain_phase(ranks, 4)}, plain_phase(ranks));
      multimodal_samples read;
      for (tokens sample = 0; sample < 8; ++sample) {
        read.start_sample();
        read.add(0, 40 * (sample + 1));
        read.add(1, 5 + 100 * static_cast<tokens>(ballast::to_index(comm.rank())));
      }
      std::vector<int> const read_rows(40 * 36);
      std::vector<int> rows(40 * 36 * ranks * 8);
      std::span const all(rows);
      ASSERT_TRUE(job.submit(read));
      std::size_t before = 0;
      for (int step = 0; step < 6; ++step) {
        ASSERT_TRUE(job.next());
        ASSERT_TRUE(comm.barrier());  // all threads are idle until the next barrier
        if (step == 3) { before = ballast_test::allocations(); }
        if (step == 5) { EXPECT_EQ(ballast_test::allocations(), before); }
        ASSERT_TRUE(comm.barrier());
        ASSERT_TRUE(job.submit(read));
        auto const x_there = all.first(job.rows_computed(0));
        auto const encoded = all.subspan(x_there.size(), job.rows_encoded(0));
        auto const sequences = all.subspan(x_there.size() + encoded.size(), job.rows_in_model());
        ASSERT_TRUE(job.to_encoder(0, ballast::rows_of(read_rows, x_there)));
        ASSERT_TRUE(job.to_model(0, ballast::rows_of(encoded, sequences)));
        ASSERT_TRUE(job.reverse_to_model(0, ballast::rows_of(sequences, encoded)));
      }
    });
  }
}

// ---- Steps that cannot be planned: Ensures (3)
// ---------------------------------------------------

TEST(Orchestrator, TellsEveryRankWhyAStepCannotBePlanned)
{
  struct bad_entry {
    std::uint32_t modality;
    tokens length;
    char const* said;
  };
  for (auto const& bad :
       {bad_entry{0, -3, "a subsequence of -3 tokens of modality 0"},
        bad_entry{2, 3, "a subsequence of modality 2, and the model has 1 encoder"}}) {
    SCOPED_TRACE(bad.said);
    auto const told = ballast::run_ranks(3, [&](thread_communicator& comm) {
      orchestrator job(comm, std::tuple{plain_phase(3)}, plain_phase(3));
      auto read = captioned(4, 5);
      if (comm.rank() == rank_id{1}) { read.add(bad.modality, bad.length); }
      EXPECT_TRUE(job.submit(read));
      auto const refused = job.next();
      EXPECT_TRUE(job.submit(captioned(4, 5)));
      EXPECT_TRUE(job.next());
      return refused;
    });
    for (auto const& each : told) {
      ASSERT_FALSE(each);
      EXPECT_EQ(each.error().code, error_code::out_of_range);
      EXPECT_THAT(each.error().message, testing::HasSubstr(bad.said));
      EXPECT_EQ(each.error(), told[0].error());
    }
  }
}

TEST(Orchestrator, NamesTheRankThatPlansOtherwise)
{
  auto const told = ballast::run_ranks(3, [](thread_communicator& comm) {
    std::uint32_t const rate = comm.rank() == rank_id{2} ? 3 : 2;
    orchestrator job(comm, std::tuple{plain_phase(3, rate)}, plain_phase(3));
    EXPECT_TRUE(job.submit(captioned(12, 5)));
    return job.next();
  });
  for (auto const& each : told) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().code, error_code::mismatch);
    EXPECT_THAT(each.error().ranks, ElementsAre(rank_id{2}));
  }
}

/// A communicator of threads that runs out of memory once, at one of these calls, and so do parts.
class forgetful_communicator : public thread_communicator {
 public:
  enum class call : std::uint8_t { none, scratch, wait };

  forgetful_communicator(thread_communicator own, call fails_at)
      : thread_communicator(std::move(own)), fails_at_(fails_at)
  {}

  [[nodiscard]] ballast::result<void> wait()
  {
    fail_once(call::wait);
    return thread_communicator::wait();
  }
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    fail_once(call::scratch);
    return thread_communicator::scratch(bytes);
  }
  [[nodiscard]] ballast::result<forgetful_communicator> split(std::uint32_t part)
  {
    return forgetful_communicator(thread_communicator::split(part).value(), fails_at_);
  }

 private:
  void fail_once(call at)
  {
    if (at != fails_at_) { return; }
    fails_at_ = call::none;
    throw std::bad_alloc();
  }

  call fails_at_;
};

TEST(Orchestrator, PlansTheSameStepOnAllRanksOnceOneHadNoMemoryToGather)  // Ensures (3)
{
  using call = forgetful_communicator::call;
  for (call const at : {call::scratch, call::wait}) {
    auto const told = ballast::run_ranks(
        3,
        [at](thread_communicator& all) {
          bool const forgets = all.rank() == rank_id{1};
          forgetful_communicator comm(std::move(all), forgets ? at : call::none);
          orchestrator job(comm, std::tuple{plain_phase(3)}, plain_phase(3));
          EXPECT_TRUE(job.submit(captioned(7, 5)));
          ballast::result<void> refused;
          bool threw = false;
          try {
            refused = job.next();
          } catch (std::bad_alloc const&) {
            threw = true;
          }
          EXPECT_EQ(threw, forgets);
          EXPECT_TRUE(job.submit(captioned(4, 5)));
          auto const after = job.next();
          EXPECT_TRUE(after);
          return refused;
        },
        ballast_test::time_bound);
    for (std::size_t const rank : {0U, 2U}) {
      ASSERT_FALSE(told[rank]);
      EXPECT_EQ(told[rank].error().code, error_code::mismatch);
      EXPECT_THAT(told[rank].error().ranks, ElementsAre(rank_id{1}));
    }
  }
}

/// A communicator that only one thread may use, like that of MPI where it serves no more.
struct communicator_of_one_thread : thread_communicator {
  [[nodiscard]] static bool serves_threads() { return false; }
  [[nodiscard]] ballast::result<communicator_of_one_thread> split(std::uint32_t)
  {
    return ballast::fail(error_code::mismatch, 0, "it was split");
  }
};

TEST(Orchestrator, RefusesACommunicatorThatServesOneThread)
{
  ballast::run_ranks(1, [](thread_communicator& all) {
    communicator_of_one_thread comm{std::move(all)};
    orchestrator job(comm, std::tuple{}, plain_phase(1));
    auto const refused = job.submit({});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, error_code::transport);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("MPI_THREAD_MULTIPLE"));
    EXPECT_EQ(job.next().error().code, error_code::wrong_order);
  });
}

// ---- Ranks that are missing: Ensures (4) (5)
// -----------------------------------------------------

TEST(Orchestrator, NamesTheRankThatDiedBeforeTheStepWasGathered)
{
  auto const told = ballast::run_ranks(3, [](thread_communicator& comm) {
    orchestrator job(comm, std::tuple{plain_phase(3)}, plain_phase(3));
    EXPECT_TRUE(job.submit(captioned(4, 5)));
    EXPECT_TRUE(job.next());
    if (comm.rank() == rank_id{1}) { return std::optional<ballast::error>(); }
    EXPECT_TRUE(job.submit(captioned(4, 5)));
    EXPECT_EQ(job.rows_read(0), 4U);  // the step before goes on
    auto const refused = job.next();
    EXPECT_TRUE(job.submit(captioned(4, 5)));
    auto const again = job.next();  // the group is broken
    EXPECT_EQ(again.error(), refused.error());
    return refused ? std::nullopt : std::optional(refused.error());
  });
  for (std::size_t const rank : {0U, 2U}) {
    ASSERT_TRUE(told[rank]);
    EXPECT_EQ(told[rank]->code, error_code::peer_lost);
    EXPECT_THAT(told[rank]->ranks, ElementsAre(rank_id{1}));
  }
}

TEST(Orchestrator, NamesTheRankThatDoesNotSubmitInTime)
{
  ballast_test::hand_moved_clock clock;
  auto const told = ballast::run_ranks(
      3,
      [&](thread_communicator& comm) {
        orchestrator job(comm, std::tuple{plain_phase(3)}, plain_phase(3));
        EXPECT_TRUE(job.submit(captioned(4, 5)));
        EXPECT_TRUE(job.next());
        EXPECT_TRUE(comm.barrier());
        ballast::result<void> refused;
        if (comm.rank() != rank_id{2}) {
          EXPECT_TRUE(job.submit(captioned(4, 5)));
          refused = job.next();
        } else {
          clock.pass_when(2, comm.deadline());
        }
        return refused;
      },
      ballast_test::time_bound);
  for (std::size_t const rank : {0U, 1U}) {
    ASSERT_FALSE(told[rank]);
    EXPECT_EQ(told[rank].error().code, error_code::timed_out);
    EXPECT_THAT(told[rank].error().ranks, ElementsAre(rank_id{2}));
  }
}

TEST(Orchestrator, EndsWithAPlanUnderWay)
{
  for (bool const one_leaves : {false, true}) {
    ballast::run_ranks(3, [&](thread_communicator& comm) {
      orchestrator job(comm, std::tuple{plain_phase(3)}, plain_phase(3));
      ASSERT_TRUE(job.submit(captioned(4, 5)));
      ASSERT_TRUE(job.next());
      if (one_leaves && comm.rank() == rank_id{0}) { return; }
      ASSERT_TRUE(job.submit(captioned(4, 5)));
    });
  }
}

TEST(Orchestrator, PlansAStepThatARankSubmitsAndDoesNotTake)  // Ensures (5)
{
  for (int trial = 0; trial < ballast_test::trials_of(20); ++trial) {
    ballast::run_ranks(3, [](thread_communicator& comm) {
      orchestrator job(comm, std::tuple{plain_phase(3)}, plain_phase(3));
      ASSERT_TRUE(job.submit(captioned(4, 5)));
      if (comm.rank() == rank_id{0}) { return; }
      EXPECT_TRUE(job.next());
    });
  }
}

using OrchestratorDeathTest = testing::Test;

TEST(OrchestratorDeathTest, RefusesCallsWithoutAPlanAndModalitiesThatAreNone)
{
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto communicators = thread_communicator::make(1);
  orchestrator job(communicators[0], std::tuple{plain_phase(1)}, plain_phase(1));
  EXPECT_DEATH((void)job.rows_in_model(), "there is no plan");
  ASSERT_TRUE(job.submit(captioned(4, 5)));
  ASSERT_TRUE(job.next());
  EXPECT_DEATH((void)job.rows_read(2), "modality 2 of 1 encoders and text");
  EXPECT_DEATH((void)job.rows_computed(1), "modality 1 of 1 encoders has none");
}

}  // namespace
