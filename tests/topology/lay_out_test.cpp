#include <ballast/topology/lay_out.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using ballast::bag;
using ballast::bag_id;
using ballast::bag_layout;
using ballast::cluster;
using ballast::cluster_of;
using ballast::error_code;
using ballast::lay_out;
using ballast::misplaced_bags;
using ballast::parse_bags;
using ballast::rank_id;
using ballast::to_id;
using ballast::to_index;

// Oracle for Ensures (1) and (2), written from the definition.
void expect_valid(bag_layout const& layout, cluster const& machines)
{
  std::vector<int> owners(machines.gpus(), 0);
  for (std::size_t index = 0; index < layout.size(); ++index) {
    bag const each = layout[to_id<bag_id>(index)];
    std::size_t const first = to_index(each.first);
    for (std::size_t rank = first; rank < first + each.gpus; ++rank) { ++owners.at(rank); }
    std::size_t const first_node = first / machines.gpus_per_node;
    std::size_t const last_node = (first + each.gpus - 1) / machines.gpus_per_node;
    if (each.gpus <= machines.gpus_per_node) {
      EXPECT_EQ(first_node, last_node) << "bag " << index << " straddles a node";
      EXPECT_EQ(first % machines.gpus_per_node % each.gpus, 0U) << "bag " << index << " misaligned";
    } else {
      EXPECT_EQ(first % machines.gpus_per_node, 0U) << "bag " << index;
      EXPECT_EQ(each.gpus % machines.gpus_per_node, 0U) << "bag " << index;
    }
  }
  EXPECT_THAT(owners, testing::Each(1));
}

TEST(LayOut, RepeatsReplicasInTheOrderWritten)  // Ensures (3)
{
  auto const layout = lay_out(*parse_bags("g1n2+g2n1+g4n1"), *cluster_of(16, 8));
  ASSERT_TRUE(layout) << layout.error().message;
  expect_valid(*layout, *cluster_of(16, 8));
  EXPECT_THAT(layout->sizes(), testing::ElementsAre(1, 1, 2, 4, 1, 1, 2, 4));
  EXPECT_EQ((*layout)[bag_id{7}].first, rank_id{12});
}

TEST(LayOut, JoinsWholeNodesIntoOneBag)
{
  auto const layout = lay_out(*parse_bags("g16n1+g8n1+g1n8"), *cluster_of(32, 8));
  ASSERT_TRUE(layout) << layout.error().message;
  expect_valid(*layout, *cluster_of(32, 8));
}

TEST(LayOut, RefusesGpusThatAreNoWholeNumberOfReplicas)
{
  auto const layout = lay_out(*parse_bags("g2n3"), *cluster_of(8));
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code, error_code::infeasible);
  EXPECT_THAT(layout.error().message, testing::HasSubstr("take 6 GPUs, and the job's 8"));
}

TEST(LayOut, NamesTheFirstBagThatIsMisplaced)
{
  // Misaligned: a bag of two at rank 1. Straddling: a bag of four at rank 6.
  auto const misaligned = lay_out(*parse_bags("g1n1+g2n1+g1n1"), *cluster_of(4, 4));
  ASSERT_FALSE(misaligned);
  EXPECT_EQ(misaligned.error().position, 1U);
  EXPECT_THAT(misaligned.error().message,
              testing::HasSubstr("bag 1 of 2 GPUs would start at rank 1"));
  auto const straddling = lay_out(*parse_bags("g2n3+g4n2+g2n1"), *cluster_of(16, 8));
  ASSERT_FALSE(straddling);
  EXPECT_EQ(straddling.error().position, 3U);
}

TEST(LayOut, LaysTheLargestFirstAndKeepsTheirNumbers)
{
  auto const layout = lay_out(*parse_bags("g1n1+g2n1+g4n1+g1n1"), *cluster_of(16, 8),
                              misplaced_bags::largest_first);
  ASSERT_TRUE(layout) << layout.error().message;
  expect_valid(*layout, *cluster_of(16, 8));
  EXPECT_THAT(layout->sizes(), testing::ElementsAre(1, 2, 4, 1, 1, 2, 4, 1));
}

TEST(LayOut, LeavesWhatFitsAloneWhenAskedForTheLargestFirst)  // Ensures (3)
{
  auto const spec = *parse_bags("g1n2+g2n1+g4n1");
  EXPECT_EQ(lay_out(spec, *cluster_of(16), misplaced_bags::largest_first),
            lay_out(spec, *cluster_of(16)));
}

TEST(LayOut, SaysWhichBagFitsNowhere)
{
  // 5 + 3 fill a node, but 3 is not aligned behind 5 and a node has no other gap for it.
  auto const layout =
      lay_out(*parse_bags("g5n1+g3n1"), *cluster_of(8), misplaced_bags::largest_first);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().position, 1U);
  EXPECT_THAT(layout.error().message, testing::HasSubstr("bag 1 of 3 GPUs fits nowhere"));
  // More than a node, but not whole nodes.
  EXPECT_FALSE(lay_out(*parse_bags("g12n1+g4n1"), *cluster_of(16), misplaced_bags::largest_first));
}

RC_GTEST_PROP(LayOut, FitsEverySpecOfPowersOfTwo, ())
{
  auto const sizes = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint32_t>>(
      rc::gen::element<std::uint32_t>(1, 2, 4, 8, 16)));
  RC_PRE(sizes.size() <= 16);
  std::string text;
  for (std::uint32_t const size : sizes) {
    text += (text.empty() ? "g" : "+g") + std::to_string(size) + "n1";
  }
  auto const spec = parse_bags(text);
  RC_ASSERT(spec.has_value());
  auto const machines = cluster_of(spec->gpus() * 16, 8);
  auto const layout = lay_out(*spec, *machines, misplaced_bags::largest_first);
  RC_ASSERT(layout.has_value());
  expect_valid(*layout, *machines);
  RC_ASSERT(!testing::Test::HasFailure());
}

}  // namespace
