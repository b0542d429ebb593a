// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/padded/pad_to_cap.hpp>  // first: proves it is self-contained

#include "../../support/all_assignments.hpp"
#include "../../support/test.hpp"
#include "../../support/trials.hpp"

#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>

namespace pad_to_cap_test {

using namespace ballast;
using namespace ballast_test;
using lengths_of_step = std::vector<padded_lengths>;

std::int64_t with_attention(tokens source, tokens target)
{
  return source + 2 * target + source * target / 4;
}

std::int64_t weight_of(std::vector<padded_lengths> const& batch)
{
  padded_lengths longest;
  for (padded_lengths const each : batch) {
    longest.source = std::max(longest.source, each.source);
    longest.target = std::max(longest.target, each.target);
  }
  return static_cast<std::int64_t>(batch.size()) * with_attention(longest.source, longest.target);
}

// Oracle: each sample joins each batch there is, or begins one.
std::size_t fewest_batches(lengths_of_step const& lengths, std::int64_t cap)
{
  return least_of_all_packings(
             lengths.size(), lengths.size(),
             [&](assignment const& owner, std::size_t open) -> std::optional<std::size_t> {
               std::vector<lengths_of_step> batches(open);
               for (std::size_t sample = 0; sample < owner.size(); ++sample) {
                 batches[owner[sample]].push_back(lengths[sample]);
               }
               bool const fit = std::ranges::all_of(batches, [cap](lengths_of_step const& batch) {
                 return weight_of(batch) <= cap;
               });
               return fit ? std::optional(open) : std::nullopt;
             })
      .value();
}

void expect_within(lengths_of_step const& lengths, std::int64_t cap, packing_plan const& plan)
{
  std::vector<lengths_of_step> batches(plan.bins());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    ASSERT_LT(to_index(plan.owner[sample]), plan.bins());
    batches[to_index(plan.owner[sample])].push_back(lengths[sample]);
  }
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    EXPECT_FALSE(batches[batch].empty());
    EXPECT_EQ(plan.loads[batch], weight_of(batches[batch]));
    EXPECT_LE(plan.loads[batch], cap);
  }
  EXPECT_LE(plan.lower_bound, plan.bins());
}

TEST(PadToCap, FindsTheFewestBatchesOfSmallSteps)  // Ensures (1) (2)
{
  random_source random(50);
  for (int trial = 0; trial < trials_of(300); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    lengths_of_step lengths(random.below(8));
    for (padded_lengths& each : lengths) {
      each.source = random.between(0, 9);
      each.target = random.between(0, 9);
    }
    std::int64_t const cap = random.between(50, 150);
    auto const plan = pad_to_cap(lengths, cap, with_attention).value();
    expect_within(lengths, cap, plan);
    ASSERT_EQ(plan.bins(), fewest_batches(lengths, cap));
    ASSERT_TRUE(plan.proven_optimal());
  }
}

TEST(PadToCap, StaysWithinTheCapInLargeSteps)  // Ensures (1) (2) (3)
{
  random_source random(51);
  lengths_of_step lengths(300);
  for (padded_lengths& each : lengths) {
    each.source = random.between(1, 20) * random.between(1, 20);
    each.target = each.source * random.between(3, 5) / 4;
  }
  auto const plan = pad_to_cap(lengths, 200'000, with_attention, 50).value();
  expect_within(lengths, 200'000, plan);
  EXPECT_EQ(plan.digest(), pad_to_cap(lengths, 200'000, with_attention, 50).value().digest());
  for (padded_lengths& each : lengths) { each.target = 0; }
  EXPECT_TRUE(pad_to_cap(lengths, 2'000, with_attention, 50).value().proven_optimal());
}

TEST(PadToCap, RefusesWhatIsAboveTheCapAlone)  // Errors
{
  lengths_of_step const lengths = {{1, 1}, {8, 8}};
  EXPECT_EQ(pad_to_cap(lengths, 30, with_attention).error().position, 1U);
  EXPECT_EQ(pad_to_cap({}, 30, with_attention).value().bins(), 0U);
}

}  // namespace pad_to_cap_test
