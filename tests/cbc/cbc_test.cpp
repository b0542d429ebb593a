// What an integer program solver says, beside ours: it shares neither code nor method with them.

#include "../support/cbc_judge.hpp"
#include "../support/instances.hpp"

#include <gtest/gtest.h>
#include <ballast/partition/exact.hpp>
#include <ballast/partition/longest_processing_time.hpp>

#include <cstdint>
#include <vector>

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
    EXPECT_EQ((ratio{verdict.makespan.value_or(0), 1}), *ballast_test::optimum(step));
  }
}

TEST(Cbc, ProvesTheOptimaThatExactProves)
{
  int judged = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::size_t const bags = 3 + seed % 3;
    auto const step = random_step(100 + seed, 3 * bags, bags);
    auto const plan = ballast_test::plan_instance(step, ballast::exact<>{});
    ASSERT_TRUE(plan->proven_optimal());
    cbc_verdict const verdict = ballast_test::ask_cbc(step.costs, bags, 10.0);
    if (!verdict.proven) { continue; }  // out of time: no judgement
    ++judged;
    EXPECT_EQ((ratio{verdict.makespan.value_or(0), 1}), plan->makespan);
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
    if (verdict.makespan) { EXPECT_GE((ratio{*verdict.makespan, 1}), plan->lower_bound); }
  }
}

}  // namespace
