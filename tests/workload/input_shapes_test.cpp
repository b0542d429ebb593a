// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/text/write_file.hpp>
#include <ballast/workload/input_shapes.hpp>

#include <array>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace {

using ballast::input_shape;
using ballast::load_input_shapes;
using ballast::read_input_shapes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(InputShapes, AreRowsOfTwoColumns)
{
  EXPECT_THAT(read_input_shapes("items,tokens\n7,1860\n0,66\n").value(),
              ElementsAre(input_shape{7, 1860}, input_shape{0, 66}));
  EXPECT_THAT(read_input_shapes("text,images\n5,2\n", "4*images", "text+256*images").value(),
              ElementsAre(input_shape{8, 517}));
  auto const refused = read_input_shapes("items,tokens\n7,1860\n-1,66\n");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().position, 3U);
  EXPECT_THAT(read_input_shapes("items,length\n7,1860\n").error().message, HasSubstr("'tokens'"));
}

TEST(InputShapes, AreLoaded)
{
  auto const path =
      (std::filesystem::temp_directory_path() / "ballast_input_shapes_test.csv").string();
  ASSERT_TRUE(ballast::write_file(path, "items,tokens\n7,1860\n"));
  EXPECT_THAT(load_input_shapes(path).value(), ElementsAre(input_shape{7, 1860}));
  ASSERT_TRUE(ballast::write_file(path, "items,tokens\n"));
  EXPECT_THAT(load_input_shapes(path).error().message,
              StartsWith(path + ": line 1: no row follows"));
  std::filesystem::remove(path);
  EXPECT_EQ(load_input_shapes(path).error().code, ballast::error_code::unreadable);
}

// Rows stay whole, and each is as likely as the others.
TEST(InputShapes, AreDrawnByRow)
{
  std::array<input_shape, 3> const rows = {{{1, 10}, {2, 20}, {3, 30}}};
  auto const drawn = ballast::draw_rows(std::span<input_shape const>(rows), 30'000, 7);
  std::map<std::int64_t, int> seen;
  for (auto const& each : drawn) {
    EXPECT_EQ(each.length, 10 * each.items);
    ++seen[each.items];
  }
  ASSERT_EQ(drawn.size(), 30'000U);
  for (auto const& [items, times] : seen) { EXPECT_NEAR(times, 10'000, 400) << items; }
  EXPECT_EQ(ballast::draw_rows(std::span<input_shape const>(rows), 30'000, 7), drawn);
  EXPECT_NE(ballast::draw_rows(std::span<input_shape const>(rows), 30'000, 8), drawn);
}

}  // namespace
