// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_setup.hpp>

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/topology/process_grid.hpp>
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"

namespace {

using ballast::process_grid;
using ballast::rank_id;
using ballast::stage_gradient;
using ballast::stage_id;
using ballast::thread_communicator;
using ballast::to_id;
using ballast::to_index;
using ballast::unit_sizes;
using testing::Each;
using testing::HasSubstr;

process_grid grid_with(std::vector<unit_sizes> const& modules)
{
  return process_grid::make(modules).value();
}

/// Gradients of a stage that any rank can draw.
std::vector<double> drawn_gradients(std::size_t stage, std::size_t count)
{
  ballast::random_source random(1000 + stage);
  std::vector<double> values(count);
  for (double& each : values) { each = 1e-3 * static_cast<double>(random.below(10'000)) - 4; }
  return values;
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
    auto const grid = grid_with({{2, ranks, 1}});  // two replicas
    auto const graph = ballast::chain_of_stages(stages, ranks);
    ballast::run_ranks(2 * ranks, [&](thread_communicator& comm) {
      auto const place = grid.place(comm.rank());
      std::vector<std::vector<double>> mine;
      std::vector<stage_gradient<double>> own;
      for (stage_id const stage : graph.stages_on(ballast::pipeline_rank{place.pipeline})) {
        mine.push_back(drawn_gradients(to_index(stage), 5 + 3 * to_index(stage)));
        own.push_back({stage, mine.back()});
      }
      std::vector<double> copy{1e9};
      if (place.pipeline == 0) { own.push_back({stage_id{0}, copy, false}); }
      auto const norm = ballast::clip_gradients(comm, grid, stages,
                                                std::span<stage_gradient<double> const>(own), 2.5);
      EXPECT_EQ(norm.value(), std::sqrt(squares));
      for (std::size_t at = 0; at < mine.size(); ++at) {
        EXPECT_EQ(mine[at], alone[to_index(own[at].stage)]);
      }
      auto const again = ballast::clip_gradients(comm, grid, stages,
                                                 std::span<stage_gradient<double> const>(own), 1e9);
      EXPECT_NEAR(again.value(), 2.5, 1e-12);
    });
  }
}

TEST(ClipGradients, AddsUpTensorRanks)
{
  auto const grid = grid_with({{1, 1, 2}});
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    std::vector<float> values{comm.rank() == rank_id{0} ? 3.0F : 4.0F};
    std::vector<stage_gradient<float>> const own{{stage_id{0}, values}};
    auto const norm =
        ballast::clip_gradients(comm, grid, 1, std::span<stage_gradient<float> const>(own), 10);
    EXPECT_EQ(norm.value(), 5);
  });
}

TEST(ClipGradients, RefusesANormOrAGridThatIsNotThatOfAllRanks)  // Errors
{
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    bool const odd = comm.rank() == rank_id{1};
    std::vector<float> values(4, 1.0F);
    std::vector<stage_gradient<float>> const own{{stage_id{0}, values}};
    auto const clip = [&](std::vector<unit_sizes> const& modules, double most) {
      auto const done = ballast::clip_gradients(comm, grid_with(modules), 1,
                                                std::span<stage_gradient<float> const>(own), most);
      EXPECT_FALSE(done);
      return done ? ballast::error{} : done.error();
    };
    for (auto const& wrong :
         {clip({{3, 1, 1}}, odd ? 2.0 : 1.0),
          clip(odd ? std::vector<unit_sizes>{{1, 1, 3}} : std::vector<unit_sizes>{{3, 1, 1}},
               1.0)}) {
      EXPECT_EQ(wrong.code, ballast::error_code::mismatch);
      EXPECT_THAT(wrong.message,
                  HasSubstr("disagree on `most` or the grid (rank 1 differs from the others)"));
    }
    EXPECT_THAT(values, Each(1.0F));
  });
}

TEST(ClipGradientsDeathTest, RefusesAStageThatIsNotThere)  // Expects
{
  std::vector<float> values(1);
  std::vector<stage_gradient<float>> const own{{stage_id{2}, values}};
  auto comm = std::move(thread_communicator::make(1)[0]);
  EXPECT_DEATH((void)ballast::clip_gradients(comm, grid_with({{1, 1, 1}}), 2,
                                             std::span<stage_gradient<float> const>(own), 1),
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

TEST(AddSharedGradients, TellsAllThatShareOfNumbersOfTwoTypes)  // Errors
{
  expect_told(
      [](rank_id rank, auto const& add) {  // all of 32 bytes
        rank == rank_id{1} ? add(std::vector<float>(8, 1.0F)) : add(std::vector<double>(4, 1.0));
      },
      {rank_id{1}});
}

TEST(AddSharedGradients, TellsAllThatShareOfOtherCounts)  // Errors
{
  expect_told([](rank_id rank,
                 auto const& add) { add(std::vector<double>(rank == rank_id{3} ? 5U : 4U, 1.0)); },
              {});
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
