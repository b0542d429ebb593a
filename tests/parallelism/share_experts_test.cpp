// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/share_experts.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/trials.hpp"

namespace share_experts_test {

using namespace ballast;
using places = ballast::jagged<expert_id, rank_id>;

places places_of(std::vector<std::vector<std::size_t>> const& rows)
{
  places made;
  for (auto const& row : rows) {
    for (std::size_t const gpu : row) { made.push_back(to_id<rank_id>(gpu)); }
    made.end_row();
  }
  return made;
}

TEST(ShareExperts, AreTheBestForWhatARouterCounts)
{
  // Expert 0 is on GPUs 0 and 1, expert 1 on GPUs 1 and 2, expert 2 on GPU 2.
  ballast::jagged<ballast::expert_id, ballast::rank_id> gpus;
  using ballast::rank_id;
  for (auto const& row :
       {std::vector{rank_id{0}, rank_id{1}}, {rank_id{1}, rank_id{2}}, {rank_id{2}}}) {
    for (rank_id const gpu : row) { gpus.push_back(gpu); }
    gpus.end_row();
  }
  std::vector<std::int64_t> const counted = {70, 10, 40};  // tokens of this batch
  auto const shares = ballast::share_experts(counted, gpus, 3).value();
  // Even shares would be 35, 40 and 45; the best are 40 each: shares.parts / shares.unit.
  EXPECT_EQ(shares.makespan, (ratio{40, 1}));
  EXPECT_TRUE(shares.proven_optimal());
}

// Oracle: no set of experts can do better than its load over all GPUs that have any of them.
ratio most_crowded_set(std::vector<std::int64_t> const& loads, places const& at, std::size_t gpus)
{
  ratio most{0, 1};
  for (std::size_t set = 1; set < std::size_t{1} << loads.size(); ++set) {
    std::int64_t load = 0;
    std::vector<bool> has(gpus, false);
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      if ((set >> expert) % 2 == 0) { continue; }
      load += loads[expert];
      for (rank_id const gpu : at[to_id<expert_id>(expert)]) { has[to_index(gpu)] = true; }
    }
    most = std::max(most, ratio{load, std::ranges::count(has, true)});
  }
  return most;
}

TEST(ShareExperts, ReachWhatTheMostCrowdedExpertsNeed)  // Ensures (1)
{
  ballast::random_source random(41);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const gpus = 1 + random.below(6);
    std::vector<std::vector<std::size_t>> rows(1 + random.below(7));
    std::vector<std::int64_t> loads;
    for (auto& row : rows) {
      loads.push_back(random.between(0, 50));
      for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        if (random.below(3) == 0) { row.push_back(gpu); }
      }
      if (row.empty()) { row.push_back(random.below(gpus)); }
    }
    places const at = places_of(rows);
    auto const shares = ballast::share_experts(loads, at, gpus).value();
    EXPECT_EQ(shares.makespan, most_crowded_set(loads, at, gpus));
    EXPECT_TRUE(shares.proven_optimal());
    std::vector<std::int64_t> sums(gpus, 0);
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      auto const parts = shares.parts[to_id<expert_id>(expert)];
      ASSERT_EQ(parts.size(), rows[expert].size());
      std::int64_t whole = 0;
      for (std::size_t each = 0; each < parts.size(); ++each) {
        EXPECT_GE(parts[each], 0);
        whole += parts[each];
        sums[rows[expert][each]] += parts[each];
      }
      EXPECT_EQ(whole, loads[expert] * shares.unit);
    }
    EXPECT_EQ((ratio{std::ranges::max(sums), shares.unit}), shares.makespan);
  }
}

TEST(ShareExperts, RefuseInASentence)  // Errors
{
  std::vector<std::int64_t> const loads = {5, 6};
  EXPECT_EQ(ballast::share_experts(loads, places_of({{0}}), 1).error().position, 1U);
  EXPECT_EQ(ballast::share_experts(loads, places_of({{0}, {}}), 1).error().message,
            "expert 1 has a load of 6 and no replica; place it on a GPU");
  EXPECT_EQ(ballast::share_experts(loads, places_of({{0}, {2}}), 2).error().message,
            "a replica of expert 1 is on GPU 2 of 2; correct its place");
  std::vector<std::int64_t> const negative = {5, -6};
  EXPECT_EQ(ballast::share_experts(negative, places_of({{0}, {0}}), 1).error().position, 1U);
  EXPECT_EQ(ballast::share_experts({}, {}, 0).value().makespan, (ratio{0, 1}));
}

TEST(ExpertPlacement, HasADigestOfItsPlaces)
{
  ballast::expert_placement one;
  one.experts.push_back(ballast::expert_id{0});
  one.experts.end_row();
  one.experts.end_row();
  ballast::expert_placement other;
  other.experts.end_row();
  other.experts.push_back(ballast::expert_id{0});
  other.experts.end_row();
  EXPECT_NE(one.digest(), other.digest());
  EXPECT_EQ(one.digest(), ballast::expert_placement(one).digest());
}

}  // namespace share_experts_test
