// What an integer program solver says, beside ours: it shares neither code nor method with them.

#include "../support/cbc_judge.hpp"
#include "../support/instances.hpp"
#include "../support/test.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/refine.hpp>

namespace {

using ballast::ratio;
using ballast_test::cbc_verdict;

ballast_test::instance random_step(std::uint64_t seed, std::size_t samples, std::size_t bags)
{
  ballast::random_source random(seed);
  ballast_test::instance step;
  step.gpus.assign(bags, 1);
  step.lengths.assign(samples, 1);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    step.costs.push_back(random.between(1, 100));
  }
  return step;
}

TEST(Cbc, AgreesWithExhaustiveSearch)  // so that it may judge
{
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const step = random_step(seed, 7, 3);
    cbc_verdict const verdict = ballast_test::ask_cbc(step.costs, 3, 20.0);
    ASSERT_TRUE(verdict.proven);
    EXPECT_EQ(verdict.makespan, ballast_test::optimum(step));
  }
}

TEST(Cbc, ProvesTheOptimaThatExactProves)
{
  int judged = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::size_t const bags = 3 + seed % 3;
    auto const step = random_step(100 + seed, 3 * bags, bags);
    auto const plan =
        ballast_test::plan_instance(step, ballast::refine<>{.nodes = std::uint64_t{1} << 24});
    ASSERT_TRUE(plan->proven_optimal());
    cbc_verdict const verdict = ballast_test::ask_cbc(step.costs, bags, 10.0);
    if (!verdict.proven) { continue; }  // out of time: no judgement
    ++judged;
    EXPECT_EQ(verdict.makespan, plan->makespan);
  }
  EXPECT_GE(judged, 6);
}

TEST(Cbc, FindsNothingBelowTheBounds)
{
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const step = random_step(200 + seed, 30, 6);
    auto const plan = ballast_test::plan_instance(step, ballast::longest_processing_time{});
    cbc_verdict const verdict = ballast_test::ask_cbc(step.costs, 6, 1.0);
    if (verdict.makespan) { EXPECT_GE(*verdict.makespan, plan->lower_bound); }
  }
}

// Packings of 50 samples, a few to a bin: where a lower bound says that bins are too few, the
// solver finds no packing into these either.
TEST(Cbc, PacksIntoNoFewerBinsThanTheBound)
{
  struct range {
    std::int64_t from;
    std::int64_t to;
  };
  for (auto const [from, to] : {range{26, 34}, range{20, 50}, range{30, 37}, range{45, 55}}) {
    SCOPED_TRACE(testing::Message() << "weights " << from << " to " << to);
    ballast::random_source random(static_cast<std::uint64_t>(from));
    std::vector<ballast::cost_units> weights(50);
    for (auto& weight : weights) { weight = random.between(from, to); }
    auto const plan = ballast::pack(weights, {.most_per_gpu = 100});
    ASSERT_TRUE(plan);
    cbc_verdict const fewer = ballast_test::ask_cbc(weights, plan->lower_bound - 1, 1.0);
    if (fewer.makespan) { EXPECT_GT(*fewer.makespan, (ratio{100, 1})); }
    EXPECT_LE(plan->bins(), plan->lower_bound + 1);
  }
}

// Steps of 20 to 40 samples within several limits: no plan is below our bound, and what we refuse
// has no plan that the solver finds.
TEST(Cbc, FindsNoPlanThatWeRefuse)
{
  int proven = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ballast::random_source random(seed);
    std::size_t const bags = 3 + random.below(4);
    std::size_t const samples = 20 + random.below(21);
    ballast_test::cbc_step step;
    auto const draw = [&](std::int64_t most) {
      std::vector<std::int64_t> numbers(samples);
      for (auto& number : numbers) { number = random.between(1, most); }
      return numbers;
    };
    auto const count = static_cast<std::int64_t>(bags);
    auto const all = static_cast<std::int64_t>(samples);
    step.costs = draw(seed % 2 == 0 ? 1000 : 10);
    step.speeds.assign(bags, 1);
    for (auto& speed : step.speeds) { speed = seed % 2 == 0 ? random.between(50, 100) : 1; }
    auto const weights = draw(seed % 3 == 0 ? 5 : 100);
    std::int64_t const room = std::max(
        std::reduce(weights.begin(), weights.end()) * random.between(1001, 1100) / 1000 / count + 1,
        *std::ranges::max_element(weights));
    step.caps = {{weights, std::vector<std::int64_t>(bags, room)}};
    ballast::placement_limits limits{.also = {{.of = weights, .most_per_gpu = room}}};
    if (seed % 4 == 0) {
      step.least = all / count;
      step.most = (all + count - 1) / count;
      limits.samples = ballast::counts::equal();
    }
    for (std::int64_t sample = 0; sample < all && seed % 5 < 2; ++sample) {
      step.apart.push_back(random.below(3) == 0 ? 1000 + sample : sample / 3);
    }
    limits.apart = step.apart;
    std::vector<std::uint32_t> const speeds(step.speeds.begin(), step.speeds.end());
    auto const plan =
        ballast::partition(step.costs, ballast::one_gpu_bags(bags).with_speeds(speeds),
                           std::identity{}, ballast::no_length{}, limits);
    cbc_verdict const verdict = ballast_test::ask_cbc(step, 0.5);
    if (!plan) {
      EXPECT_FALSE(verdict.makespan) << plan.error().message;
      continue;
    }
    if (!verdict.makespan) { continue; }
    EXPECT_GE(*verdict.makespan, plan->lower_bound);
    if (!verdict.proven) { continue; }
    ++proven;
    EXPECT_LE(plan->makespan.value(), 1.05 * verdict.makespan->value());
  }
  EXPECT_GE(proven, 1);  // how many depends on the machine
}

}  // namespace
