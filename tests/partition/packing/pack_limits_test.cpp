// SPDX-License-Identifier: Apache-2.0
// Every pair of limits, and of what bins ask for, against all packings of small steps.
#include <ballast/partition/packing/pack.hpp>

#include "../../support/test.hpp"
#include "../../support/trials.hpp"

namespace pack_limits_test {

using ballast::cap;
using ballast::counts;

enum limit : std::size_t {
  tokens_cap,
  images_cap,
  soft,
  rounded,
  together,
  apart,
  at_most,
  equal,
  filled,
  level,
  least,
  least_bins,
  multiple,
  all_limits
};

struct limited_step {
  std::size_t samples = 0;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> images;
  std::vector<int> prompts;
  std::vector<int> keys;
  std::int64_t most_tokens = 0;
  std::int64_t most_images = 0;
  std::int64_t number = 0;
  ballast::bins wanted;
  std::array<bool, all_limits> has{};
};

limited_step draw(ballast::random_source& random, std::size_t one, std::size_t other,
                  std::size_t samples, std::uint64_t keys)
{
  limited_step step;
  step.samples = samples;
  for (std::size_t sample = 0; sample < step.samples; ++sample) {
    step.lengths.push_back(random.between(0, 9));
    step.images.push_back(random.between(0, 3));
    step.prompts.push_back(static_cast<int>(random.below(keys)));
    step.keys.push_back(static_cast<int>(random.below(keys)));
  }
  step.most_tokens = random.between(7, 24);
  step.most_images = random.between(3, 8);
  step.number = random.between(1, 3);
  step.has[one] = step.has[other] = true;
  if (step.has[least_bins]) { step.wanted.least = random.below(6); }
  if (step.has[multiple]) { step.wanted.multiple_of = 1 + random.below(3); }
  return step;
}

auto planned(limited_step const& step)
{
  auto const has = [&step](limit which) { return step.has[which]; };
  ballast::placement_limits limits;
  if (has(tokens_cap)) { limits.most_per_gpu = step.most_tokens; }
  std::vector<cap> caps;
  if (has(images_cap)) { caps.push_back({.of = step.images, .most_per_gpu = step.most_images}); }
  if (has(soft)) { caps.push_back({.most_per_gpu = 6, .is_soft = true}); }
  if (has(rounded)) { caps.push_back({.most_per_gpu = 14, .rounded_to = 4}); }
  if (caps.size() == 1) { limits.also = {caps[0]}; }
  if (caps.size() == 2) { limits.also = {caps[0], caps[1]}; }
  if (has(together)) { limits.together = step.prompts; }
  if (has(apart)) { limits.apart = step.keys; }
  if (has(at_most)) { limits.samples = counts::at_most(step.number); }
  if (has(equal)) { limits.samples = counts::equal(step.number); }
  if (has(filled)) { limits.samples = counts::filled(); }
  if (has(level)) { limits.then = ballast::most_level; }
  if (has(least)) { limits.then = ballast::least(step.images); }
  return ballast::pack(step.lengths, limits, step.wanted);
}

/// What bins hold, counted by itself.
struct bin_sums {
  std::vector<std::int64_t> lengths, images, by_fours, samples;
  std::vector<std::set<int>> items;

  bin_sums(limited_step const& step, std::vector<std::size_t> const& owner, std::size_t bins)
      : lengths(bins), images(bins), by_fours(bins), samples(bins), items(bins)
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      std::size_t const bin = owner[sample];
      lengths[bin] += step.lengths[sample];
      images[bin] += step.images[sample];
      by_fours[bin] += (step.lengths[sample] + 3) / 4 * 4;
      ++samples[bin];
      items[bin].insert(step.has[together] ? step.prompts[sample] : static_cast<int>(sample));
    }
  }
  /// Of what counts first: the cap that is given first, or lengths.
  [[nodiscard]] std::vector<std::int64_t> const& loads(limited_step const& step) const
  {
    if (step.has[tokens_cap]) { return lengths; }
    if (step.has[images_cap]) { return images; }
    return step.has[rounded] && !step.has[soft] ? by_fours : lengths;
  }
};

bool keeps(limited_step const& step, std::vector<std::size_t> const& owner, std::size_t bins)
{
  bin_sums const held(step, owner, bins);
  for (std::size_t a = 0; a < owner.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      bool const shared = owner[a] == owner[b];
      if (step.has[apart] && shared && step.keys[a] == step.keys[b]) { return false; }
      if (step.has[together] && !shared && step.prompts[a] == step.prompts[b]) { return false; }
    }
  }
  std::int64_t fewest = 1'000, most = 0;
  int odd = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    auto const items = static_cast<std::int64_t>(held.items[bin].size());
    fewest = std::min(fewest, items);
    most = std::max(most, items);
    odd += items % step.number != 0 ? 1 : 0;
    if ((step.has[tokens_cap] && held.lengths[bin] > step.most_tokens) ||
        (step.has[images_cap] && held.images[bin] > step.most_images) ||
        (step.has[soft] && held.lengths[bin] > 6 && items > 1) ||
        (step.has[rounded] && held.by_fours[bin] > 14) ||
        (step.has[at_most] && held.samples[bin] > step.number) ||
        (step.has[filled] && items == 0)) {
      return false;
    }
  }
  return !step.has[equal] || bins == 0 || (most - fewest <= step.number && odd <= 1);
}

/// Calls visit(owner, open) for each way to put the samples in bins.
template <class Visit>
void each_packing(std::vector<std::size_t>& owner, std::size_t samples, std::size_t open,
                  Visit const& visit)
{
  if (owner.size() == samples) { return visit(owner, open); }
  for (std::size_t bin = 0; bin <= open; ++bin) {
    owner.push_back(bin);
    each_packing(owner, samples, std::max(open, bin + 1), visit);
    owner.pop_back();
  }
}

struct tally {
  int steps = 0;
  int feasible = 0;
  int proven = 0;
  int worse_ties = 0;
};

void check(limited_step const& step, tally& all)
{
  std::size_t fewest = 100;
  std::vector<bin_sums> kept;  // of the packings into the fewest bins
  std::vector<std::size_t> owner;
  each_packing(owner, step.samples, 0, [&](auto const& bin_of, std::size_t open) {
    for (std::size_t bins = open; bins <= std::min<std::size_t>(fewest, 12); ++bins) {
      bool const allowed = bins >= step.wanted.least && bins % step.wanted.multiple_of == 0;
      if (!allowed || !keeps(step, bin_of, bins)) { continue; }
      if (bins < fewest) { kept.clear(); }
      fewest = bins;
      kept.emplace_back(step, bin_of, bins);
      break;
    }
  });
  auto const plan = planned(step);
  ++all.steps;
  ASSERT_EQ(plan.has_value(), !kept.empty()) << (plan ? "" : plan.error().message);
  if (!plan) {
    EXPECT_EQ(plan.error().code, ballast::error_code::infeasible);
    return;
  }
  ++all.feasible;
  for (auto const bin : plan->owner) { owner.push_back(to_index(bin)); }
  ASSERT_TRUE(keeps(step, owner, plan->bins()));
  EXPECT_EQ(plan->bins(), fewest);
  EXPECT_LE(plan->lower_bound, fewest) << "a false bound";
  all.proven += plan->proven_optimal() ? 1 : 0;
  bin_sums const got(step, owner, plan->bins());
  EXPECT_EQ(plan->loads, got.loads(step));
  std::size_t above = 0;
  for (std::size_t bin = 0; bin < plan->bins(); ++bin) {
    above += step.has[soft] && got.lengths[bin] > 6 ? 1 : 0;
    bool const is_empty = got.samples[bin] == 0;
    EXPECT_EQ(std::ranges::count(plan->empty, ballast::to_id<ballast::bag_id>(bin)), is_empty);
    EXPECT_TRUE(!is_empty || step.has[equal] || plan->bins() > step.samples || step.has[together]);
  }
  EXPECT_EQ(plan->above_cap.size(), above);
  // What decides among packings into as many bins.
  auto const sorted = [](std::vector<std::int64_t> loads) {
    std::ranges::sort(loads, std::greater<>());
    return loads;
  };
  auto best = sorted(got.loads(step));
  auto least_images = sorted(got.images);
  for (bin_sums const& each : kept) {
    best = std::min(best, sorted(each.loads(step)));
    least_images = std::min(least_images, sorted(each.images));
  }
  std::int64_t const largest = best.empty() ? 0 : best[0];
  EXPECT_LE(plan->largest_bound, largest) << "a false bound";
  bool const is_asked = step.wanted.least > 0 || step.wanted.multiple_of > 1;
  if (step.has[level]) { all.worse_ties += best < sorted(got.loads(step)) ? 1 : 0; }
  if (step.has[least] && !least_images.empty()) {
    EXPECT_EQ(std::ranges::max(got.images), least_images[0]);
  } else if (step.has[level] || is_asked) {
    EXPECT_EQ(plan->largest(), largest);
  }
}

/// Calls visit(one, other) for all pairs of limits that can be given together.
template <class Visit>
void each_pair(Visit const& visit)
{
  auto const is_count = [](std::size_t which) { return which >= at_most && which <= filled; };
  auto const is_then = [](std::size_t which) { return which == level || which == least; };
  for (std::size_t one = 0; one < all_limits; ++one) {
    for (std::size_t other = one; other < all_limits; ++other) {
      bool const exclude =
          one != other && ((is_count(one) && is_count(other)) || (is_then(one) && is_then(other)));
      SCOPED_TRACE(testing::Message() << "limits " << one << " and " << other);
      if (!exclude && !testing::Test::HasFailure()) { visit(one, other); }
    }
  }
}

TEST(PackLimits, HoldInPairsAndNoPackingHasFewerBins)
{
  ballast::random_source random(21);
  int const trials = ballast_test::trials_of(20);
  tally all;
  each_pair([&](std::size_t one, std::size_t other) {
    for (int trial = 0; trial < trials; ++trial) {
      SCOPED_TRACE(testing::Message() << "trial " << trial);
      check(draw(random, one, other, random.below(8), 6), all);
      if (testing::Test::HasFailure()) { return; }
    }
  });
  EXPECT_GT(all.feasible, all.steps * 3 / 4);
  EXPECT_GE(all.proven, all.feasible * 99 / 100);
  EXPECT_EQ(all.worse_ties, 0);
}

TEST(PackLimits, HoldInPairsOfLargerSteps)
{
  ballast::random_source random(22);
  std::size_t const fewest = ballast_test::is_sanitized ? 10 : 25;
  std::size_t const most = ballast_test::is_sanitized ? 15 : 60;
  each_pair([&](std::size_t one, std::size_t other) {
    auto step = draw(random, one, other, fewest + random.below(most), 40);
    if (ballast_test::is_sanitized && (one + other) % 3 != 0) { return; }
    step.most_tokens += 30;
    auto const plan = planned(step);
    // Prompts may be above a cap, and counts in multiples may have no packing.
    ASSERT_TRUE(plan || step.has[equal] || step.has[together]) << plan.error().message;
    if (!plan) { return; }
    std::vector<std::size_t> owner;
    for (auto const bin : plan->owner) { owner.push_back(to_index(bin)); }
    EXPECT_TRUE(keeps(step, owner, plan->bins()));
    EXPECT_LE(plan->lower_bound, plan->bins());
    EXPECT_LE(plan->largest_bound, plan->largest());
    EXPECT_EQ(plan->loads, bin_sums(step, owner, plan->bins()).loads(step));
  });
}

// Oracle: the fewest bins, and of as many the least largest, where count x longest is in the cap.
TEST(PackLimits, PadExactly)
{
  ballast::random_source random(61);
  for (int trial = 0; trial < ballast_test::trials_of(400); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const samples = random.below(8);
    std::vector<std::int64_t> lengths(samples);
    for (auto& length : lengths) { length = random.between(0, 10); }
    std::int64_t const most = random.between(12, 40);
    std::int64_t const multiple = random.between(1, 5);
    std::int64_t const number = random.below(2) == 0 ? 9 : random.between(1, 4);
    ballast::bins const wanted{random.below(4), 1 + random.below(3), true};
    std::size_t fewest = 100;
    std::int64_t largest = 0;
    std::vector<std::size_t> owner;
    each_packing(owner, samples, 0, [&](auto const& bin_of, std::size_t open) {
      std::vector<std::int64_t> longest(open), count(open);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        std::int64_t const length = (lengths[sample] + multiple - 1) / multiple * multiple;
        longest[bin_of[sample]] = std::max(longest[bin_of[sample]], length);
        ++count[bin_of[sample]];
      }
      std::int64_t load = 0;
      for (std::size_t bin = 0; bin < open; ++bin) {
        load = std::max(load, longest[bin] * count[bin]);
        if (load > most || count[bin] > number) { return; }
      }
      std::size_t bins = std::max(open, wanted.least);
      while (bins % wanted.multiple_of != 0) { ++bins; }
      if (bins > fewest || (bins == fewest && load >= largest)) { return; }
      fewest = bins;
      largest = load;
    });
    auto const plan = ballast::pack(lengths,
                                    {.also = {{.most_per_gpu = most, .rounded_to = multiple}},
                                     .samples = counts::at_most(number),
                                     .then = ballast::most_level},
                                    wanted);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->bins(), fewest);
    ASSERT_EQ(plan->largest(), largest);
    ASSERT_EQ(plan->largest_bound, largest);
    ASSERT_TRUE(plan->proven_optimal());
  }
}

}  // namespace pack_limits_test
