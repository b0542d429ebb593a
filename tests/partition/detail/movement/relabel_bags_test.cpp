#include <ballast/partition/detail/movement/relabel_bags.hpp>  // first: proves it is self-contained

#include "../../../support/homed_steps.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::tokens;

std::vector<bag_id> relabelled(ballast_test::homed_step const& homed, std::vector<bag_id> owner)
{
  ballast::workspace memory;
  auto const problem = homed.problem();
  ballast::detail::relabel_bags(problem, homed.starting_loads, owner, memory);
  return owner;
}

TEST(RelabelBags, ExchangesWholeContentsOfLikeBags)  // Ensures (1)
{
  ballast::random_source random(12);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = ballast_test::random_homed_step(random, 30, 6, 2);
    std::vector<bag_id> owner;
    for (std::size_t sample = 0; sample < homed.home.size(); ++sample) {
      owner.push_back(ballast::to_id<bag_id>(random.below(homed.step.gpus.size())));
    }
    auto const result = relabelled(homed, owner);
    std::map<bag_id, bag_id> label;
    std::map<bag_id, bag_id> content;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      auto const from = to_index(owner[sample]);
      auto const to = to_index(result[sample]);
      ASSERT_LT(to, homed.step.gpus.size());
      ASSERT_EQ(label.emplace(owner[sample], result[sample]).first->second, result[sample]);
      ASSERT_EQ(content.emplace(result[sample], owner[sample]).first->second, owner[sample]);
      ASSERT_EQ(homed.step.gpus[from], homed.step.gpus[to]);
      ASSERT_EQ(homed.speeds[from], homed.speeds[to]);
      ASSERT_EQ(homed.starting_loads[from], homed.starting_loads[to]);
    }
  }
}

TEST(RelabelBags, KeepsHalfOfWhatTheBestAssignmentKeeps)
{
  ballast::random_source random(13);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const bags = 1 + random.below(5);
    std::vector<tokens> lengths;
    std::vector<std::uint32_t> homes;
    std::vector<bag_id> owner;
    for (std::size_t sample = 0; sample < 12; ++sample) {
      lengths.push_back(random.between(1, 100));
      homes.push_back(static_cast<std::uint32_t>(random.below(bags)));
      owner.push_back(ballast::to_id<bag_id>(random.below(bags)));
    }
    ballast_test::homed_step const homed({lengths, lengths, std::vector<std::uint32_t>(bags, 1)},
                                         homes);
    tokens const all = std::accumulate(lengths.begin(), lengths.end(), tokens{0});
    std::vector<std::size_t> label(bags);
    std::iota(label.begin(), label.end(), std::size_t{0});
    tokens most = 0;
    do {
      std::vector<bag_id> each;
      for (bag_id const bag : owner) {
        each.push_back(ballast::to_id<bag_id>(label[to_index(bag)]));
      }
      most = std::max(most, all - homed.moved(each));
    } while (std::next_permutation(label.begin(), label.end()));
    EXPECT_GE(2 * (all - homed.moved(relabelled(homed, owner))), most);
  }
}

TEST(RelabelBags, CountsEveryPartOfASampleJoinedFromSeveral)
{
  // Most of each lies in bag 0, but bag 0 gains more by the second.
  ballast_test::homed_step homed({{5, 5}, {9, 9}, {1, 1}}, {0, 0});
  homed.joint_lengths = {15, 17};
  homed.first_part = {0, 2, 4};
  homed.parts = {{bag_id{0}, 8}, {bag_id{1}, 7}, {bag_id{0}, 12}, {bag_id{1}, 5}};
  EXPECT_EQ(relabelled(homed, {bag_id{0}, bag_id{1}}), (std::vector{bag_id{1}, bag_id{0}}));
}

TEST(RelabelBags, BringsAPlanHomeThatOnlyNamesBagsOtherwise)
{
  ballast_test::homed_step const homed({{5, 6, 7, 8}, {5, 6, 7, 8}, {1, 1, 1}}, {2, 0, 1, 2});
  EXPECT_EQ(relabelled(homed, {bag_id{1}, bag_id{2}, bag_id{0}, bag_id{1}}), homed.home);
  EXPECT_TRUE(relabelled(ballast_test::homed_step({{}, {}, {1, 2}}, {}), {}).empty());
}

TEST(RelabelBagsDeathTest, NeedsAHomeForEverySample)
{
  ballast_test::homed_step const homed({{3}, {3}, {1}}, {});
  EXPECT_DEATH((void)relabelled(homed, {bag_id{0}}), "homes of 0 samples for a plan of 1");
}

}  // namespace
