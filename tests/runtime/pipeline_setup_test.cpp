// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_setup.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/topology/process_grid.hpp>

#include <mutex>

namespace {

using ballast::microbatch_id;
using ballast::pipeline_runner;
using ballast::rank_id;
using ballast::rank_pair;
using ballast::stage_gradient;
using ballast::stage_id;
using ballast::thread_communicator;
using ballast::to_index;
using ballast::tokens;
using ballast::unit_sizes;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(PipelineSetup, RefusesSetupsThatDoNotFitTogether)  // make: Errors
{
  auto const job = toy::chain_job(3, 3);
  auto const refused = [](ballast::pipeline_setup const& setup, rank_id rank = {}) {
    auto const made = pipeline_runner<>::make(setup, rank);
    return made ? "" : made.error().message;
  };
  auto setup = job.setup;
  setup.row_bytes.pop_back();
  EXPECT_THAT(refused(setup), HasSubstr("row_bytes has 1 entry for 2 links"));
  setup = job.setup;
  setup.row_bytes[1] = 0;
  EXPECT_THAT(refused(setup), HasSubstr("rows of link 1 have 0 bytes"));
  EXPECT_THAT(refused(job.setup, rank_id{3}), HasSubstr("rank 3 of a grid of 3"));
  auto const two = ballast::process_grid::make({{1, 2, 1}}).value();
  setup = {two, job.setup.schedule, {8, 8}};
  EXPECT_THAT(refused(setup), HasSubstr("2 pipeline ranks long, and the schedule is for 3"));
  setup = {
      ballast::process_grid::make({{1, 1, 2}}).value(),
      ballast::compiled_schedule::make(ballast::chain_of_stages(2, 1), ballast::gpipe{}, 1).value(),
      {8}};
  EXPECT_EQ(refused(setup), "");
  setup.tensor = ballast::pipeline_setup::tensor_gradients::float32_parts;
  EXPECT_THAT(refused(setup), HasSubstr("stages 0 and 1 are on one rank"));
  using ballast::pipeline_rank;
  auto const sends =
      ballast::stage_graph::make({{}, {pipeline_rank{1}, false, ballast::model_part::transfer}},
                                 {{ballast::stage_id{0}, ballast::stage_id{1}}});
  setup = {two, ballast::compiled_schedule::make(sends.value(), ballast::gpipe{}, 1).value(), {8}};
  EXPECT_THAT(refused(setup), HasSubstr("stage 1 of the schedule is a transfer"));
}

TEST(PipelinePlan, RefusesPlansOfOtherGrids)  // plan: Errors
{
  auto const job = toy::chain_job(2, 2);
  auto runner = pipeline_runner<>::make(job.setup, rank_id{0}).value();
  auto const refused = [&](auto change) {
    auto plan = job.plan;
    change(plan);
    auto const done = runner.plan(plan);
    return done ? "" : done.error().message;
  };
  EXPECT_THAT(refused([](auto& plan) { plan.microbatches = 1; }),
              HasSubstr("sample 1 of the plan is in microbatch 1 of 1"));
  EXPECT_THAT(refused([](auto& plan) { plan.rows.pop_back(); }), HasSubstr("rows of 0 links"));
  EXPECT_THAT(refused([](auto& plan) { plan.rows[0].pop_back(); }),
              HasSubstr("link 0 of the plan has rows of 1 sample of 2"));
  EXPECT_THAT(refused([](auto& plan) { plan.rows[0][1] = -1; }), HasSubstr("a sample of -1 rows"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica.emplace_back(); }),
              HasSubstr("replicas of 2 modules, and the grid has 1"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica[0] = {0}; }),
              HasSubstr("replicas for 1 sample of 2"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica[0] = {0, 1}; }),
              HasSubstr("a sample on replica 1 of 1"));
}

// Encoders on 4 replicas, an LLM on 2: two groups, each of one LLM and two encoders.
struct filled_plan {
  ballast::pipeline_setup setup{
      ballast::process_grid::make({{4, 1, 1}, {2, 1, 1}}).value(),
      ballast::compiled_schedule::make(
          ballast::joined_stages({.encoders = {{1}}, .llm = {1}, .generators = {}}).value(),
          ballast::one_forward_one_backward{}, 3)
          .value(),
      {8}};
  ballast::pipeline_plan plan;
};

TEST(PipelinePlan, IsFilledByRules)
{
  filled_plan all;
  auto const rows_of = [](std::size_t sample, std::size_t link) { return 10 * link + sample; };
  std::vector const given{microbatch_id{2}, microbatch_id{0}, microbatch_id{0}, microbatch_id{1},
                          microbatch_id{2}};
  all.plan.fill(all.setup, given, rows_of);
  EXPECT_EQ(all.plan.microbatches, 3U);
  EXPECT_EQ(all.plan.microbatch, given);
  EXPECT_THAT(all.plan.rows, ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_THAT(all.plan.replica,
              ElementsAre(ElementsAre(0, 1, 2, 3, 0), ElementsAre(0, 1, 0, 1, 0)));
  std::size_t const before = ballast_test::allocations();
  all.plan.fill(all.setup, given, rows_of, [](std::size_t sample, std::size_t module) {
    return module == 0 ? 3 - sample % 4 : 1;
  });
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_THAT(all.plan.replica,
              ElementsAre(ElementsAre(3, 2, 1, 0, 3), ElementsAre(1, 1, 1, 1, 1)));
}

TEST(PipelinePlan, HasTheMicrobatchesOfAScheduledStep)
{
  filled_plan all;
  // The scheduler's pipeline has both encoders of a group, and the LLM behind them.
  auto const stages = ballast::stage_graph::make(
      {{}, {ballast::pipeline_rank{1}}, {ballast::pipeline_rank{2}}},
      {{ballast::stage_id{0}, ballast::stage_id{2}}, {ballast::stage_id{1}, ballast::stage_id{2}}});
  auto const times_of = [](std::span<tokens const, 2> sizes) {
    return std::array{ballast::stage_time{sizes[0], sizes[0]},
                      ballast::stage_time{sizes[1], 2 * sizes[1]}};
  };
  auto schedule =
      ballast::compiled_schedule::make(stages.value(), ballast::one_forward_one_backward{}, 3);
  auto scheduler = ballast::microbatch_scheduler<2, decltype(times_of)>::make(
      {*std::move(schedule), {{4, {1}}, {2, {1}}}}, times_of);
  ballast::random_source random(5);
  std::vector<tokens> sizes(2 * 40);
  for (tokens& each : sizes) { each = 1 + static_cast<tokens>(random.below(100)); }
  ballast::scheduled_step<2> step;
  ballast::or_throw((*scheduler)(step, sizes, 1, 0, {}));
  all.plan.fill(all.setup, step, [](std::size_t, std::size_t) { return 1; });
  for (std::size_t module = 0; module < 2; ++module) {
    for (std::uint32_t replica = 0; replica < step.replicas[module]; ++replica) {
      for (std::size_t position = 0; position < 3; ++position) {
        std::vector<ballast::sample_id> here;
        for (std::size_t sample = 0; sample < 40; ++sample) {
          if (all.plan.replica[module][sample] == replica &&
              all.plan.microbatch[sample] == ballast::to_id<microbatch_id>(position)) {
            here.push_back(ballast::to_id<ballast::sample_id>(sample));
          }
        }
        EXPECT_THAT(step.microbatch(module, replica, position), testing::ElementsAreArray(here));
      }
    }
  }
}

/// Threads, and a list of who has sent to whom.
class watched : public thread_communicator {
 public:
  watched(thread_communicator comm, std::set<rank_pair>& seen, std::mutex& mutex)
      : thread_communicator(std::move(comm)), seen_(seen), mutex_(mutex)
  {}

  ballast::result<ballast::transfer_id> send(std::span<std::byte const> array, rank_id peer)
  {
    std::lock_guard const lock(mutex_);
    seen_.insert({rank(), peer});
    return thread_communicator::send(array, peer);
  }

 private:
  std::set<rank_pair>& seen_;
  std::mutex& mutex_;
};

std::set<rank_pair> who_sends(toy::job const& job)
{
  std::set<rank_pair> seen;
  std::mutex mutex;
  ballast::run_ranks(job.setup.grid.ranks(), [&](thread_communicator& comm) {
    watched each(std::move(comm), seen, mutex);
    auto runner = pipeline_runner<>::make(job.setup, each.rank()).value();
    ballast::or_throw(runner.plan(job.plan));
    toy::stage stage(job, each.rank());
    ballast::or_throw(runner.run(each, job.order, stage));
  });
  return seen;
}

TEST(PipelinePairs, AreThoseOfEveryRun)
{
  ballast::random_source random(71);
  for (int trial = 0; trial < ballast_test::trials_of(200); ++trial) {
    auto job = toy::draw(random, 10);
    auto const pairs = job.setup.pairs();
    EXPECT_TRUE(std::ranges::is_sorted(pairs));
    EXPECT_EQ(std::ranges::adjacent_find(pairs), pairs.end());
    for (rank_pair const& each : who_sends(job)) {
      EXPECT_TRUE(std::ranges::binary_search(pairs, each)) << to_index(each.from);
    }
  }
}

TEST(PipelinePairs, AreNoMoreThanAChainNeeds)
{
  auto const job = toy::chain_job(4, 3);
  auto const seen = who_sends(job);
  EXPECT_THAT(job.setup.pairs(), testing::ElementsAreArray(seen));
}

ballast::process_grid grid_with(std::vector<unit_sizes> const& modules)
{
  return ballast::process_grid::make(modules).value();
}

/// Gradients of a stage that any rank can draw.
std::vector<double> drawn_gradients(std::size_t stage, std::size_t count)
{
  ballast::random_source random(1000 + stage);
  std::vector<double> values(count);
  for (double& each : values) { each = 1e-3 * static_cast<double>(random.below(10'000)) - 4; }
  return values;
}

template <class T>
ballast::result<double> clip(thread_communicator& comm, std::vector<unit_sizes> const& modules,
                             std::size_t stages, std::vector<stage_gradient<T>> const& own,
                             double most)
{
  return ballast::clip_gradients(comm, grid_with(modules), stages,
                                 std::span<stage_gradient<T> const>(own), most);
}

TEST(ClipGradients, HasTheSameBitsOnAnyNumberOfRanks)  // Ensures
{
  constexpr std::size_t stages = 6;
  std::vector<std::vector<double>> alone;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    alone.push_back(drawn_gradients(stage, 5 + 3 * stage));
  }
  double squares = 0;
  for (auto const& each : alone) {
    double of_stage = 0;
    for (double const value : each) { of_stage += value * value; }
    squares += of_stage;
  }
  for (auto& each : alone) {
    for (double& value : each) { value *= 2.5 / std::sqrt(squares); }
  }
  for (std::uint32_t const ranks : {1U, 2U, 3U, 6U}) {
    std::vector<unit_sizes> const modules{{2, ranks, 1}};  // two replicas
    auto const graph = ballast::chain_of_stages(stages, ranks);
    ballast::run_ranks(2 * ranks, [&](thread_communicator& comm) {
      auto const place = grid_with(modules).place(comm.rank());
      std::vector<std::vector<double>> mine;
      std::vector<stage_gradient<double>> own;
      for (stage_id const stage : graph.stages_on(ballast::pipeline_rank{place.pipeline})) {
        mine.push_back(drawn_gradients(to_index(stage), 5 + 3 * to_index(stage)));
        own.push_back({stage, mine.back()});
      }
      std::vector<double> copy{1e9};
      if (place.pipeline == 0) { own.push_back({stage_id{0}, copy, false}); }
      EXPECT_EQ(clip(comm, modules, stages, own, 2.5).value(), std::sqrt(squares));
      for (std::size_t at = 0; at < mine.size(); ++at) {
        EXPECT_EQ(mine[at], alone[to_index(own[at].stage)]);
      }
      EXPECT_NEAR(clip(comm, modules, stages, own, 1e9).value(), 2.5, 1e-12);
    });
  }
}

TEST(ClipGradients, AddsUpTensorRanks)
{
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    std::vector<float> values{comm.rank() == rank_id{0} ? 3.0F : 4.0F};
    std::vector<stage_gradient<float>> const own{{stage_id{0}, values}};
    EXPECT_EQ(clip(comm, {{1, 1, 2}}, 1, own, 10).value(), 5);
  });
}

TEST(ClipGradients, RefusesANormOrAGridThatIsNotThatOfAllRanks)  // Errors
{
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    bool const odd = comm.rank() == rank_id{1};
    std::vector<float> values(4, 1.0F);
    std::vector<stage_gradient<float>> const own{{stage_id{0}, values}};
    std::vector<unit_sizes> const replicas{{3, 1, 1}};
    std::vector<unit_sizes> const tensors{{1, 1, 3}};
    for (auto const& done : {clip(comm, replicas, 1, own, odd ? 2.0 : 1.0),
                             clip(comm, odd ? tensors : replicas, 1, own, 1.0)}) {
      ASSERT_FALSE(done);
      auto const& wrong = done.error();
      EXPECT_EQ(wrong.code, ballast::error_code::mismatch);
      EXPECT_THAT(wrong.message,
                  HasSubstr("disagree on `most` or the grid (rank 1 differs from the others)"));
    }
    EXPECT_THAT(values, testing::Each(1.0F));
  });
}

TEST(ClipGradientsDeathTest, RefusesAStageThatIsNotThere)  // Expects
{
  std::vector<float> values(1);
  std::vector<stage_gradient<float>> const own{{stage_id{2}, values}};
  auto comm = std::move(thread_communicator::make(1)[0]);
  EXPECT_DEATH((void)clip(comm, {{1, 1, 1}}, 2, own, 1),
               "a gradient of stage 2 of 2 stages is to be clipped; stages count from 0");
}

TEST(AddSharedGradients, GivesAllSharersTheSumOfTheirReplica)  // Ensures
{
  auto const grid = grid_with({{2, 3, 2}});  // replicas, stages, tensor ranks
  auto const graph = ballast::chain_of_stages(3, 3);
  std::vector<stage_id> const sharing{stage_id{0}, stage_id{2}};
  auto const gradient_of = [&](std::size_t rank) { return drawn_gradients(rank, 40); };
  ballast::run_ranks(grid.ranks(), [&](thread_communicator& comm) {
    auto const place = grid.place(comm.rank());
    auto gradient = gradient_of(to_index(comm.rank()));
    ballast::or_throw(
        ballast::add_shared_gradients(comm, grid, graph, sharing, std::span(gradient)));
    auto expected = gradient_of(to_index(comm.rank()));
    if (place.pipeline != 1) {
      auto const at = [&](std::uint32_t stage) {
        return gradient_of(to_index(grid.rank({0, place.data, stage, place.tensor})));
      };
      for (std::size_t i = 0; i < expected.size(); ++i) { expected[i] = at(0)[i] + at(2)[i]; }
    }
    EXPECT_EQ(gradient, expected);
  });
}

TEST(AddSharedGradients, RefusesModulesOfOtherSizes)  // Errors
{
  auto const grid = grid_with({{1, 1, 1}, {2, 1, 1}});
  auto const graph =
      ballast::joined_stages({.encoders = {{1}}, .llm = {1}, .generators = {}}).value();
  std::vector<stage_id> const sharing{stage_id{0}, stage_id{1}};
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    std::vector<double> gradient{1};
    auto const done =
        ballast::add_shared_gradients(comm, grid, graph, sharing, std::span(gradient));
    EXPECT_THAT(done.error().message, HasSubstr("have 1 x 1 and 2 x 1 replicas"));
  });
}

// What each of four ranks gives for a weight of stages 0, 1 and 3; and who differs, as they are told.
template <class Gradient>
void expect_told(Gradient const& gradient_of, std::vector<rank_id> const& differing)
{
  auto const grid = grid_with({{1, 4, 1}});
  auto const graph = ballast::chain_of_stages(4, 4);
  std::vector<stage_id> const sharing{stage_id{0}, stage_id{1}, stage_id{3}};
  ballast::run_ranks(4, [&](thread_communicator& comm) {
    auto const add = [&](auto gradient) {
      auto const before = gradient;
      auto const done =
          ballast::add_shared_gradients(comm, grid, graph, sharing, std::span(gradient));
      EXPECT_EQ(gradient, before);
      EXPECT_EQ(done.has_value(), comm.rank() == rank_id{2});
      if (done) { return; }
      EXPECT_EQ(done.error().code, ballast::error_code::mismatch);
      if (!differing.empty()) { EXPECT_EQ(done.error().ranks, differing); }
    };
    gradient_of(comm.rank(), add);
    // The communicator serves the next call.
    std::vector<double> same{1.5};
    ASSERT_TRUE(ballast::add_shared_gradients(comm, grid, graph, sharing, std::span(same)));
    EXPECT_EQ(same[0], comm.rank() == rank_id{2} ? 1.5 : 4.5);
  });
}

TEST(AddSharedGradients, TellsAllThatShareOfNumbersOfTwoTypesAndOfOtherCounts)  // Errors
{
  auto const of_two_types = [](rank_id rank, auto const& add) {  // all of 32 bytes
    rank == rank_id{1} ? add(std::vector<float>(8, 1.0F)) : add(std::vector<double>(4, 1.0));
  };
  expect_told(of_two_types, {rank_id{1}});
  auto const of_other_counts = [](rank_id rank, auto const& add) {
    add(std::vector<double>(rank == rank_id{3} ? 5U : 4U, 1.0));
  };
  expect_told(of_other_counts, {});
}

TEST(AddSharedGradients, TellsOfOtherSharers)  // Errors
{
  auto const grid = grid_with({{1, 3, 1}});
  auto const graph = ballast::chain_of_stages(3, 3);
  ballast_test::passing_time const passes(std::chrono::milliseconds(200));
  ballast_test::hand_moved_clock::begin_to_act(3);
  ballast::run_ranks(
      3,
      [&](thread_communicator& comm) {
        ballast_test::hand_moved_clock::acts_until_here const ends;
        std::vector<double> gradient{1};
        std::vector<stage_id> sharing{stage_id{0}, stage_id{1}, stage_id{2}};
        if (comm.rank() == rank_id{0}) { sharing.pop_back(); }
        auto const done =
            ballast::add_shared_gradients(comm, grid, graph, sharing, std::span(gradient));
        EXPECT_FALSE(done);
        if (comm.rank() == rank_id{0}) {
          EXPECT_THAT(done.error().message, HasSubstr("the ranks that share them (rank 1 differs"));
        }
        EXPECT_EQ(gradient, std::vector<double>{1});
      },
      std::chrono::milliseconds(200));
}

TEST(RankOfStage, CountsModuleAfterModule)
{
  auto const grid = grid_with({{2, 1, 1}, {1, 2, 3}});
  auto const graph =
      ballast::joined_stages({.encoders = {{1}}, .llm = {2}, .generators = {}}).value();
  EXPECT_EQ(ballast::rank_of_stage(grid, graph, stage_id{0}, 1), rank_id{1});
  EXPECT_EQ(ballast::rank_of_stage(grid, graph, stage_id{1}, 0, 2), rank_id{4});
  EXPECT_EQ(ballast::rank_of_stage(grid, graph, stage_id{2}, 0), rank_id{5});
}

}  // namespace
