#include <ballast/partition/packing/detail/samples_by_weight.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/random.hpp>
#include <ballast/partition/descending_order.hpp>

#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <vector>

namespace {

using ballast::sample_id;
using ballast::detail::samples_by_weight;

/// The lightest weight above half the sum that another one completes to it.
std::int64_t heavier_of_pair(std::map<std::int64_t, std::deque<sample_id>> const& all,
                             std::int64_t sum)
{
  for (auto const& [weight, samples] : all) {
    if (2 * weight > sum && all.contains(sum - weight)) { return weight; }
  }
  return samples_by_weight::none;
}

TEST(SamplesByWeight, AgreesWithAMapOfAllWeights)  // Ensures (1)
{
  ballast::random_source random(121);
  for (std::int64_t const capacity : {1, 2, 63, 64, 200, 8192}) {
    SCOPED_TRACE(testing::Message() << "capacity " << capacity);
    std::vector<std::int64_t> weights(80);
    for (auto& weight : weights) {
      weight = random.between(random.below(2) == 0 ? 1 : (capacity + 1) / 2, capacity);
    }
    std::map<std::int64_t, std::deque<sample_id>> oracle;
    for (std::size_t sample = 0; sample < weights.size(); ++sample) {
      oracle[weights[sample]].push_back(ballast::to_id<sample_id>(sample));
    }
    ballast::workspace memory;
    auto scratch = memory.open();
    std::vector<ballast::priced_sample> order(weights.size());
    ballast::descending_order_into(order, weights, memory);
    samples_by_weight waiting(capacity, order, weights.size(), scratch);

    while (!oracle.empty()) {
      ASSERT_EQ(waiting.lightest(), oracle.begin()->first);
      std::int64_t const asked = random.between(0, capacity);
      auto const above = oracle.upper_bound(asked);
      ASSERT_EQ(waiting.heaviest_up_to(asked),
                above == oracle.begin() ? samples_by_weight::none : std::prev(above)->first);

      // Of all pairs of the asked sum within the weights that occur, the one with the lightest.
      std::int64_t expected = samples_by_weight::none;
      for (auto const& [weight, samples] : oracle) {
        auto const partner = oracle.find(asked - weight);
        bool const enough = 2 * weight < asked || (2 * weight == asked && samples.size() > 1);
        if (expected == samples_by_weight::none && enough && partner != oracle.end()) {
          expected = weight;
        }
      }
      constexpr std::uint64_t all_words = 1'000'000;
      ballast::detail::work_budget words(all_words);
      ASSERT_EQ(waiting.pair_of_sum(asked, oracle.begin()->first, oracle.rbegin()->first, words),
                expected)
          << "of sum " << asked;
      auto const from = oracle.lower_bound(asked);
      ASSERT_EQ(waiting.lightest_from(asked),
                from == oracle.end() ? samples_by_weight::none : from->first);
      std::int64_t const most = random.between(asked, capacity);
      auto const beyond = oracle.upper_bound(most);
      ASSERT_EQ(waiting.heaviest_between(asked, most),
                beyond == from ? samples_by_weight::none : std::prev(beyond)->first);
      ASSERT_EQ(waiting.heaviest_between(asked, asked - 1), samples_by_weight::none);
      ASSERT_EQ(waiting.first_of_pair(asked, asked / 2 + 1, asked, words),
                heavier_of_pair(oracle, asked));
      ballast::detail::work_budget const before(all_words);
      words = before;
      (void)waiting.pair_of_sum(asked, oracle.begin()->first, oracle.rbegin()->first, words);
      ASSERT_LE(all_words - words.left(), static_cast<std::uint64_t>(asked / 128 + 1));

      auto chosen = oracle.begin();
      std::advance(chosen, static_cast<std::ptrdiff_t>(random.below(oracle.size())));
      auto& [weight, samples] = *chosen;
      ASSERT_EQ(waiting.take(weight), samples.front());
      if (random.below(4) == 0) {
        waiting.put_back(weight, samples.front());
        continue;
      }
      samples.pop_front();
      if (samples.empty()) { oracle.erase(chosen); }
    }
    EXPECT_EQ(waiting.lightest(), samples_by_weight::none);
    EXPECT_EQ(waiting.heaviest_up_to(capacity), samples_by_weight::none);
  }
}

}  // namespace
