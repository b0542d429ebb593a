// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/packing/pack.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/plan_checks.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/packing/detail/bin_starts.hpp>
#include <ballast/partition/packing/packing_plan.hpp>

namespace {

using namespace ballast;
using ballast_test::expect_refused;
using ballast_test::packing_instance;
using ballast_test::trials_of;
using testing::ElementsAre;

constexpr std::int64_t most_exact = ballast::detail::bins_by_room::most_lists;

packing_instance uniform_packing(std::size_t samples, std::int64_t from, std::int64_t to,
                                 std::uint64_t seed)
{
  random_source random(seed);
  packing_instance step{std::vector<std::int64_t>(samples), 10'000};
  for (auto& weight : step.weights) { weight = random.between(from, to); }
  return step;
}

TEST(Pack, DescribesThePackingItMakes)  // Ensures (1)
{
  // [pack]
  std::vector<ballast::tokens> const lengths{700, 600, 500, 400, 300};
  auto const plan = ballast::pack(lengths, {.most_per_gpu = 1000});
  // [pack]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->owner, ElementsAre(bag_id{0}, bag_id{1}, bag_id{2}, bag_id{1}, bag_id{0}));
  EXPECT_THAT(plan->loads, ElementsAre(1000, 1000, 500));
  EXPECT_THAT(plan->samples[bag_id{0}], ElementsAre(sample_id{0}, sample_id{4}));
  EXPECT_EQ(plan->largest(), 1000);
  EXPECT_EQ(plan->lower_bound, 3U);
  EXPECT_EQ(plan->largest_bound, 834);  // of 2500 in 3 bins
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(Pack, KeepsSeveralCaps)
{
  // [caps]
  std::vector<ballast::tokens> const lengths{60, 50, 40, 30, 30, 20, 20, 10, 10, 10, 10, 10};
  std::vector<std::int64_t> const images{1, 0, 0, 3, 3, 2, 2, 1, 4, 4, 0, 0};
  auto const by_tokens = ballast::pack(lengths, {.most_per_gpu = 100}).value();  // 3 bins
  auto const by_both =
      ballast::pack(lengths, {.most_per_gpu = 100, .also = {{.of = images, .most_per_gpu = 4}}})
          .value();  // 5, and no packing has fewer
  // [caps]
  EXPECT_EQ(by_tokens.bins(), 3U);
  EXPECT_TRUE(by_tokens.proven_optimal());
  EXPECT_EQ(by_both.bins(), 5U);
  EXPECT_TRUE(by_both.proven_optimal());
}

TEST(Pack, MakesSoManyBins)  // Ensures (4)
{
  // [bins]
  std::vector<ballast::tokens> const lengths(8, 10);
  auto const plan =
      ballast::pack(lengths, {.most_per_gpu = 4096}, ballast::bins{.multiple_of = 4}).value();
  // Four bins of two samples, one for each rank; plan.largest() is 20.
  // [bins]
  EXPECT_THAT(plan.loads, ElementsAre(20, 20, 20, 20));
  EXPECT_EQ(plan.largest_bound, 20);
  auto const few = pack(std::vector{5, 6}, {.most_per_gpu = 10}, bins{.least = 4}).value();
  EXPECT_EQ(few.bins(), 4U);
  EXPECT_EQ(few.empty.size(), 2U) << "fewer samples than bins";
  EXPECT_EQ(pack(std::vector<int>{}, {.most_per_gpu = 5}, bins{.least = 2}).value().empty.size(),
            2U);
  std::vector<tokens> const documents(13'586, 256);
  for (bool const levels : {false, true}) {
    placement_limits limits{.most_per_gpu = 450'000};
    if (levels) { limits.then = most_level; }
    auto const even = pack(documents, limits, bins{.least = 8}).value();
    EXPECT_EQ(even.bins(), 8U);
    EXPECT_EQ(even.largest(), 434'944);
    EXPECT_EQ(even.largest_bound, 434'944);
    if (levels) { EXPECT_EQ(std::ranges::min(even.loads), 434'688); }
  }
}

TEST(Pack, LimitsCountsRoundsLengthsAndPads)
{
  auto const counted =
      pack(std::vector<tokens>(40, 10), {.most_per_gpu = 8192, .samples = counts::at_most(16)})
          .value();
  EXPECT_EQ(counted.bins(), 3U);
  EXPECT_TRUE(counted.proven_optimal());
  auto const rounded =
      pack(std::vector{129, 100, 1, 0}, {.also = {{.most_per_gpu = 256, .rounded_to = 128}}})
          .value();
  EXPECT_THAT(rounded.weights, ElementsAre(256, 128, 128, 0));
  EXPECT_EQ(rounded.bins(), 2U);
  auto const padded = pack(std::vector{100, 10, 90, 10, 10, 10, 10, 10}, {.most_per_gpu = 200},
                           bins{.is_padded = true})
                          .value();
  EXPECT_THAT(padded.loads, ElementsAre(200, 60));
  EXPECT_EQ(padded.owner[sample_id{0}], padded.owner[sample_id{2}]);
  EXPECT_TRUE(padded.proven_optimal());
}

TEST(Pack, LimitsCountsOfBinsThatAreNearlyFull)
{
  random_source random(1);
  std::vector<tokens> lengths(1500);
  for (tokens& length : lengths) {
    length = 1 + static_cast<tokens>(random.below(64) * random.below(32));
  }
  for (std::int64_t const most : {5, 6}) {  // the mean is between 4 and 5
    auto const plan =
        pack(lengths, {.most_per_gpu = 2048, .samples = counts::at_most(most)}).value();
    for (std::size_t bin = 0; bin < plan.bins(); ++bin) {
      EXPECT_LE(plan.loads[bin], 2048);
      EXPECT_LE(std::ssize(plan.samples[to_id<bag_id>(bin)]), most);
    }
    EXPECT_TRUE(plan.proven_optimal());
  }
}

TEST(Pack, GivesASampleAboveASoftCapABinOfItsOwn)  // Ensures (3)
{
  auto const plan =
      pack(std::vector{4, 30, 5, 0}, {.also = {{.most_per_gpu = 10, .is_soft = true}}}).value();
  EXPECT_EQ(plan.bins(), 2U);
  EXPECT_THAT(plan.above_cap, ElementsAre(plan.owner[sample_id{1}]));
  EXPECT_EQ(plan.samples[plan.above_cap[0]].size(), 1U);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(Pack, PacksHundredsOfSamplesWithinTwoCaps)
{
  random_source random(5);
  std::vector<tokens> lengths(300);
  std::vector<std::int64_t> images(300);
  for (auto& length : lengths) { length = random.between(100, 6000); }
  for (auto& image : images) { image = random.below(3) == 0 ? random.between(1, 6) : 0; }
  for (auto const samples : {counts{}, counts::at_most(9), counts::equal()}) {
    auto const plan = pack(
        lengths,
        {.most_per_gpu = 16'384, .also = {{.of = images, .most_per_gpu = 8}}, .samples = samples});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(100 * plan->bins(), 104 * plan->lower_bound);
    for (auto const bin : plan->samples) {
      std::int64_t held = 0;
      for (sample_id const sample : bin) { held += images[to_index(sample)]; }
      EXPECT_LE(held, 8);
    }
    EXPECT_LE(plan->largest(), 16'384);
  }
}

TEST(Pack, TakesAProjection)
{
  struct sample {
    tokens text;
    tokens visual;
  };
  std::vector<sample> const samples{{10, 90}, {20, 0}, {5, 75}};
  auto const all = [](sample const& s) { return s.text + s.visual; };
  auto const plan = pack(samples, all, {.most_per_gpu = 100}).value();
  EXPECT_THAT(plan.weights, ElementsAre(100, 20, 80));
  EXPECT_EQ(plan.bins(), 2U);
  EXPECT_EQ(pack(samples, &sample::text, {.most_per_gpu = 100}, {.least = 2}).value().bins(), 2U);
  std::vector<std::int64_t> const images{1, 1, 1};
  EXPECT_EQ(
      pack(samples, no_length{}, {.also = {{.of = images, .most_per_gpu = 2}}}).value().bins(), 2U);
}

TEST(Pack, PacksEmptyStepsAndSamplesOfNoWeight)
{
  auto const empty = pack(std::vector<int>{}, {.most_per_gpu = 5}).value();
  EXPECT_EQ(empty.bins(), 0U);
  EXPECT_TRUE(empty.proven_optimal());
  for (std::int64_t const capacity : {0, 5}) {
    auto const plan = pack(std::vector{0, 0, 0}, {.most_per_gpu = capacity}).value();
    EXPECT_EQ(plan.bins(), 1U);
    EXPECT_TRUE(plan.proven_optimal());
  }
  EXPECT_EQ(pack(std::vector{3, 4}, {}).value().bins(), 1U);
}

TEST(Pack, NamesTheSampleThatCannotBePacked)  // Errors
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  auto const expect = [](auto const& weights, std::int64_t capacity, error_code code,
                         std::size_t position, char const* why) {
    expect_refused(pack(weights, {.most_per_gpu = capacity}), code, position, why);
  };
  using enum error_code;
  expect(std::vector{9, 11, 12}, 10, infeasible, 1,
         "sample 1 takes 11 of limits.most_per_gpu, and a bin has 10; split it");
  expect(std::vector{9, -1}, 10, out_of_range, 1, "is negative");
  expect(std::vector{most / 2, most / 2 + 1}, most - 1, out_of_range, 1, "63 bits");
  expect(std::vector{1}, -1, out_of_range, 0, "");
  std::vector<std::uint64_t> const large{1, std::uint64_t{1} << 63};  // no negative number
  expect(large, 10, out_of_range, 1, "63 bits");
  std::vector<std::int64_t> const images{1, 9};
  std::vector<int> const one_prompt{1, 1};
  expect_refused(pack(std::vector{1, 1}, {.also = {{.of = images, .most_per_gpu = 4}}}), infeasible,
                 1, "sample 1 takes 9 of limits.also[0], and a bin has 4");
  expect_refused(pack(std::vector{3, 3}, {.together = one_prompt, .most_per_gpu = 4}), infeasible,
                 0, "sample 0 and what stays with it take 6 of limits.most_per_gpu");
  EXPECT_EQ(pack(std::vector{most / 2, most / 2}, {.most_per_gpu = most - 1}).value().bins(), 1U);
}

TEST(Pack, RefusesWhatSaysNothingOfBins)  // Errors
{
  std::vector<int> const two{1, 2};
  std::vector<rank_id> const home(2, rank_id{0});
  std::vector<std::int64_t> const most{5};
  auto const expect = [&](placement_limits const& limits, char const* why,
                          bins const& wanted = {}) {
    expect_refused(pack(two, limits, wanted), error_code::out_of_range, 0, why);
  };
  auto const fits = [](sample_id, bag_id) { return true; };
  expect({.home = home}, "limits.home is of bags that are there already");
  expect({.starting_loads = most}, "limits.starting_loads is of bags");
  expect({.fits = fits}, "limits.fits is of bags");
  expect({.most_per_gpu = 9, .within_per_million = 4}, "limits.within_per_million is of bags");
  expect({.also = {{.most = most}}}, "limits.also.most is of bags");
  expect({.home = home, .then = fewest_moves}, "limits.home is of bags");
  expect({.then = fewest_moves}, "needs limits.home");
  expect({.samples = counts::at_most(0)}, "asks for 0 samples");
  expect({.most_per_gpu = 9}, "a multiple of 0; give", bins{.multiple_of = 0});
  expect({.most_per_gpu = 9, .samples = counts::equal()}, "padded bins keep one cap",
         bins{.is_padded = true});
  expect_refused(pack(two, no_length{}, {.most_per_gpu = 9}), error_code::out_of_range, 0,
                 "these have none");
  expect_refused(pack(two, {.samples = counts::filled()}, bins{.least = 3}), error_code::infeasible,
                 0, "have no packing that keeps limits.samples");
  expect_refused(pack(std::vector<int>{}, {.samples = counts::filled()}, bins{.least = 3}),
                 error_code::infeasible, 0, "no sample to fill 3 bins");
  std::vector<int> const apart{1, 1};
  expect_refused(pack(two, {.samples = counts::equal(2), .apart = apart}), error_code::infeasible,
                 0, "have no packing that keeps limits.samples and limits.apart");
}

TEST(Pack, KnowsWhenNoPackingHasFewerBinsAndHasADigestOfAll)
{
  packing_plan plan;
  plan.owner = {bag_id{0}, bag_id{1}, bag_id{0}};
  plan.weights = {4, 6, 5};
  plan.loads = {9, 6};
  plan.most_per_gpu = 10;
  plan.lower_bound = 2;
  plan.samples.collect(plan.owner, 2);
  EXPECT_TRUE(plan.proven_optimal());
  ballast_test::expect_digest_of_all(
      plan, {[](auto& of) { of.owner[0] = bag_id{1}; }, [](auto& of) { of.weights[2] = 4; },
             [](auto& of) { of.loads[1] = 7; }, [](auto& of) { of.most_per_gpu = 11; }});
  plan.lower_bound = 1;
  EXPECT_FALSE(plan.proven_optimal());
  EXPECT_TRUE(packing_plan{}.proven_optimal());
}

// From here on: one cap.

// Oracle: looks at every bin for every sample, as the definition of best fit says.
std::size_t best_fit_by_scan(packing_instance const& step)
{
  std::vector<std::int64_t> room;
  for (std::size_t const sample : ballast_test::heaviest_first(step.weights)) {
    std::size_t best = room.size();
    for (std::size_t bin = 0; bin < room.size(); ++bin) {
      if (room[bin] < step.weights[sample]) { continue; }
      if (best == room.size() || room[bin] < room[best]) { best = bin; }
    }
    if (best == room.size()) { room.push_back(step.capacity); }
    room[best] -= step.weights[sample];
  }
  return room.size();
}

TEST(PackByOneCap, OverrunsNoBinAndIsNeverAboveBestFit)
{
  random_source random(151);
  packing_plan again;
  workspace memory;
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_packing(random, trial % 20 == 0 ? 400 : 60);
    auto const plan = pack(step, {.work = std::uint64_t{1} << (trial % 3 == 0 ? 0 : 15)});
    ASSERT_TRUE(plan) << plan.error().message;
    ballast_test::expect_valid_packing(step, *plan);
    if (step.capacity <= most_exact) { EXPECT_LE(plan->bins(), best_fit_by_scan(step)); }
    if (trial % 20 == 0) {
      ASSERT_TRUE(pack_into(again, memory, step.weights, {.most_per_gpu = step.capacity},
                            bins{.work = std::uint64_t{1} << (trial % 3 == 0 ? 0 : 15)}));
      EXPECT_EQ(plan->digest(), again.digest());
      EXPECT_EQ(plan->lower_bound, again.lower_bound);
    }
    if (testing::Test::HasFailure()) { return; }
  }
}

TEST(PackByOneCap, AllocatesNothingInTheSteadyState)  // Ensures (7)
{
  for (std::int64_t const capacity : {900L, 20'000L, 1L << 30}) {
    random_source random(3);
    std::int64_t const heaviest = std::min<std::int64_t>(capacity, 9000);
    std::vector<std::int64_t> weights(1000, heaviest);  // often one to a bin: the most bins
    packing_plan plan;
    workspace memory;
    auto const step = [&] {
      auto const done = pack_into(plan, memory, weights, {.most_per_gpu = capacity});
      weights.pop_back();
      for (auto& weight : weights) { weight = random.between(0, heaviest); }
      return done.has_value();
    };
    ballast_test::expect_steady_state(step, 4);
  }
}

TEST(PackByOneCap, FindsAndProvesTheOptimaOfSmallSteps)
{
  random_source random(154);
  for (int trial = 0; trial < trials_of(500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_packing(random, 9);
    auto const plan = pack(step).value();
    ASSERT_EQ(plan.bins(), ballast_test::fewest_bins(step));
    ASSERT_TRUE(plan.proven_optimal());
  }
}

TEST(PackByOneCap, FillsLargeCapacitiesAsBestFitDoesNearly)
{
  for (std::int64_t const capacity : {most_exact, most_exact + 1, std::int64_t{1} << 50}) {
    SCOPED_TRACE(testing::Message() << "capacity " << capacity);
    random_source random(14);
    packing_instance step{std::vector<std::int64_t>(2000), capacity};
    for (auto& weight : step.weights) { weight = random.between(0, 100) * (capacity / 300); }
    EXPECT_LE(pack(step, {.work = 0}).value().bins(), best_fit_by_scan(step));
  }
}

TEST(PackByOneCap, KnowsHowManyFitABin)
{
  // Three to a bin; the sum alone says 600.
  auto const plan = pack(uniform_packing(2000, 2600, 3400, 1)).value();
  EXPECT_EQ(plan.bins(), 667U);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PackByOneCap, PacksFewKindsToTheOptimum)
{
  random_source random(155);
  packing_instance step{std::vector<std::int64_t>(2000), 10'000};
  for (auto& weight : step.weights) { weight = random.below(2) == 0 ? 3000 : 4000; }
  EXPECT_TRUE(pack(step).value().proven_optimal());
  auto const noisy = pack(uniform_packing(2000, 3300, 3366, 2)).value();
  EXPECT_LE(noisy.bins(), noisy.lower_bound + 1);
}

TEST(PackByOneCap, PacksThirdsOfALargeCapacityAsThoseOfASmallOne)
{
  for (std::int64_t const third :
       {std::int64_t{1000}, std::int64_t{1} << 56, std::int64_t{1} << 59}) {
    packing_instance step{{}, 3 * third};
    for (std::int64_t const less : {2, 3, 0, 4, 1, 3}) { step.weights.push_back(third - less); }
    step.weights[2] = 3 * third - step.weights[0] - step.weights[1];
    step.weights[5] = 3 * third - step.weights[3] - step.weights[4];
    EXPECT_EQ(pack(step).value().bins(), 2U) << third;
  }
}

TEST(PackByOneCap, PacksAFifthToAHalfWithinABinOrTwo)
{
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const step = uniform_packing(2000, 2000, 5000, seed);
    auto const plan = pack(step).value();
    EXPECT_LE(plan.bins(), plan.lower_bound + 2);
    // Above 2^17 weights are rounded up for the search, not for the bound.
    auto const shifted = [](std::int64_t weight) { return weight << 40; };
    auto const fine = pack(step.weights, shifted, {.most_per_gpu = step.capacity << 40}).value();
    EXPECT_LE(100 * fine.bins(), 101 * fine.lower_bound);
  }
}

TEST(PackByOneCap, ProvesMostSmallStepsOfAFifthToAThird)
{
  std::size_t proven = 0;
  for (std::uint64_t seed = 9; seed <= 20; ++seed) {
    proven += pack(uniform_packing(120, 2000, 3500, seed)).value().proven_optimal() ? 1U : 0U;
  }
  EXPECT_GE(proven, 10U);  // 4 where attempts begin with 24 bins
}

// The bound L2.

std::size_t bound(packing_instance const& step)
{
  workspace memory;
  std::vector<priced_sample> order(step.weights.size());
  descending_order_into(order, step.weights, memory);
  return ballast::detail::least_bins(order, step.capacity);
}

// Oracle: the definition, with every threshold from 0 to half the capacity, in O(n C).
std::size_t by_definition(packing_instance const& step)
{
  std::size_t best = step.weights.empty() ? 0 : 1;
  for (std::int64_t least = 0; 2 * least <= step.capacity; ++least) {
    std::int64_t alone = 0;
    std::int64_t open = 0;
    std::int64_t rest = 0;  // of the small samples, after they fill the open bins
    for (std::int64_t const weight : step.weights) {
      if (weight > step.capacity - least) {
        ++alone;
      } else if (2 * weight > step.capacity) {
        ++open;
        rest -= step.capacity - weight;
      } else if (weight >= least) {
        rest += weight;
      }
    }
    std::int64_t more = 0;
    while (more * step.capacity < rest) { ++more; }
    best = std::max(best, static_cast<std::size_t>(alone + open + more));
  }
  return best;
}

TEST(LeastBins, AreNeverAboveTheFewest)
{
  random_source random(31);
  int tight = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    auto const step = ballast_test::random_packing(random, 9);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const fewest = ballast_test::fewest_bins(step);
    ASSERT_LE(bound(step), fewest);
    tight += bound(step) == fewest ? 1 : 0;
  }
  EXPECT_GE(tight, 900);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_EQ(bound({{most / 2 + 1, most / 2 - 1}, most}), 1U);
  EXPECT_EQ(bound({{most / 2, most / 2}, most / 2}), 2U);
}

RC_GTEST_PROP(LeastBins, AreTheLargestOverAllThresholds, ())
{
  packing_instance step{{}, *rc::gen::inRange<std::int64_t>(1, 60)};
  step.weights = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(0, step.capacity + 1));
  RC_ASSERT(bound(step) == by_definition(step));
}

}  // namespace
