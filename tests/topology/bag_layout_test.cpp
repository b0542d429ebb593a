#include <ballast/topology/bag_layout.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/digest.hpp>
#include <ballast/core/quantities.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::bag;
using ballast::bag_id;
using ballast::bag_layout;
using ballast::one_gpu_bags;
using ballast::rank_id;
using ballast::short_samples;

TEST(BagLayout, AnswersBothWays)  // Ensures (1) (2)
{
  std::vector<bag> const bags{{rank_id{2}, 2}, {rank_id{0}, 1}, {rank_id{1}, 1}};
  bag_layout const layout(bags);
  EXPECT_EQ(layout.size(), 3U);
  EXPECT_EQ(layout.gpus(), 4U);
  EXPECT_THAT(layout.sizes(), testing::ElementsAre(2, 1, 1));
  EXPECT_EQ(layout[bag_id{0}], (bag{rank_id{2}, 2}));
  EXPECT_EQ(layout.bag_of(rank_id{0}), bag_id{1});
  EXPECT_EQ(layout.bag_of(rank_id{1}), bag_id{2});
  EXPECT_EQ(layout.bag_of(rank_id{2}), bag_id{0});
  EXPECT_EQ(layout.bag_of(rank_id{3}), bag_id{0});
}

TEST(BagLayout, HasADigestThatEveryBagEnters)
{
  std::vector<bag> const bags{{rank_id{0}, 1}, {rank_id{1}, 1}, {rank_id{2}, 2}};
  std::vector<bag> const swapped{{rank_id{1}, 1}, {rank_id{0}, 1}, {rank_id{2}, 2}};
  std::vector<bag> const other_sizes{{rank_id{0}, 1}, {rank_id{1}, 2}, {rank_id{3}, 1}};
  EXPECT_EQ(bag_layout(bags).digest(), bag_layout(bags).digest());
  EXPECT_NE(bag_layout(bags).digest(), bag_layout(swapped).digest());
  EXPECT_NE(bag_layout(bags).digest(), bag_layout(other_sizes).digest());
}

TEST(BagLayout, IsAsFastAsTheSlowestGpuOfABagTimesItsGpus)  // Ensures (3)
{
  std::vector<bag> const bags{{rank_id{2}, 2}, {rank_id{0}, 1}, {rank_id{1}, 1}};
  EXPECT_THAT(bag_layout(bags).speeds(), testing::ElementsAre(2, 1, 1));
  std::vector<std::uint32_t> const gpu_speeds{100, 70, 90, 60};
  bag_layout const layout(bags, gpu_speeds);
  EXPECT_THAT(layout.speeds(), testing::ElementsAre(120, 100, 70));
  EXPECT_THAT(layout.sizes(), testing::ElementsAre(2, 1, 1));
}

TEST(BagLayout, TakesOtherSpeedsForTheSameBags)
{
  std::vector<bag> const bags{{rank_id{0}, 1}, {rank_id{1}, 2}};
  std::vector<std::uint32_t> const gpu_speeds{3, 2, 5};
  bag_layout const alike(bags);
  EXPECT_EQ(alike.with_speeds(gpu_speeds), bag_layout(bags, gpu_speeds));
  EXPECT_NE(alike.with_speeds(gpu_speeds), alike);
  EXPECT_NE(alike.with_speeds(gpu_speeds).digest(), alike.digest());
  EXPECT_EQ(alike.with_speeds(gpu_speeds).with_speeds({}), alike);
  EXPECT_EQ(alike.with_speeds(std::vector<std::uint32_t>{1, 1, 1}).digest(), alike.digest());
}

TEST(BagLayout, AdmitsShortSamplesOnlyWhereItIsAsked)  // Ensures (4)
{
  std::vector<bag> const bags{{rank_id{0}, 8}, {rank_id{8}, 4}, {rank_id{12}, 4}};
  bag_layout const refusing(bags);
  EXPECT_FALSE(refusing.admits_short_samples());
  EXPECT_EQ(refusing.with_short_samples(short_samples::refused), refusing);
  bag_layout const admitting = refusing.with_short_samples(short_samples::admitted);
  EXPECT_TRUE(admitting.admits_short_samples());
  EXPECT_NE(admitting, refusing);
  EXPECT_NE(admitting.digest(), refusing.digest());
  EXPECT_EQ(admitting.with_short_samples(short_samples::refused), refusing);
  std::vector<std::uint32_t> const gpu_speeds(16, 2);
  EXPECT_TRUE(admitting.with_speeds(gpu_speeds).admits_short_samples());
}

TEST(BagLayout, SaysWhichBagsTakeASample)
{
  std::vector<bag> const bags{{rank_id{0}, 8}, {rank_id{8}, 4}, {rank_id{12}, 4}};
  bag_layout const refusing(bags);
  bag_layout const admitting = refusing.with_short_samples(short_samples::admitted);
  EXPECT_EQ(refusing.smallest_bag(), 4U);
  EXPECT_EQ(bag_layout{}.smallest_bag(), 0U);
  for (ballast::tokens length = 0; length <= 9; ++length) {
    SCOPED_TRACE(length);
    EXPECT_EQ(refusing.is_short(length), length >= 1 && length <= 3);
    EXPECT_EQ(admitting.is_short(length), length >= 1 && length <= 3);
    EXPECT_EQ(refusing.takes(bag_id{0}, length), length == 0 || length >= 8);
    EXPECT_EQ(refusing.takes(bag_id{1}, length), length == 0 || length >= 4);
    EXPECT_EQ(admitting.takes(bag_id{0}, length), length == 0 || length >= 8) << "not a smallest";
    EXPECT_TRUE(admitting.takes(bag_id{1}, length));
    EXPECT_TRUE(admitting.takes(bag_id{2}, length));
  }
  EXPECT_FALSE(admitting.takes(bag_id{1}, -1));
}

TEST(BagLayout, HasTheDigestThatItHadBeforeShortSamplesCouldBeAdmitted)
{
  std::vector<bag> const bags{{rank_id{0}, 1}, {rank_id{1}, 3}};
  std::vector<std::uint32_t> const sizes{1, 3};
  std::vector<rank_id> const first{rank_id{0}, rank_id{1}};
  EXPECT_EQ(bag_layout(bags).digest(), ballast::digest{}
                                           .add(std::span<rank_id const>(first))
                                           .add(std::span<std::uint32_t const>(sizes))
                                           .add(std::span<std::uint32_t const>(sizes))
                                           .value());
}

TEST(BagLayoutDeathTest, RefusesSpeedsThatAreNone)
{
  std::vector<bag> const bags{{rank_id{0}, 1}, {rank_id{1}, 2}};
  bag_layout const layout(bags);
  using speeds = std::vector<std::uint32_t>;
  EXPECT_DEATH((void)layout.with_speeds(speeds{1, 1}), "speeds of 2 GPUs for a layout of 3");
  EXPECT_DEATH((void)layout.with_speeds(speeds{1, 1, 0}), "bag 1 has a speed of 0");
  EXPECT_DEATH((void)layout.with_speeds(speeds{1, 1U << 31, 1U << 31}),
               "has a speed of 4294967296, which is not from 1 to 4294967295");
}

TEST(BagLayout, MayBeEmpty)
{
  EXPECT_EQ(bag_layout{}.size(), 0U);
  EXPECT_EQ(one_gpu_bags(0), bag_layout{});
  EXPECT_EQ(one_gpu_bags(0).gpus(), 0U);
}

TEST(BagLayout, GivesEveryRankABagOfItsOwn)
{
  bag_layout const layout = one_gpu_bags(3);
  ASSERT_EQ(layout.size(), 3U);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(layout[bag_id{rank}], (bag{rank_id{rank}, 1}));
    EXPECT_EQ(layout.bag_of(rank_id{rank}), bag_id{rank});
  }
}

TEST(BagLayoutDeathTest, RefusesBagsThatAreNoPartitionOfTheRanks)
{
  EXPECT_DEATH(bag_layout(std::vector<bag>{{rank_id{0}, 2}, {rank_id{1}, 1}}),
               "rank 1 is in bag 0 and in bag 1");
  EXPECT_DEATH(bag_layout(std::vector<bag>{{rank_id{1}, 1}}),
               "bag 0 has 1 GPU from rank 1 on, and all bags have 1");
  EXPECT_DEATH(bag_layout(std::vector<bag>{{rank_id{0}, 0}}), "bag 0 has 0 GPUs");
  EXPECT_DEATH((void)one_gpu_bags(2)[bag_id{2}], "bag 2 of a layout of 2 bags");
  EXPECT_DEATH((void)one_gpu_bags(2).bag_of(rank_id{2}), "rank 2 of a layout of 2 GPUs");
}

}  // namespace
