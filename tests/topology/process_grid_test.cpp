// SPDX-License-Identifier: Apache-2.0
#include <ballast/topology/process_grid.hpp>

#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

#include <ballast/core.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;

process_grid grid_of(std::vector<unit_sizes> const& modules)
{
  return process_grid::make(modules).value();
}

// Encoder, LLM and generator, counted by hand.
TEST(ProcessGrid, NumbersModulesOneAfterTheOtherAndTensorRanksFirst)
{
  process_grid const grid = grid_of({{2, 1, 1}, {2, 2, 2}, {1, 1, 1}});
  EXPECT_EQ(grid.size(), 3U);
  EXPECT_EQ(grid.ranks(), 11U);
  EXPECT_EQ(grid[1], (unit_sizes{2, 2, 2}));
  std::vector<grid_place> const places = {{0, 0, 0, 0}, {0, 1, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 1},
                                          {1, 0, 1, 0}, {1, 0, 1, 1}, {1, 1, 0, 0}, {1, 1, 0, 1},
                                          {1, 1, 1, 0}, {1, 1, 1, 1}, {2, 0, 0, 0}};
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    auto const id = ballast::to_id<rank_id>(rank);
    EXPECT_EQ(grid.place(id), places[rank]) << rank;
    EXPECT_EQ(grid.rank(places[rank]), id) << rank;
  }
  EXPECT_EQ(grid.data_ranks(1, 1, 0), (std::vector{rank_id{4}, rank_id{8}}));
  EXPECT_EQ(grid.data_ranks(0), (std::vector{rank_id{0}, rank_id{1}}));
}

TEST(ProcessGrid, HasPlacesAndColoursOfAnySizes)  // Ensures (1) (2) (3)
{
  ballast::random_source random(19);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<unit_sizes> modules(1 + random.below(4));
    auto const size = [&] { return static_cast<std::uint32_t>(1 + random.below(4)); };
    for (unit_sizes& each : modules) { each = {size(), size(), size()}; }
    process_grid const grid = grid_of(modules);
    for (grid_axis const axis :
         {grid_axis::data, grid_axis::pipeline, grid_axis::tensor, grid_axis::module}) {
      std::map<std::uint32_t, std::size_t> first;
      for (std::size_t rank = 0; rank < grid.ranks(); ++rank) {
        auto const id = ballast::to_id<rank_id>(rank);
        grid_place const own = grid.place(id);
        ASSERT_EQ(grid.rank(own), id);
        auto const colour = grid.colour(id, axis);
        EXPECT_EQ(first.emplace(colour, rank).first->second, colour);
        for (std::size_t other = 0; other < grid.ranks(); ++other) {
          grid_place place = grid.place(ballast::to_id<rank_id>(other));
          bool const near = colour == grid.colour(ballast::to_id<rank_id>(other), axis);
          if (axis == grid_axis::data) { place.data = own.data; }
          if (axis == grid_axis::pipeline) { place.pipeline = own.pipeline; }
          if (axis == grid_axis::tensor) { place.tensor = own.tensor; }
          if (axis == grid_axis::module && place.module == own.module) { place = own; }
          EXPECT_EQ(near, place == own) << rank << " and " << other;
        }
      }
    }
  }
}

TEST(ProcessGrid, RefusesSizesThatAreNoJob)
{
  auto const expect_refused = [](std::vector<unit_sizes> const& modules, std::size_t position,
                                 std::string const& why) {
    ballast_test::expect_refused(process_grid::make(modules), error_code::out_of_range, position,
                                 why);
  };
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  expect_refused({}, 0, "no module");
  expect_refused({{1, 1, 1}, {2, 0, 4}}, 1, "module 1 is parallel over 2 (data) x 0 (pipeline)");
  expect_refused({{1, 1, 1}, {most, most, most}}, 1, "more than 16777216 ranks");
  expect_refused({{1U << 24U, 1, 1}, {1, 1, 1}}, 1, "more than 16777216 ranks");
  EXPECT_EQ(grid_of({{1U << 8U, 1U << 8U, 1U << 8U}}).ranks(), std::size_t{1} << 24U);
}

TEST(ProcessGridDeathTest, RefusesPlacesThatItDoesNotHave)
{
  process_grid const grid = grid_of({{2, 1, 1}});
  EXPECT_DEATH((void)grid.rank({0, 2, 0, 0}), "place \\(2, 0, 0\\) of module 0");
  EXPECT_DEATH((void)grid.rank({1, 0, 0, 0}), "module 1 of a job of 1 module");
  EXPECT_DEATH((void)grid.place(rank_id{2}), "rank 2 of a job of 2 ranks");
}

}  // namespace
