// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_runner.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <mutex>
#include <stdexcept>

namespace {

using ballast::backward_call;
using ballast::error_code;
using ballast::forward_call;
using ballast::microbatch_id;
using ballast::pipeline_runner;
using ballast::rank_id;
using ballast::thread_communicator;
using ballast::to_index;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using bytes = std::span<std::byte const>;
using namespace std::chrono_literals;

/// What all ranks of a job found together. Ranks that have the same sample have the same gradient.
struct found_together {
  toy::gradients found;
  std::vector<double> losses;

  void add(toy::gradients const& more, double loss)
  {
    std::lock_guard const lock(mutex);
    losses.push_back(loss);
    for (auto const& [where, gradient] : more) {
      auto const [at, is_new] = found.emplace(where, gradient);
      ASSERT_TRUE(is_new || at->second == gradient);
    }
  }
  std::mutex mutex = {};
};

pipeline_runner<> runner_of(toy::job const& job, rank_id rank)
{
  auto runner = pipeline_runner<>::make(job.setup, rank).value();
  ballast::or_throw(runner.plan(job.plan));
  return runner;
}

void drop_others(toy::gradients& all, toy::job const& job)
{
  std::erase_if(all, [&](auto const& each) {
    auto const microbatch = job.plan.microbatch[each.first.second];
    return std::find(job.order.begin(), job.order.end(), microbatch) == job.order.end();
  });
}

TEST(PipelineRunner, HasTheGradientsOfOneRankBitForBit)  // Ensures (1) (2) (3)
{
  ballast::random_source random(45);
  int with_shared_weight = 0;
  int const trials = ballast_test::trials_of(2'000);
  for (int trial = 0; trial < trials; ++trial) {
    auto const job = toy::draw(random, 10);
    with_shared_weight += job.sharing.empty() ? 0 : 1;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    toy::result_of_one_rank alone(job);
    drop_others(alone.found, job);
    found_together all;
    ballast::run_ranks(job.setup.grid.ranks(), [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      for (int left = trial % 4 == 0 ? 2 : 1; left > 0; --left) {
        toy::stage stage(job, comm.rank());
        ballast::or_throw(runner.run(comm, job.order, stage));
        double shared = stage.of_shared();
        ballast::or_throw(ballast::add_shared_gradients(
            comm, job.setup.grid, job.setup.schedule.stages(), job.sharing, std::span(&shared, 1)));
        if (stage.shares()) {
          EXPECT_EQ(shared, alone.of_shared(job, job.setup.grid.place(comm.rank()).data));
        }
        all.add(stage.found, runner.loss());
      }
    });
    ASSERT_EQ(all.found, alone.found);
    for (double const loss : all.losses) { ASSERT_EQ(loss, alone.loss); }
  }
  EXPECT_GT(with_shared_weight, trials / 8);
}

TEST(PipelineRunner, EvaluatesFewerMicrobatchesOnTheRunnerThatTrains)
{
  ballast::random_source random(46);
  for (int trial = 0; trial < ballast_test::trials_of(30); ++trial) {
    auto job = toy::draw(random, 8);
    auto fewer = job;
    fewer.order.resize(random.below(job.order.size() + 1));
    toy::result_of_one_rank const all(job);
    toy::result_of_one_rank const some(fewer);
    ballast::run_ranks(job.setup.grid.ranks(), [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      for (int step = 0; step < 2; ++step) {
        toy::stage stage(job, comm.rank());
        ballast::or_throw(runner.evaluate(comm, fewer.order, stage));
        EXPECT_EQ(runner.loss(), some.loss);
        EXPECT_THAT(stage.found, IsEmpty());
        ballast::or_throw(runner.run(comm, job.order, stage));
        EXPECT_EQ(runner.loss(), all.loss);
      }
    });
  }
}

/// The two parts of a backward, each noted.
struct two_parts : toy::stage {
  using toy::stage::stage;
  void backward_inputs(ballast::backward_call const& call)
  {
    toy::stage::backward(call);
    parts += 'i';
  }
  void backward_weights(ballast::backward_call const& call)
  {
    EXPECT_THAT(call.input_gradients, IsEmpty());
    parts += 'w';
  }
  std::string parts;
};

TEST(PipelineRunner, TakesABackwardInTwoParts)
{
  auto const job = toy::chain_job(3, 4);
  toy::result_of_one_rank const alone(job);
  found_together all;
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    auto runner = runner_of(job, comm.rank());
    two_parts stage(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, stage));
    EXPECT_EQ(stage.parts, "iwiwiwiw");
    all.add(stage.found, runner.loss());
  });
  EXPECT_EQ(all.found, alone.found);
}

/// Backwards in two parts, whose second one finds the rows and the gradients of the first.
struct delayed_weights : two_parts {
  using two_parts::two_parts;
  void note(ballast::pass direction, ballast::stage_id of, microbatch_id microbatch)
  {
    done.emplace_back(direction, to_index(of), to_index(microbatch));
  }
  double forward(ballast::forward_call const& call)
  {
    note(ballast::pass::forward, call.stage, call.microbatch);
    ++held;
    most_held = std::max(most_held, held);
    return two_parts::forward(call);
  }
  void backward_inputs(ballast::backward_call const& call)
  {
    note(ballast::pass::backward, call.stage, call.microbatch);
    kept[{to_index(call.stage), to_index(call.microbatch)}] = rows_of(call);
    two_parts::backward_inputs(call);
  }
  void backward_weights(ballast::backward_call const& call)
  {
    note(ballast::pass::weights, call.stage, call.microbatch);
    EXPECT_EQ(rows_of(call), (kept.at({to_index(call.stage), to_index(call.microbatch)})));
    --held;
    two_parts::backward_weights(call);
  }
  static std::vector<double> rows_of(ballast::backward_call const& call)
  {
    std::vector<double> all;
    for (std::size_t link = 0; link < call.inputs.size(); ++link) {
      all.insert(all.end(), call.input<double>(link).begin(), call.input<double>(link).end());
    }
    for (std::size_t link = 0; link < call.output_gradients.size(); ++link) {
      auto const rows = call.output_gradient<double>(link);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }
  std::vector<std::tuple<ballast::pass, std::size_t, std::size_t>> done;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> kept;
  std::size_t held = 0;
  std::size_t most_held = 0;
};

TEST(PipelineRunner, CarriesOutWeightsPassesWhereTheScheduleHasThem)
{
  constexpr std::size_t ranks = 4;
  constexpr std::size_t microbatches = 9;
  auto const whole = ballast::chain_of_stages(ranks, ranks);
  std::vector<ballast::pipeline_stage> stages;
  for (std::uint32_t stage = 0; stage < ranks; ++stage) {
    stages.push_back(whole[ballast::stage_id{stage}]);
    stages.back().weights = true;
  }
  auto const split =
      ballast::stage_graph::make(stages, {whole.links().begin(), whole.links().end()}).value();
  ballast::random_source random(63);
  ballast::pipeline_times times(microbatches, ranks, [&](auto, auto) {
    return ballast::stage_time{random.between(1, 9), random.between(1, 9)};
  });
  times.weights.assign(times.rows.size(), 4);
  ballast::pipeline_memory const memory{std::vector(times.rows.size(), ballast::held_bytes{1, 1}),
                                        std::vector<std::uint64_t>(ranks, 5)};
  auto const planned = ballast::plan_schedule(split, times, memory).value();

  for (bool const by_rule : {true, false}) {
    auto job = toy::chain_job(ranks, microbatches);
    job.setup.schedule =
        by_rule
            ? ballast::compiled_schedule::make(split, ballast::zero_bubble{}, microbatches).value()
            : ballast::compiled_schedule::make(split, planned.schedule).value();
    if (!by_rule) { job.order = planned.order; }
    toy::result_of_one_rank const alone(job);
    found_together all;
    ballast::run_ranks(ranks, [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      delayed_weights stage(job, comm.rank());
      ballast::or_throw(runner.run(comm, job.order, stage));
      auto const& schedule = job.setup.schedule;
      std::vector<std::tuple<ballast::pass, std::size_t, std::size_t>> expected;
      for (std::uint32_t const task : schedule.tasks_on(
               ballast::pipeline_rank{static_cast<std::uint32_t>(to_index(comm.rank()))})) {
        auto const& each = schedule.tasks()[task];
        expected.emplace_back(each.pass, to_index(each.stage), to_index(job.order[each.position]));
      }
      EXPECT_EQ(stage.done, expected);
      EXPECT_LE(stage.most_held, by_rule ? ranks : 5);
      EXPECT_EQ(runner.measured().size(), expected.size());
      all.add(stage.found, runner.loss());
      // An evaluation has forwards only, on the runner that trains.
      ballast::or_throw(runner.evaluate(comm, job.order, stage));
      EXPECT_EQ(runner.loss(), alone.loss);
    });
    EXPECT_EQ(all.found, alone.found);
    for (double const loss : all.losses) { EXPECT_EQ(loss, alone.loss); }

    // A stage whose backward is one call cannot be asked for its second part.
    ballast::run_ranks(ranks, [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      toy::stage stage(job, comm.rank());
      auto const refused = runner.run(comm, job.order, stage);
      ASSERT_FALSE(refused);
      EXPECT_THAT(refused.error().message,
                  HasSubstr("give it backward_inputs and backward_weights"));
    });
  }
}

TEST(PipelineRunner, CarriesOutPlannedSchedulesWithinTheirMemory)  // Ensures (1) (3)
{
  ballast::random_source random(6364);
  for (int trial = 0; trial < ballast_test::trials_of(300); ++trial) {
    auto const job = toy::draw_split(random, 1 + random.below(6));
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    toy::result_of_one_rank const alone(job);
    found_together all;
    ballast::run_ranks(job.setup.grid.ranks(), [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      toy::split_stage stage(job, comm.rank());
      ballast::or_throw(runner.run(comm, job.order, stage));
      std::size_t const rank = toy::pipeline_rank_of(job, comm.rank());
      EXPECT_EQ(stage.most_kept, job.peak[rank]);
      EXPECT_LE(stage.most_kept, job.memory.most[rank]);
      EXPECT_EQ(stage.kept(), 0U);
      all.add(stage.found, runner.loss());
    });
    ASSERT_EQ(all.found, alone.found);
    for (double const loss : all.losses) { ASSERT_EQ(loss, alone.loss); }
  }
}

TEST(PipelineRunner, TellsAllRanksWhichStageThrew)  // Errors: failed
{
  auto const job = toy::chain_job(3, 3);
  toy::result_of_one_rank const alone(job);
  for (std::uint32_t thrower = 0; thrower < 3; ++thrower) {
    found_together all;
    ballast::run_ranks(3, [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      for (std::size_t call = 0; call < 9; ++call) {  // at each task of a run and an evaluation
        toy::stage stage(job, comm.rank());
        if (comm.rank() == rank_id{thrower}) { stage.throws_at = call % 6; }
        auto const done =
            call < 6 ? runner.run(comm, job.order, stage) : runner.evaluate(comm, job.order, stage);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, error_code::failed);
        EXPECT_THAT(done.error().ranks, ElementsAre(rank_id{thrower}));
        EXPECT_THAT(done.error().message,
                    testing::AllOf(HasSubstr("rank " + std::to_string(thrower) + " threw in the "),
                                   HasSubstr("out of ink; the step came to nothing")));
      }
      toy::stage stage(job, comm.rank());
      ballast::or_throw(runner.run(comm, job.order, stage));
      all.add(stage.found, runner.loss());
    });
    EXPECT_EQ(all.found, alone.found);
  }
}

TEST(PipelineRunner, DrainsStepsOfAllKindsInWhichAStageThrows)
{
  ballast::random_source random(47);
  for (int trial = 0; trial < ballast_test::trials_of(100); ++trial) {
    auto const job = toy::draw(random, 8);
    auto const thrower = static_cast<std::uint32_t>(random.below(job.setup.grid.ranks()));
    auto const call = random.below(6);
    ballast::run_ranks(job.setup.grid.ranks(), [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      toy::stage stage(job, comm.rank());
      if (comm.rank() == rank_id{thrower}) { stage.throws_at = call; }
      auto const done = runner.run(comm, job.order, stage);
      if (!done) { EXPECT_THAT(done.error().ranks, ElementsAre(rank_id{thrower})); }
      toy::stage next(job, comm.rank());
      ballast::or_throw(runner.run(comm, job.order, next));
    });
  }
}

TEST(PipelineRunner, NamesARankThatIsLateAndRunsOnANewCommunicator)  // Errors: of the communicator
{
  auto const job = toy::chain_job(3, 2);
  auto const fewer = toy::chain_job(2, 2);  // for those that are left
  toy::result_of_one_rank const alone(fewer);
  constexpr std::size_t tasks = 4;  // of each rank
  for (std::uint32_t late = 0; late < 3; ++late) {
    std::vector<pipeline_runner<>> runners;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      runners.push_back(runner_of(job, rank_id{rank}));
    }
    for (std::size_t call = 0; call < tasks; ++call) {
      ballast_test::hand_moved_clock clock;
      auto const run = [&](thread_communicator& comm) {
        toy::stage stage(job, comm.rank());
        stage.waits = [&, rank = comm.rank()](std::size_t number) {
          if (rank == rank_id{late} && number == call) { clock.pass_when(2, 200ms); }
        };
        auto const done = runners[to_index(comm.rank())].run(comm, job.order, stage);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, error_code::timed_out);
        EXPECT_THAT(done.error().ranks, ElementsAre(rank_id{late}));
      };
      ballast::run_ranks(3, run, 200ms);
      ballast::run_ranks(3, [&](thread_communicator& comm) {
        toy::stage stage(job, comm.rank());
        ballast::or_throw(runners[to_index(comm.rank())].run(comm, job.order, stage));
      });
      found_together all;
      ballast::run_ranks(2, [&](thread_communicator& comm) {
        auto runner = runner_of(fewer, comm.rank());
        toy::stage stage(fewer, comm.rank());
        ballast::or_throw(runner.run(comm, fewer.order, stage));
        all.add(stage.found, runner.loss());
      });
      EXPECT_EQ(all.found, alone.found);
    }
  }
}

TEST(PipelineRunner, NamesARankThatHasLeft)  // Errors: of the communicator
{
  auto const job = toy::chain_job(3, 2);
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    auto runner = runner_of(job, comm.rank());
    toy::stage stage(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, stage));
    if (comm.rank() == rank_id{1}) { return; }
    auto const done = runner.run(comm, job.order, stage);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::peer_lost);
    EXPECT_THAT(done.error().ranks, testing::Contains(rank_id{1}));
  });
}

TEST(PipelineRunner, RefusesWhatDiffersBeforeAnythingMoves)  // Errors: mismatch, infeasible
{
  auto const job = toy::chain_job(2, 3);
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    bool const is_first = comm.rank() == rank_id{0};
    auto runner = pipeline_runner<>::make(job.setup, comm.rank()).value();
    toy::stage stage(job, comm.rank());
    auto const code_of = [&](std::vector<microbatch_id> const& order) {
      auto const done = runner.run(comm, order, stage);
      EXPECT_EQ(stage.calls, 0U);
      return done.error().code;
    };
    microbatch_id const zero{0};
    microbatch_id const one{1};
    microbatch_id const two{2};
    EXPECT_EQ(code_of({zero, one, two}), error_code::out_of_range);  // no plan
    auto other = job.plan;
    other.rows[0][1] = is_first ? 4 : 5;
    ballast::or_throw(runner.plan(other));
    EXPECT_EQ(code_of({zero, one, two}), error_code::mismatch);
    ballast::or_throw(runner.plan(job.plan));
    EXPECT_EQ(code_of({zero, one}), error_code::infeasible);
    EXPECT_EQ(code_of({zero, one, one}), error_code::infeasible);
    EXPECT_EQ(code_of({zero, one, microbatch_id{3}}), error_code::out_of_range);
    EXPECT_EQ(code_of(is_first ? std::vector{zero, two, one} : std::vector{zero, one, two}),
              error_code::mismatch);
    EXPECT_EQ(code_of(is_first ? std::vector{zero} : std::vector{zero, one, two}),
              is_first ? error_code::infeasible : error_code::mismatch);
    ballast::or_throw(runner.run(comm, job.order, stage));
  });
}

TEST(PipelineRunner, RefusesTheCommunicatorOfAnotherRank)  // Errors: infeasible, mismatch
{
  auto const job = toy::chain_job(2, 3);
  for (bool const swapped : {false, true}) {  // or both made for rank 0
    ballast::run_ranks(2, [&](thread_communicator& comm) {
      bool const is_first = comm.rank() == rank_id{0};
      rank_id const given{swapped && is_first ? 1U : 0U};
      auto runner = runner_of(job, given);
      toy::stage stage(job, given);
      auto const done = runner.run(comm, job.order, stage);
      ASSERT_FALSE(done);
      EXPECT_EQ(stage.calls, 0U);
      if (given == comm.rank()) {
        EXPECT_EQ(done.error().code, error_code::mismatch);
        EXPECT_THAT(done.error().ranks, ElementsAre(rank_id{1}));
      } else {
        EXPECT_THAT(done.error().message,
                    HasSubstr(is_first ? "made for rank 1 of a grid of 2, and the communicator is "
                                         "that of rank 0 of 2"
                                       : "made for rank 0 of a grid of 2, and the communicator is "
                                         "that of rank 1 of 2"));
      }
    });
  }
}

// A stage that throws a text as long as a page, in letters of two and three bytes.
struct wordy_stage {
  std::string text;
  double forward(ballast::forward_call const&) const { throw std::runtime_error(text); }
  void backward(ballast::backward_call const&) const {}
};

TEST(PipelineRunner, TellsAThrownTextInOneLineOfWholeLetters)  // Errors: failed
{
  auto const job = toy::chain_job(1, 1);
  std::string const letters = "\u00e4\u20ac";
  std::string const head = "rank 0 threw in the forward of microbatch 0 on stage 0: ";
  for (std::size_t before = 0; before < 5; ++before) {  // cut at each byte of the letters
    wordy_stage wordy{"line\none \x1b[2J" + std::string(before, 'x')};
    for (int i = 0; i < 120; ++i) { wordy.text += letters; }
    ballast::run_ranks(1, [&](thread_communicator& comm) {
      auto runner = runner_of(job, comm.rank());
      auto const done = runner.run(comm, job.order, wordy);
      std::string message = done.error().message;
      std::string shown = head + "line\\none \\x1b[2J" + std::string(before, 'x');
      ASSERT_TRUE(message.starts_with(shown)) << message;
      message.erase(0, shown.size());
      std::size_t count = 0;
      for (; message.starts_with(letters); ++count) { message.erase(0, letters.size()); }
      EXPECT_GE(count, 30U);
      if (message.starts_with("\u00e4")) { message.erase(0, 2); }
      EXPECT_EQ(message, "...; the step came to nothing, and the next one can run");
    });
  }
}

TEST(PipelineRunner, KeepsAsMuchMemoryAsItsScheduleDoes)  // Ensures (4)
{
  constexpr ballast::tokens rows = 1000;
  constexpr std::size_t stages = 4;
  constexpr std::size_t block = sizeof(double) * rows + 16;
  auto const job = toy::chain_job(stages, 40, rows);
  ballast::run_ranks(stages, [&](thread_communicator& comm) {
    auto runner = runner_of(job, comm.rank());
    for (int step = 0; step < 3; ++step) {
      toy::stage stage(job, comm.rank());
      ballast::or_throw(runner.run(comm, job.order, stage));
    }
    // 1F1B keeps a microbatch for each stage that follows, and its own. What leaves has not gone
    // for so many at most; two receives are begun ahead, and a task makes an array.
    std::size_t const depth = stages - 1 - to_index(comm.rank());
    EXPECT_LE(runner.message_bytes(), (2 * (depth + 1) + 5) * block);
  });
}

TEST(PipelineRunner, AllocatesNothingOnceSendsWereHeldUpAsLong)  // Ensures (5)
{
  auto const job = toy::chain_job(2, 6);
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    auto runner = runner_of(job, comm.rank());
    struct silent {
      bool is_late;
      void forward(ballast::forward_call const&) const
      {
        if (is_late) { std::this_thread::sleep_for(2ms); }
      }
      void backward(ballast::backward_call const&) const {}
    };
    for (bool const is_late : {true, false, true}) {
      ballast::or_throw(runner.run(comm, job.order, silent{is_late && comm.rank() == rank_id{1}}));
      ballast::or_throw(runner.run(comm, job.order, silent{is_late && comm.rank() == rank_id{0}}));
    }
    ballast::or_throw(comm.barrier());
    std::size_t const before = ballast_test::allocations();
    ballast::or_throw(comm.barrier());
    ballast::or_throw(runner.run(comm, job.order, silent{false}));
    ballast::or_throw(comm.barrier());
    EXPECT_EQ(ballast_test::allocations(), before);
    ballast::or_throw(comm.barrier());
  });
}

TEST(PipelineRunner, MeasuresItsTasksInTheirOrder)
{
  auto const job = toy::chain_job(2, 3);
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    auto runner = runner_of(job, comm.rank());
    toy::stage stage(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, stage));
    auto const rank = ballast::to_id<ballast::pipeline_rank>(to_index(comm.rank()));
    auto const tasks = job.setup.schedule.tasks_on(rank);
    ASSERT_EQ(runner.measured().size(), tasks.size());
    std::int64_t end = 0;
    for (std::size_t at = 0; at < tasks.size(); ++at) {
      auto const& each = runner.measured()[at];
      EXPECT_EQ(each.task, tasks[at]);
      EXPECT_EQ(each.microbatch, job.order[job.setup.schedule.tasks()[tasks[at]].position]);
      EXPECT_GE(each.start_ns, end);
      EXPECT_GE(each.end_ns, each.start_ns);
      end = each.end_ns;
    }
  });
}

// The least that each is.
struct only_forward {
  void forward(forward_call const&) {}
};
struct with_backward : only_forward {
  void backward(backward_call const&) {}
};
struct in_two_parts {
  float forward(forward_call const&) { return 0; }
  void backward_inputs(backward_call const&) {}
  void backward_weights(backward_call const&) {}
};
static_assert(ballast::forward_stage<only_forward> && !ballast::trained_stage<only_forward>);
static_assert(ballast::trained_stage<with_backward>);
static_assert(!ballast::detail::split_backward_stage<with_backward>);
static_assert(ballast::trained_stage<in_two_parts> &&
              ballast::detail::split_backward_stage<in_two_parts>);

struct returns_text {
  char const* forward(forward_call const&);
};
static_assert(!ballast::forward_stage<returns_text>);

TEST(PipelineCalls, ShowTheRowsOfALinkAsElements)
{
  std::array<float, 3> came{1, 2, 3};
  std::array<double, 2> leaves{};
  std::array<double, 2> const gradient{4, 5};
  std::array const inputs{bytes(std::as_bytes(std::span(came)))};
  std::array<std::span<std::byte>, 2> const outputs{
      {{}, std::as_writable_bytes(std::span(leaves))}};
  std::array const gradients{bytes(std::as_bytes(std::span(gradient)))};
  forward_call const forth{.inputs = inputs, .outputs = outputs};
  EXPECT_THAT(forth.input<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(forth.output<double>(0), IsEmpty());
  forth.output<double>(1)[0] = 7;
  EXPECT_EQ(leaves[0], 7);
  backward_call const back{
      .inputs = inputs, .output_gradients = gradients, .input_gradients = outputs};
  EXPECT_THAT(back.input<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(back.output_gradient<double>(), ElementsAre(4, 5));
  back.input_gradient<double>(1)[1] = 8;
  EXPECT_EQ(leaves[1], 8);
}

TEST(PipelineCallsDeathTest, RefuseElementsThatAreNotWhole)  // Expects
{
  std::array<float, 3> const came{};
  std::array const inputs{bytes(std::as_bytes(std::span(came)))};
  forward_call const forth{.inputs = inputs, .outputs = {}};
  EXPECT_DEATH((void)forth.input<double>(),
               "link 0 has 12 bytes, which are no whole elements of 8");
  EXPECT_DEATH((void)forth.input<float>(1), "link 1 of a stage of 1");
}

TEST(MeasuredTimeline, JoinsReplicasAndLeavesOutWhatNobodyDid)
{
  // Tasks of a stage alone, two microbatches: forwards 0 and 1, then backwards.
  auto const schedule =
      ballast::compiled_schedule::make(ballast::chain_of_stages(1, 1), ballast::gpipe{}, 2).value();
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    bool const is_first = comm.rank() == ballast::rank_id{0};
    std::vector<ballast::measured_task> const own{{0, {}, is_first ? 10 : 12, 20},
                                                  {1, {}, 30, is_first ? 50 : 45}};
    auto const found = ballast::measured_timeline(comm, schedule, own).value();
    EXPECT_THAT(found.start, ElementsAre(10, 30, 0, 0));
    EXPECT_THAT(found.end, ElementsAre(20, 50, 0, 0));
    EXPECT_THAT(found.busy, ElementsAre(30));
    EXPECT_EQ(found.makespan, 50);
  });
}

TEST(MeasuredTimeline, TellsAllRanksOfOtherSchedules)  // Errors
{
  auto const stages = ballast::chain_of_stages(2, 2);
  auto const grid = ballast::process_grid::make({{{1, 2, 1}}}).value();
  auto const one = ballast::compiled_schedule::make(stages, ballast::gpipe{}, 3).value();
  auto const other =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 3).value();
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    auto const& own = comm.rank() == ballast::rank_id{0} ? one : other;
    auto const timeline = ballast::measured_timeline(comm, own, {});
    ASSERT_FALSE(timeline);
    EXPECT_THAT(timeline.error().message, HasSubstr("disagree on the schedule (rank 1 differs"));
    auto const times = ballast::measured_microbatches(comm, grid, own, {});
    ASSERT_FALSE(times);
    EXPECT_THAT(times.error().message, HasSubstr("the grid or the schedule (rank 1 differs"));
  });
}

// Two groups: each of two encoders of one stage, and an LLM of two stages on two tensor ranks.
TEST(MeasuredMicrobatches, AreInTheOrderOfAScheduledStep)
{
  std::vector<ballast::unit_sizes> const modules{{4, 1, 1}, {2, 2, 2}};
  auto const grid = ballast::process_grid::make(modules).value();
  auto const stages =
      ballast::joined_stages({.encoders = {{1}}, .llm = {2}, .generators = {}}).value();
  auto const schedule = ballast::compiled_schedule::make(stages, ballast::gpipe{}, 2).value();
  ballast::run_ranks(grid.ranks(), [&](thread_communicator& comm) {
    auto const place = grid.place(comm.rank());
    ballast::pipeline_rank const rank{place.module == 0 ? 0 : 1 + place.pipeline};
    std::vector<ballast::measured_task> own;
    for (std::uint32_t const task :
         schedule.tasks_on(rank)) {  // 1 or 100 ns for each, and its rank
      auto const takes = schedule.tasks()[task].position == 0 ? 1 : 100;
      own.push_back({task, {}, 0, takes * static_cast<std::int64_t>(1 + to_index(comm.rank()))});
    }
    auto const found = ballast::measured_microbatches(comm, grid, schedule, own).value();
    // Ranks 0 to 3 encode; stages of LLM 0 are ranks 4, 5 and 6, 7; of LLM 1 8, 9 and 10, 11.
    std::vector<ballast::time_units> expected;
    for (int const slowest : {0, 1, 5, 7, 2, 3, 9, 11}) {
      expected.push_back(2 * (1 + slowest));
      expected.push_back(200 * (1 + slowest));
    }
    EXPECT_EQ(found, expected);
  });
}

}  // namespace
