#include <ballast/partition/detail/vectors/earliest_vectors.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using ballast::cost_vector;
using ballast::ratio;

// Oracle: looks at every bin that is open to the sample.
template <std::size_t D>
std::size_t scan_open_bins(ballast::cost_vector_problem<D> const& problem,
                           std::vector<cost_vector<D>> const& loads,
                           std::vector<std::int64_t> const& room, std::size_t sample)
{
  std::size_t best = loads.size();
  ratio earliest;
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    if (!problem.fits(sample, bin)) { continue; }
    if (!room.empty() && room[bin] < problem.weights[sample]) { continue; }
    ratio finish;
    for (std::size_t d = 0; d < D; ++d) {
      finish =
          std::max(finish, ratio{loads[bin][d] + problem.costs[sample][d], problem.speed(bin)});
    }
    if (best < loads.size() && finish >= earliest) { continue; }
    best = bin;
    earliest = finish;
  }
  return best;
}

template <std::size_t D>
void expect_what_a_scan_of_open_bins_finds(std::uint64_t seed)
{
  ballast::random_source random(seed);
  int without_room = 0;
  for (int trial = 0; trial < 300; ++trial) {
    ballast_test::bag_vector_problem<D> const given{
        ballast_test::random_bag_vectors<D>(random, 100, 40)};
    auto const problem = given.view();
    std::vector<cost_vector<D>> loads(given.step.gpus.size());
    for (auto& load : loads) {
      for (auto& part : load) { part = random.between(0, 9); }
    }
    auto room = given.capacities;
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast::detail::earliest_vectors<D> bins(problem, loads, scratch);
    for (std::size_t sample = 0; sample < problem.costs.size(); ++sample) {
      std::size_t const bin = bins.earliest(sample);
      ASSERT_EQ(bin, scan_open_bins(problem, loads, room, sample))
          << "trial " << trial << " sample " << sample;
      if (bin == loads.size()) {
        ++without_room;
        continue;
      }
      bins.add(sample, bin);
      if (!room.empty()) { room[bin] -= problem.weights[sample]; }
      for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
    }
  }
  EXPECT_GE(without_room, 50);
}

TEST(EarliestVectors, FindsWhatAScanOfOpenBinsFinds)  // Ensures (1)
{
  expect_what_a_scan_of_open_bins_finds<1>(11);
  expect_what_a_scan_of_open_bins_finds<2>(12);
  expect_what_a_scan_of_open_bins_finds<3>(13);
}

}  // namespace
