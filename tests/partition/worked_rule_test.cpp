// SPDX-License-Identifier: Apache-2.0
// The rule that CONTRIBUTING.md adds.
#include "../support/all_assignments.hpp"  // defines: ballast_test::{least_of_all, ...}
#include "../support/test.hpp"
#include "../support/trials.hpp"  // defines: ballast_test::trials_of

#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/partition.hpp>

namespace {

using ballast::sample_id;

// [rule]
enum class kind : std::uint8_t { text, video, audio };

/// A bag with an audio clip takes at most two videos.
struct two_videos_beside_audio {
  std::span<kind const> kinds;  // of each sample

  bool operator()(std::span<ballast::sample_id const> together) const
  {
    auto const has = [&](kind wanted) {
      return std::ranges::count(together, wanted, [&](auto sample) { return kinds[sample]; });
    };
    return has(kind::audio) == 0 || has(kind::video) <= 2;
  }
};
// [rule]

TEST(WorkedRule, LevelsWithinIt)
{
  // [rule_call]
  using enum kind;
  std::vector<ballast::tokens> const lengths = {80, 20, 20, 20, 20};
  std::vector<kind> const kinds = {text, audio, video, video, video};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), std::identity{},
                                       {.mixes = two_videos_beside_audio{kinds}});
  // The third video goes to the text: 100 and 60, where 80 and 80 would be level.
  // [rule_call]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->makespan, (ballast::ratio{100, 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

struct drawn_step {
  std::size_t bags;
  std::int64_t cap;
  std::vector<ballast::tokens> lengths;
  std::vector<kind> kinds;
};

drawn_step draw(ballast::random_source& random)
{
  drawn_step step{1 + random.below(3), ballast::no_limit, {}, {}};
  for (std::uint64_t left = random.below(8); left > 0; --left) {
    step.lengths.push_back(1 + static_cast<std::int64_t>(random.below(30)));
    step.kinds.push_back(
        std::array{kind::text, kind::video, kind::video, kind::audio}[random.below(4)]);
  }
  if (random.below(2) == 0) { step.cap = 30 + static_cast<std::int64_t>(random.below(60)); }
  return step;
}

// Oracle: the largest load of an assignment, or nothing where a bag breaks the rule or the cap.
std::optional<std::int64_t> judge(drawn_step const& step, ballast_test::assignment const& owner)
{
  std::vector<std::int64_t> loads(step.bags, 0);
  std::vector<int> videos(step.bags, 0);
  std::vector<bool> has_audio(step.bags, false);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bag = owner[sample];
    loads[bag] += step.lengths[sample];
    videos[bag] += step.kinds[sample] == kind::video ? 1 : 0;
    has_audio[bag] = has_audio[bag] || step.kinds[sample] == kind::audio;
  }
  for (std::size_t bag = 0; bag < step.bags; ++bag) {
    if (loads[bag] > step.cap || (has_audio[bag] && videos[bag] > 2)) { return std::nullopt; }
  }
  return std::ranges::max(loads);
}

// [rule_oracle]
TEST(WorkedRule, GivesTheShortestOfAllPlansThatKeepIt)
{
  ballast::random_source random(44);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    auto const step = draw(random);
    auto const best = ballast_test::least_of_all(
        step.lengths.size(), step.bags, [&](auto const& owner) { return judge(step, owner); });
    auto const plan = ballast::partition(
        step.lengths, ballast::one_gpu_bags(step.bags), std::identity{},
        {.most_per_gpu = step.cap, .mixes = two_videos_beside_audio{step.kinds}});
    ASSERT_EQ(plan.has_value(), best.has_value()) << "trial " << trial;
    if (!best) { continue; }
    ASSERT_EQ(judge(step, ballast_test::assignment_of(plan->owner)), best);
    EXPECT_TRUE(plan->proven_optimal());
  }
}
// [rule_oracle]

TEST(WorkedRule, HoldsInTheFewestBins)
{
  ballast::random_source random(45);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = draw(random);
    step.cap = std::min<std::int64_t>(step.cap, 60);
    step.bags = step.lengths.size() + 1;
    auto const fewest = ballast_test::least_of_all_packings(
        step.lengths.size(), step.bags,
        [&](ballast_test::assignment const& owner, std::size_t open) {
          return judge(step, owner) ? std::optional(open) : std::nullopt;
        });
    auto const packed = ballast::pack(
        step.lengths, {.most_per_gpu = step.cap, .mixes = two_videos_beside_audio{step.kinds}});
    ASSERT_TRUE(packed) << packed.error().message;
    EXPECT_EQ(packed->bins(), *fewest);
    ASSERT_TRUE(judge(step, ballast_test::assignment_of(packed->owner)));
  }
}

TEST(WorkedRule, IsNamedWhereNoPlanKeepsIt)
{
  std::vector<ballast::tokens> const lengths = {4, 3, 2, 1};
  std::vector<kind> const kinds = {kind::video, kind::audio, kind::video, kind::video};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(1), std::identity{},
                                       {.mixes = two_videos_beside_audio{kinds}});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("have no plan that keeps limits.mixes"));
}

}  // namespace
