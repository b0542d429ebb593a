#include <ballast/partition/concepts.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using namespace ballast;

// The least that is a policy: it is not copied, compared, or made by default.
struct archetype {
  explicit archetype(int) {}
  archetype(archetype&&) = delete;
  void operator()(partition_problem const&, std::span<cost_units>, std::span<bag_id>,
                  workspace&) const
  {}
};
static_assert(partition_policy<archetype>);

struct changes_itself {
  void operator()(partition_problem const&, std::span<cost_units>, std::span<bag_id>, workspace&) {}
};
constexpr auto wants_floating_point = [](partition_problem const&, std::span<double>,
                                         std::span<bag_id>, workspace&) {};
constexpr auto answers_a_number = [](partition_problem const&, std::span<cost_units>,
                                     std::span<bag_id>, workspace&) { return 0.0; };
static_assert(!partition_policy<changes_itself>);
static_assert(!partition_policy<decltype(wants_floating_point)>);
static_assert(!partition_policy<decltype(answers_a_number)>);

// A policy that pads and proves a makespan.
struct padded_and_proven {
  ratio operator()(partition_problem const&, std::span<cost_units>, std::span<bag_id>,
                   workspace&) const
  {
    return {7, 2};
  }
  [[nodiscard]] static constexpr batching batches() { return batching::padded; }
};
static_assert(partition_policy<padded_and_proven>);
static_assert(batching_of(padded_and_proven{}) == batching::padded);

TEST(Place, AnswersWhatThePolicyHasProven)
{
  workspace memory;
  EXPECT_EQ(run_policy(padded_and_proven{}, partition_problem{}, {}, {}, memory), (ratio{7, 2}));
  EXPECT_EQ(run_policy(archetype(0), partition_problem{}, {}, {}, memory), (ratio{0, 1}));
}

TEST(PartitionProblem, LetsASampleIntoBagsWithNoMoreGpusThanItHasTokens)
{
  for (auto const& [length, gpus] : {std::pair{4, 4U}, {5, 4U}, {1, 1U}, {0, 1U}, {0, 8U}}) {
    EXPECT_TRUE(partition_problem::splits(length, gpus)) << length << ' ' << gpus;
  }
  EXPECT_FALSE(partition_problem::splits(3, 4));
  EXPECT_FALSE(partition_problem::splits(1, 2));
}

TEST(PartitionProblem, SaysWhichTokensLieInWhichBag)
{
  std::vector<tokens> const lengths{3, 4, 0};
  std::vector<bag_id> const home{bag_id{5}, bag_id{2}, bag_id{1}};
  partition_problem problem;
  problem.lengths = lengths;
  problem.home = home;
  EXPECT_EQ(problem.tokens_at(0, bag_id{5}), 3);
  EXPECT_EQ(problem.tokens_at(0, bag_id{2}), 0);
  auto const homes_of = [&problem](std::size_t sample) {
    std::vector<std::pair<bag_id, tokens>> all;
    problem.for_each_home(sample,
                          [&](bag_id bag, tokens length) { all.emplace_back(bag, length); });
    return all;
  };
  EXPECT_EQ(homes_of(1), (std::vector{std::pair{bag_id{2}, tokens{4}}}));

  std::vector<tokens> const joint_lengths{10, 4, 0};
  std::vector<std::uint32_t> const first_part{0, 2, 3, 3};
  std::vector<partition_problem::part> const parts{{bag_id{2}, 3}, {bag_id{5}, 7}, {bag_id{2}, 4}};
  problem.joint_lengths = joint_lengths;
  problem.first_part = first_part;
  problem.parts = parts;
  EXPECT_EQ(problem.tokens_at(0, bag_id{5}), 7);
  EXPECT_EQ(problem.tokens_at(0, bag_id{2}), 3);
  EXPECT_EQ(problem.tokens_at(0, bag_id{3}), 0);
  EXPECT_EQ(problem.tokens_at(0, bag_id{6}), 0);
  EXPECT_EQ(problem.tokens_at(2, bag_id{1}), 0);
  EXPECT_EQ(homes_of(0).size(), 2U);
  EXPECT_TRUE(homes_of(2).empty());
}

}  // namespace
