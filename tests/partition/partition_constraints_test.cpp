#include <ballast/partition/partition_constraints.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using namespace ballast;
using ballast::detail::check_constraints;
using testing::HasSubstr;

TEST(PartitionConstraints, AskNothingUnlessTold)
{
  EXPECT_TRUE(check_constraints({}, 5, 2));
  EXPECT_EQ(partition_constraints{}.most_per_gpu, partition_constraints::no_limit);
}

TEST(PartitionConstraints, TakeEveryKeyAndEveryRank)
{
  std::vector<std::int64_t> const keys{std::numeric_limits<std::int64_t>::min(), 0};
  std::vector<rank_id> const home{rank_id{0}, rank_id{3}};
  EXPECT_TRUE(check_constraints({.together = keys, .home = home}, 2, 4));
}

TEST(PartitionConstraints, NameTheSampleThatLiesNowhere)
{
  std::vector<rank_id> const home{rank_id{0}, rank_id{4}};
  auto const checked = check_constraints({.home = home}, 2, 4);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, error_code::out_of_range);
  EXPECT_EQ(checked.error().position, 1U);
  EXPECT_THAT(checked.error().message, HasSubstr("sample 1 lies on rank 4 of a job of 4 GPUs"));
}

TEST(PartitionConstraints, RefuseLimitsBelowZero)
{
  auto const checked = check_constraints({.most_per_gpu = -1}, 2, 4);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, error_code::out_of_range);
  EXPECT_THAT(checked.error().message, HasSubstr("a GPU cannot hold -1"));
  EXPECT_TRUE(check_constraints({.most_per_gpu = 0}, 2, 4));
}

TEST(PartitionConstraints, RefuseWeightsThatCountAgainstNothing)
{
  std::vector<std::int64_t> const weights{3, 1};
  auto const checked = check_constraints({.weights = weights}, 2, 4);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, error_code::out_of_range);
  EXPECT_EQ(checked.error().message,
            "constraints.weights has no most_per_gpu to count against; give the most that a GPU "
            "holds, or no weights");
  EXPECT_TRUE(check_constraints({.weights = {}}, 2, 4));
}

TEST(PartitionConstraints, NameTheWeightThatIsWrong)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> const negative{3, -1};
  std::vector<std::int64_t> const together{most / 2, most / 2, 1};
  std::vector<std::int64_t> const enough{most / 2, most / 2};
  auto const below_zero = check_constraints({.most_per_gpu = 9, .weights = negative}, 2, 4);
  ASSERT_FALSE(below_zero);
  EXPECT_EQ(below_zero.error().position, 1U);
  auto const overflow = check_constraints({.most_per_gpu = 9, .weights = together}, 3, 4);
  ASSERT_FALSE(overflow);
  EXPECT_EQ(overflow.error().position, 2U);
  EXPECT_THAT(overflow.error().message, HasSubstr("above 63 bits"));
  EXPECT_TRUE(check_constraints({.most_per_gpu = 9, .weights = enough}, 2, 4));
}

TEST(PartitionConstraints, RefuseArraysOfOtherSizes)
{
  std::vector<std::int64_t> const keys(3, 1);
  std::vector<rank_id> const ranks(3, rank_id{0});
  auto const message = [](partition_constraints const& given, std::size_t samples) {
    auto const checked = check_constraints(given, samples, 4);
    return checked ? "" : checked.error().message;
  };
  EXPECT_THAT(message({.together = keys}, 2),
              HasSubstr("constraints.together has 3 entries for 2 samples"));
  EXPECT_THAT(message({.home = ranks}, 4), HasSubstr("constraints.home has 3 entries for 4"));
  EXPECT_THAT(message({.weights = keys}, 4), HasSubstr("constraints.weights has 3 entries for 4"));
  EXPECT_EQ(check_constraints({.weights = keys}, 4, 4).error().position, 3U);
  EXPECT_EQ(message({.together = keys, .most_per_gpu = 9, .weights = keys}, 3), "");
}

}  // namespace
