// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"

namespace {

using ballast::data_step;

struct loads_only {
  [[nodiscard]] static ballast::result<ballast::loaded_sample> load(std::uint64_t)
  {
    return ballast::loaded_sample{};
  }
};
struct knows_lengths : loads_only {
  [[nodiscard]] static std::vector<ballast::tokens> lengths(std::uint64_t) { return {1}; }
};
struct gives_bytes {
  [[nodiscard]] static std::vector<char> load(std::uint64_t) { return {}; }
};

static_assert(ballast::data_source<loads_only>);
static_assert(!ballast::data_source_with_lengths<loads_only>);
static_assert(ballast::data_source_with_lengths<knows_lengths>);
static_assert(!ballast::data_source<gives_bytes>);

TEST(DataSetup, LeavesOutWhatCannotBeDecodedUnlessToldToStop)
{
  ballast::data_setup const setup{.samples = 3};
  EXPECT_EQ(setup.when_undecodable, ballast::undecodable::left_out);
  EXPECT_EQ(setup.step_samples, 1U);
  EXPECT_GE(setup.fetched_ahead, 1U);
}

TEST(DataWindows, AreOneStepOfTotalLengthsUnlessToldOtherwise)
{
  std::vector<ballast::tokens> const lengths = {3, 4};
  ballast::data_windows const windows;
  EXPECT_EQ(windows.steps, 1U);
  EXPECT_EQ(windows.held_back, 0U);
  EXPECT_EQ(windows.cost(lengths), 7);
  auto const first = [](auto of) { return 2 * of[0]; };
  ballast::data_windows const told{
      .steps = 2, .held_back = 1, .policy = ballast::even_rounds{}, .cost = first};
  EXPECT_EQ(told.cost(lengths), 6);
}

TEST(DataStep, HasADigestOfWhatTrainsAndNotOfWhoComputesIt)
{
  data_step const step{.number = 4, .modules = 2, .samples = {7, 9}, .lengths = {1, 2, 3, 4}};
  EXPECT_THAT(step.lengths_of(1), testing::ElementsAre(3, 4));
  data_step other = step;
  other.owner = {ballast::rank_id{1}, ballast::rank_id{0}};
  other.news = {"loader 1 was lost"};
  EXPECT_EQ(step.digest(), other.digest());
  other.lengths[1] = 3;
  EXPECT_NE(step.digest(), other.digest());
}

}  // namespace
