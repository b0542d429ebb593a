// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include <ballast/runtime/data/data_pipeline.hpp>
#include "../../support/test.hpp"
#include "data_rank_checks.hpp"
#include "faulty_source.hpp"

namespace {

TEST(LoaderOptions, GiveALoaderMinutesUnlessToldOtherwise)
{
  ballast::loader_options const options;
  EXPECT_GE(options.late_after, std::chrono::minutes(1));
  EXPECT_LE(options.least, options.most);
}

TEST(LoaderOptions, NeverGiveALoaderUpAtTheLargestTime)
{
  ballast_test::faulty_source const source{.usual = std::chrono::microseconds(500)};
  ballast::data_pipeline pipeline(source, ballast_test::by_length{1}, 1,
                                  {.samples = 20, .step_samples = 8}, {},
                                  {.late_after = std::chrono::milliseconds::max()});
  std::size_t samples = 0;
  while (auto const batch = pipeline.next(ballast::rank_id{0}).value()) {
    samples += batch->own.size();
    EXPECT_TRUE(batch->step->news.empty());
  }
  EXPECT_EQ(samples, 20U);
}

TEST(LoaderOptionsDeathTest, RefuseATimeThatIsNone)
{
  auto const make = [](std::chrono::milliseconds late_after) {
    ballast::data_pipeline pipeline(ballast_test::faulty_source{}, ballast_test::by_length{1}, 1,
                                    {.samples = 20}, {}, {.late_after = late_after});
  };
  EXPECT_DEATH(make(std::chrono::milliseconds(0)), "late_after is 0 ms");
  EXPECT_DEATH(make(std::chrono::milliseconds(-5)), "late_after is -5 ms");
}

}  // namespace
