// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/similar_microbatches.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"
#include "../../../support/random_schedules.hpp"
#include "../../../support/random_times.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::detail::similar_microbatches;

// All of other kinds by how much they differ, equal ones by number.
std::vector<microbatch_id> most_similar(ballast::order_problem const& problem,
                                        ballast::detail::microbatch_kinds const& kinds,
                                        std::size_t of)
{
  std::vector<std::pair<ballast::time_units, microbatch_id>> others;
  for (std::size_t other = 0; other < kinds.of.size(); ++other) {
    if (kinds.of[other] == kinds.of[of]) { continue; }
    ballast::time_units difference = 0;
    for (std::size_t stage = 0; stage < problem.times.stages; ++stage) {
      auto const& a = problem.times[ballast::to_id<microbatch_id>(of)][stage];
      auto const& b = problem.times[ballast::to_id<microbatch_id>(other)][stage];
      difference += std::abs(a.forward - b.forward);
      if (problem.schedule.stages()[ballast::to_id<ballast::stage_id>(stage)].backward) {
        difference += std::abs(a.backward - b.backward);
      }
    }
    others.emplace_back(difference, ballast::to_id<microbatch_id>(other));
  }
  std::ranges::sort(others);
  std::vector<microbatch_id> found;
  for (auto const& [difference, other] : others) {
    if (found.size() < similar_microbatches::most) { found.push_back(other); }
  }
  return found;
}

void expect_most_similar(ballast::order_problem const& problem)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::microbatch_kinds const kinds(problem, scratch);
  similar_microbatches const similar(problem, kinds, scratch);
  for (std::size_t each = 0; each < kinds.of.size(); ++each) {
    auto const found = similar.of(ballast::to_id<microbatch_id>(each));
    EXPECT_EQ(std::vector(found.begin(), found.end()), most_similar(problem, kinds, each));
  }
}

TEST(SimilarMicrobatches, AreThoseOfAllPairsThatDifferLeast)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    expect_most_similar({schedule, ballast_test::random_times(random, schedule, 1 + trial % 9)});
  }
}

TEST(SimilarMicrobatches, AreNoMoreThanTheMost)
{
  ballast::random_source random(6);
  for (std::size_t const microbatches : {64U, 65U, 66U, 200U}) {
    SCOPED_TRACE(testing::Message() << microbatches << " microbatches");
    auto const schedule = ballast_test::chain_schedule(2, microbatches);
    expect_most_similar({schedule, ballast_test::random_times(random, schedule, 1'000)});
  }
}

}  // namespace
