#include "../../examples/common/by_name/any_policy.hpp"  // first: proves it is self-contained
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>
#include "../support/test.hpp"

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../../examples/common/baselines/quadratic_with_tolerance.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../support/limited_step.hpp"
#include "../support/policy_checks.hpp"
#include "../support/trials.hpp"

namespace {

using ballast::longest_processing_time;
using ballast::refine;
using by_name::any_policy;

static_assert(ballast::partition_policy<any_policy>);
static_assert(ballast::partition_policy<refine<any_policy>>);

template <class Policy>
void expect_plans_alike(Policy const& policy)
{
  any_policy const any(policy);
  EXPECT_EQ(any.batches(), ballast::batching_of(policy));
  if constexpr (requires { policy.work_within_limits(); }) {
    EXPECT_EQ(any.work_within_limits(), policy.work_within_limits());
  } else {
    EXPECT_EQ(any.work_within_limits(), 0U);
  }
  ballast::random_source random(23);
  for (int trial = 0; trial < 20; ++trial) {
    auto const step = ballast_test::random_instance(random, 40, 5, 4);
    auto const expected = ballast_test::plan_instance(step, policy);
    auto const plan = ballast_test::plan_instance(step, any);
    ASSERT_TRUE(plan && expected);
    EXPECT_EQ(plan->owner, expected->owner);
    EXPECT_EQ(plan->lower_bound, expected->lower_bound);
  }
}

TEST(AnyPolicy, PlansAsThePolicyThatItHolds)  // Ensures (1)
{
  expect_plans_alike(longest_processing_time{});
  expect_plans_alike(ballast::greedy_knapsack{ballast::knapsack_capacity::full});
  expect_plans_alike(ballast::round_robin{});
  expect_plans_alike(refine<>{.nodes = 1000});
  expect_plans_alike(ballast::padded_batches{});
  expect_plans_alike(ballast::attention_padded_batches{});
  expect_plans_alike(ballast::conv_transformer_batches{});
  expect_plans_alike(baselines::quadratic_with_tolerance{});
}

/// Whatever a policy does with samples as long as the smallest bag, it does with short ones.
template <class Policy>
void expect_short_samples_placed(Policy const& policy)
{
  ballast::random_source random(37);
  for (int trial = 0; trial < 100; ++trial) {
    ballast_test::instance step = ballast_test::random_instance(random, 30, 5, 8);
    auto const refusing = ballast_test::consecutive_bags(step.gpus, step.gpu_speeds);
    auto const admitting = refusing.with_short_samples(ballast::short_samples::admitted);
    auto const plan_on = [&](ballast::bag_layout const& bags,
                             ballast::placement_limits const& constraints = {}) {
      return ballast::partition(
          ballast_test::number_samples(step), bags, ballast_test::instance_cost{step},
          [&](ballast_test::numbered n) { return step.lengths[n.sample]; }, constraints, policy);
    };
    ballast::tokens const smallest = refusing.smallest_bag();
    for (ballast::tokens& length : step.lengths) {
      if (random.below(3) == 0) { length = smallest; }
    }
    auto const expected = plan_on(refusing);
    ASSERT_TRUE(expected) << expected.error().message;
    std::size_t short_ones = 0;
    for (ballast::tokens& length : step.lengths) {
      if (length == smallest && smallest > 1) {
        length = random.between(1, smallest - 1);
        ++short_ones;
      }
    }
    EXPECT_EQ(plan_on(refusing).has_value(), short_ones == 0);
    auto const plan = plan_on(admitting);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->short_samples, short_ones);
    EXPECT_EQ(plan->owner, expected->owner);
    EXPECT_EQ(plan->loads, expected->loads);
    EXPECT_EQ(plan->lower_bound, expected->lower_bound);

    std::vector<ballast::rank_id> home;
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      home.push_back(ballast::to_id<ballast::rank_id>(random.below(refusing.gpus())));
    }
    auto const from_home = plan_on(admitting, {.home = home});
    ASSERT_TRUE(from_home) << from_home.error().message;
    ballast::tokens moved = 0;
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      ballast::bag_id const owner = from_home->owner[sample];
      EXPECT_TRUE(admitting.takes(owner, step.lengths[sample]));
      moved += admitting.bag_of(home[sample]) == owner ? 0 : step.lengths[sample];
    }
    EXPECT_EQ(from_home->moved.numerator, moved);
  }
}

TEST(AnyPolicy, PlacesShortSamplesWhateverThePolicy)
{
  expect_short_samples_placed(longest_processing_time{});
  expect_short_samples_placed(ballast::greedy_knapsack{});
  expect_short_samples_placed(ballast::greedy_knapsack{ballast::knapsack_capacity::full});
  expect_short_samples_placed(ballast::round_robin{});
  expect_short_samples_placed(baselines::karmarkar_karp{});
  expect_short_samples_placed(refine{longest_processing_time{}});
  expect_short_samples_placed(refine<any_policy>{any_policy(longest_processing_time{}), 0, 0, 99});
  expect_short_samples_placed(ballast::padded_batches{});
  expect_short_samples_placed(ballast::attention_padded_batches{});
  expect_short_samples_placed(ballast::conv_transformer_batches{});
  expect_short_samples_placed(baselines::quadratic_with_tolerance{});
}

TEST(AnyPolicy, HoldsPoliciesThatWorkWithAnyOther)  // Ensures (1)
{
  any_policy const inner(ballast::greedy_knapsack{});
  any_policy const nested(refine<any_policy>{any_policy(refine<any_policy>{inner})});
  refine const typed{refine{ballast::greedy_knapsack{}}};
  ballast::random_source random(24);
  for (int trial = 0; trial < 20; ++trial) {
    auto const step = ballast_test::random_instance(random, 40, 5, 4);
    EXPECT_EQ(ballast_test::plan_instance(step, nested)->owner,
              ballast_test::plan_instance(step, typed)->owner);
  }
}

TEST(AnyPolicy, IsAValue)
{
  any_policy const lpt;
  EXPECT_EQ(lpt, any_policy(longest_processing_time{}));
  any_policy changed(refine<any_policy>{lpt, 5});
  EXPECT_EQ(changed, any_policy(refine<any_policy>{any_policy{}, 5}));
  EXPECT_NE(changed, any_policy(refine<any_policy>{lpt, 6}));
  EXPECT_NE(changed, lpt);
  any_policy const copy = changed;
  changed = lpt;
  EXPECT_EQ(changed, lpt);
  EXPECT_NE(copy, lpt);
  any_policy const moved = std::move(changed);
  EXPECT_EQ(moved, lpt);
  EXPECT_EQ(changed, lpt);  // NOLINT(bugprone-use-after-move): a policy is never left without one
}

// All to the last bag, so that it cannot be taken for one of the library's.
struct last_bag {
  void operator()(ballast::partition_problem const& problem, std::span<ballast::cost_units> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace&) const
  {
    for (std::size_t sample = 0; sample < problem.costs.size(); ++sample) {
      owner[sample] = ballast::to_id<ballast::bag_id>(loads.size() - 1);
      loads.back() += problem.costs[sample];
    }
  }
  friend bool operator==(last_bag const&, last_bag const&) = default;
};

TEST(AnyPolicy, HoldsTheCallersOwnPolicy)  // Ensures (2)
{
  any_policy const own(last_bag{});
  EXPECT_EQ(own, any_policy(last_bag{}));
  EXPECT_NE(own, any_policy{});
  std::vector<ballast::tokens> const lengths = {3, 2, 1};
  ballast::bag_layout const bags(
      std::array{ballast::bag{ballast::rank_id{0}, 1}, ballast::bag{ballast::rank_id{1}, 1}});
  auto const plan = ballast::partition(lengths, bags, std::identity{}, {}, own).value();
  EXPECT_EQ(plan.loads, (std::vector<ballast::cost_units>{0, 6}));
}

TEST(AnyPolicy, PlacesEverySampleInABagItFits)
{
  ballast_test::expect_valid_plans(any_policy(refine<any_policy>{}), 25);
  ballast_test::expect_starting_loads_counted(any_policy{});
}

// A small step with one cap and perhaps samples that stay together, in bags of several sizes and speeds.
limited_steps::limited_step<1> draw_limited_step(ballast::random_source& random)
{
  std::vector<std::uint32_t> gpus(1 + random.below(3));
  for (auto& each : gpus) { each = std::uint32_t{1} << random.below(3); }
  auto bags = ballast_test::consecutive_bags(gpus);
  bool const admits = random.below(2) == 0;
  if (admits) { bags = bags.with_short_samples(ballast::short_samples::admitted); }
  auto const cap = random.below(3) == 0 ? limited_steps::images_cap : limited_steps::tokens_cap;
  auto step = limited_steps::draw<1>(random, cap, cap, random.below(7), bags);
  step.has[limited_steps::together] = random.below(3) == 0;
  for (ballast::tokens& length : step.lengths) {
    if (random.below(3) == 0) { length = random.between(admits ? 0 : bags.smallest_bag(), 5); }
  }
  return step;
}

struct half_attention {
  limited_steps::limited_step<1> const& step;

  ballast::cost_units operator()(std::size_t sample) const { return step.costs[sample][0]; }
  [[nodiscard]] ballast::cost_units attention_part(std::size_t sample) const
  {
    return step.costs[sample][0] / 2;
  }
};

// Whether bags hold no more than the cap where each sample counts as the longest of its bag.
bool holds_padded(limited_steps::limited_step<1> const& step, ballast_test::assignment const& owner)
{
  bool const by_images = step.has[limited_steps::images_cap];
  auto const& weights = by_images ? step.images : step.lengths;
  for (std::size_t bag = 0; bag < step.bags; ++bag) {
    std::int64_t count = 0;
    std::int64_t longest = 0;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      if (owner[sample] != bag) { continue; }
      ++count;
      longest = std::max(longest, weights[sample]);
    }
    auto const most = step.of_cell(bag, by_images ? step.most_images : step.most_per_gpu);
    if (count * longest > most) { return false; }
  }
  return true;
}

TEST(AnyPolicy, KeepsEveryConstraintThatItTakesOrRefuses)
{
  constexpr std::array names = {"round_robin",
                                "lpt",
                                "karmarkar_karp",
                                "greedy_knapsack",
                                "greedy_knapsack:capacity=full",
                                "refine",
                                "refine:nodes=1000",
                                "refine:greedy_knapsack",
                                "padded_batches",
                                "attention_padded_batches",
                                "conv_transformer_batches",
                                "quadratic_with_tolerance:tolerance=3"};
  ballast::random_source random(2026);
  std::map<std::string, int> kept;
  for (int trial = 0; trial < ballast_test::trials_of(150); ++trial) {
    auto const step = draw_limited_step(random);
    bool possible = false;
    ballast_test::each_assignment(step.samples, step.bags, [&](auto const& owner) {
      possible = possible || (owner.size() == step.samples && limited_steps::keeps(step, owner));
      return !possible;
    });
    for (char const* const name : names) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << name);
      auto const policy = by_name::parse_policy(name).value();
      auto const plan = limited_steps::planned(
          step, [&](auto const& samples, auto const& bags, auto const& /*cost*/, auto const& length,
                    auto const& limits) {
            return ballast::partition(samples, bags, half_attention{step}, length, limits, policy);
          });
      if (plan) {
        auto const owner = ballast_test::assignment_of(plan->owner);
        ASSERT_TRUE(limited_steps::keeps(step, owner));
        ASSERT_TRUE(policy.batches() != ballast::batching::padded || holds_padded(step, owner));
        ++kept[name];
      } else if (possible) {
        // Around a policy that packs the plan is found; others say what would find it.
        EXPECT_NE(policy.batches(), ballast::batching::packed) << plan.error().message;
        EXPECT_THAT(plan.error().message, testing::ContainsRegex("use a|not all fillings"));
      }
    }
  }
  for (char const* const name : names) {
    EXPECT_GE(kept[name], ballast_test::trials_of(6)) << name;
  }
}

}  // namespace
