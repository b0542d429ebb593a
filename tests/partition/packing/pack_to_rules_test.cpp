// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/packing/pack_to_rules.hpp>  // first: proves it is self-contained

#include "../../support/all_assignments.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/packing/packing_plan.hpp>

namespace pack_to_rules_test {

using namespace ballast;
using namespace ballast_test;
using lengths_of_step = std::vector<std::int64_t>;

std::int64_t rounded_up(std::int64_t length, std::int64_t multiple)
{
  return (length + multiple - 1) / multiple * multiple;
}

// What a packing promises, from the owners alone.
void expect_within(lengths_of_step const& lengths, packing_rules const& rules,
                   ruled_packing const& plan)
{
  std::vector<lengths_of_step> held(plan.bins());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    ASSERT_LT(to_index(plan.owner[sample]), plan.bins());
    held[to_index(plan.owner[sample])].push_back(
        rounded_up(lengths[sample], rules.length_multiple));
  }
  std::int64_t largest = 0;
  std::size_t empty = 0;
  for (std::size_t bin = 0; bin < held.size(); ++bin) {
    std::int64_t load = 0;
    for (std::int64_t const length : held[bin]) {
      load += rules.is_padded ? std::ranges::max(held[bin]) : length;
    }
    EXPECT_EQ(load, plan.loads[bin]);
    EXPECT_LE(load, rules.capacity);
    EXPECT_LE(held[bin].size(), rules.most_samples);
    largest = std::max(largest, load);
    if (!held[bin].empty()) { continue; }
    ASSERT_LT(empty, plan.empty.size());
    EXPECT_EQ(plan.empty[empty++], to_id<bag_id>(bin));
  }
  EXPECT_EQ(plan.empty.size(), empty);
  EXPECT_EQ(empty, plan.bins() > lengths.size() ? plan.bins() - lengths.size() : 0);
  EXPECT_EQ(plan.largest, largest);
  EXPECT_LE(plan.largest_bound, largest);
  EXPECT_LE(plan.lower_bound, plan.bins());
  EXPECT_EQ(plan.bins() % rules.multiple_of, 0U);
  EXPECT_GE(plan.bins(), rules.least_bins);
}

// Oracle: all packings into at most so many bins; the least largest load, or -1.
std::int64_t least_largest(lengths_of_step const& lengths, packing_rules const& rules,
                           std::size_t bins)
{
  return least_of_all_packings(
             lengths.size(), bins,
             [&](assignment const& owner, std::size_t) -> std::optional<std::int64_t> {
               std::int64_t largest = 0;
               for (std::size_t bin = 0; bin < bins; ++bin) {
                 std::int64_t sum = 0, longest = 0, count = 0;
                 for (std::size_t sample = 0; sample < owner.size(); ++sample) {
                   if (owner[sample] != bin) { continue; }
                   std::int64_t const length = rounded_up(lengths[sample], rules.length_multiple);
                   sum += length;
                   longest = std::max(longest, length);
                   ++count;
                 }
                 if (static_cast<std::size_t>(count) > rules.most_samples) { return std::nullopt; }
                 largest = std::max(largest, rules.is_padded ? longest * count : sum);
               }
               return largest <= rules.capacity ? std::optional(largest) : std::nullopt;
             })
      .value_or(-1);
}

TEST(PackToRules, HasAtMostSoManySamplesABin)
{
  lengths_of_step const lengths(40, 10);
  packing_rules const rules{.capacity = 8192, .most_samples = 16};
  auto const plan = pack_to_rules(lengths, rules).value();
  expect_within(lengths, rules, plan);
  EXPECT_EQ(plan.bins(), 3U);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PackToRules, MakesSoManyBinsOfOneSize)
{
  // [rules]
  std::vector<ballast::tokens> const lengths(8, 10);
  auto const plan = ballast::pack_to_rules(lengths, {.capacity = 4096, .multiple_of = 4}).value();
  // Four bins of two samples, one for each rank; plan.largest is 20.
  // [rules]
  expect_within(lengths, {.capacity = 4096, .multiple_of = 4}, plan);
  EXPECT_THAT(plan.loads, testing::ElementsAre(20, 20, 20, 20));
  EXPECT_EQ(plan.largest_bound, 20);
  lengths_of_step const few = {5, 6};
  packing_rules const four{.capacity = 10, .least_bins = 4};
  auto const spread = pack_to_rules(few, four).value();
  expect_within(few, four, spread);
  EXPECT_EQ(spread.bins(), 4U);
  EXPECT_EQ(spread.empty.size(), 2U) << "fewer samples than bins";
}

TEST(PackToRules, CountsPadding)
{
  lengths_of_step const lengths = {100, 10, 90, 10, 10, 10, 10, 10};
  packing_rules const rules{.capacity = 200, .is_padded = true};
  auto const plan = pack_to_rules(lengths, rules).value();
  expect_within(lengths, rules, plan);
  EXPECT_EQ(plan.bins(), 2U);
  EXPECT_EQ(plan.owner[sample_id{0}], plan.owner[sample_id{2}]);
  EXPECT_THAT(plan.loads, testing::ElementsAre(200, 60));
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PackToRules, RoundsLengthsUp)
{
  lengths_of_step const lengths = {129, 100, 1, 0};
  packing_rules const rules{.capacity = 256, .length_multiple = 128};
  auto const plan = pack_to_rules(lengths, rules).value();
  expect_within(lengths, rules, plan);
  EXPECT_THAT(plan.weights, testing::ElementsAre(256, 128, 128, 0));
  EXPECT_EQ(plan.bins(), 2U);
}

TEST(PackToRules, AgreesWithAllPackingsOfSmallSteps)  // Ensures (1) (2) (3)
{
  random_source random(61);
  int few_bins = 0;
  int even_ones = 0;
  int const trials = trials_of(600);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    lengths_of_step lengths(random.below(8));
    packing_rules rules{.capacity = random.between(12, 40)};
    for (auto& length : lengths) { length = random.between(0, 10); }
    if (random.below(2) == 0) { rules.most_samples = 1 + random.below(4); }
    if (random.below(3) == 0) { rules.least_bins = random.below(5); }
    if (random.below(3) == 0) { rules.multiple_of = 1 + random.below(3); }
    if (random.below(4) == 0) { rules.length_multiple = random.between(1, 5); }
    rules.is_padded = random.below(3) == 0;
    auto const plan = pack_to_rules(lengths, rules).value();
    expect_within(lengths, rules, plan);
    std::size_t fewest = 0;
    while (least_largest(lengths, rules, fewest) < 0 || fewest < rules.least_bins ||
           fewest % rules.multiple_of != 0) {
      ++fewest;
    }
    ASSERT_LE(plan.lower_bound, fewest);
    ASSERT_GE(plan.bins(), fewest);
    if (rules.is_padded) { ASSERT_EQ(plan.bins(), fewest); }
    few_bins += plan.bins() == fewest ? 1 : 0;
    std::int64_t const best = least_largest(lengths, rules, plan.bins());
    ASSERT_LE(plan.largest_bound, best);
    bool const is_even = plan.largest == best;
    bool const is_asked = rules.least_bins > 0 || rules.multiple_of > 1;
    if (rules.is_padded && is_asked) { ASSERT_TRUE(is_even) << plan.largest << " and " << best; }
    even_ones += is_even || !is_asked ? 1 : 0;
  }
  EXPECT_GE(100 * few_bins, 99 * trials);
  EXPECT_GE(100 * even_ones, 97 * trials);
}

TEST(PackToRules, RefusesInASentence)  // Errors
{
  lengths_of_step const lengths = {5, 130};
  EXPECT_EQ(pack_to_rules(lengths, {.capacity = 130, .length_multiple = 128}).error().position, 1U);
  EXPECT_EQ(pack_to_rules(lengths, {.capacity = 130, .most_samples = 0}).error().code,
            error_code::out_of_range);
  EXPECT_EQ(
      pack_to_rules(lengths, {.capacity = 130, .multiple_of = 0}).error().message,
      "packing_rules ask for at most 18446744073709551615 samples a bin, a multiple of 0 bins "
      "and lengths in multiples of 1; give at least 1 of each");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  lengths_of_step const huge = {most};
  EXPECT_FALSE(pack_to_rules(huge, {.capacity = 130, .length_multiple = 128}));
  EXPECT_EQ(pack_to_rules(lengths_of_step{}, {.capacity = 5, .least_bins = 2}).value().empty.size(),
            2U);
}

}  // namespace pack_to_rules_test
