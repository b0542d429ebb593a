// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"
#include "test.hpp"

#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>

/// Small steps with any two limits at once, and what they ask for, sum by sum: an oracle of planners
/// that keep all limits, of bags or of cells of a grid.
namespace limited_steps {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;
using ballast::sample_id;
using ballast::tokens;
using ballast_test::assignment;

enum limit : std::size_t {
  together,
  moves,
  tokens_cap,
  images_cap,
  room,
  soft,
  rounded,
  started,
  at_most,
  equal,
  filled,
  multiple,
  apart,
  fits,
  mixes,
  level,
  least,
  all_limits
};

/// A step with the arrays of every limit; `has` says which count.
template <std::size_t D>
struct limited_step {
  std::size_t samples;
  std::size_t bags;
  std::size_t slots = 1;  // of each bag; an assignment gives cells, slot x bags + bag
  bool meets = false;     // after each slot
  ballast::bag_layout layout;
  std::vector<ballast::cost_vector<D>> costs;
  std::vector<tokens> lengths;
  std::vector<std::int64_t> images;
  std::vector<std::int64_t> bytes;
  std::vector<int> prompts;
  std::vector<int> keys;
  std::vector<ballast::rank_id> home;
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> rooms;
  std::vector<char> refuses;  // of each sample and bag
  std::int64_t most_per_gpu = 0;
  std::int64_t most_images = 0;
  std::int64_t most_bytes = 0;
  std::int64_t number = 0;
  std::uint32_t within = 0;
  std::array<bool, all_limits> has{};

  [[nodiscard]] bool is_refused(std::size_t sample, std::size_t bag) const
  {
    return has[fits] && refuses[sample * bags + bag] != 0;
  }
  [[nodiscard]] bool may_take(std::size_t sample, std::size_t bag) const
  {
    return !is_refused(sample, bag) && layout.takes(ballast::to_id<bag_id>(bag), lengths[sample]);
  }
  /// What a cell holds of something that is limited per GPU.
  [[nodiscard]] std::int64_t of_cell(std::size_t cell, std::int64_t per_gpu) const
  {
    return per_gpu * layout.sizes()[cell % bags];
  }
  [[nodiscard]] std::int64_t rounded_bytes(std::size_t sample) const
  {
    return (bytes[sample] + 3) / 4 * 4;
  }
};

template <std::size_t D>
limited_step<D> draw(ballast::random_source& random, std::size_t one, std::size_t other,
                     std::size_t samples, ballast::bag_layout const& bags, std::size_t slots = 1)
{
  limited_step<D> step;
  step.samples = samples;
  step.bags = bags.size();
  step.slots = slots;
  step.layout = bags;
  auto const draws = [&](auto& values, std::size_t count, std::uint64_t least, std::uint64_t most) {
    values.resize(count);
    for (auto& value : values) {
      value =
          static_cast<std::remove_cvref_t<decltype(value)>>(least + random.below(most - least + 1));
    }
  };
  if (random.below(2) == 0) {
    std::vector<std::uint32_t> speeds;
    draws(speeds, bags.gpus(), 1, 3);
    step.layout = bags.with_speeds(speeds);
  }
  step.costs.resize(step.samples);
  for (auto& cost : step.costs) {
    for (auto& each : cost) { each = static_cast<cost_units>(random.below(21)); }
  }
  std::uint32_t const largest = std::ranges::max(bags.sizes());
  draws(step.lengths, step.samples, largest, largest + 8);
  draws(step.images, step.samples, 0, 3);
  draws(step.bytes, step.samples, 0, 9);
  draws(step.prompts, step.samples, 0, 5);
  draws(step.keys, step.samples, 0, 6);
  draws(step.home, step.samples, 0, bags.gpus() - 1);
  draws(step.before, step.bags * D, 0, 12);
  draws(step.rooms, step.bags, 3, 14);
  draws(step.refuses, step.samples * step.bags, 0, 1);
  auto const share = [&](auto const& values) {
    std::int64_t sum = 0;
    for (auto const value : values) { sum += value; }
    return sum / static_cast<std::int64_t>(bags.gpus() * step.slots) +
           static_cast<std::int64_t>(random.below(5));
  };
  step.most_per_gpu = share(step.lengths);
  step.most_images = share(step.images);
  step.most_bytes = (share(step.bytes) + 3) / 4 * 4;
  step.number = 1 + static_cast<std::int64_t>(random.below(3));
  step.within = random.below(2) == 0 ? 0 : 200'000;
  step.has[one] = step.has[other] = true;
  return step;
}

/// What `plan` makes of the samples, which are numbers of themselves, their costs and the limits.
template <std::size_t D, class Plan>
auto planned(limited_step<D> const& step, Plan const& plan)
{
  auto const has = [&step](limit which) { return step.has[which]; };
  ballast::cap const images{.of = step.images, .most_per_gpu = step.most_images};
  ballast::cap const of_bags{.of = step.images, .most = step.rooms};
  ballast::cap const softly{.most_per_gpu = 5, .is_soft = true};
  ballast::cap const bytes{.of = step.bytes, .most_per_gpu = step.most_bytes, .rounded_to = 4};
  ballast::placement_limits limits;
  auto const refuse = [&](sample_id sample, bag_id bag) {
    return !step.is_refused(to_index(sample), to_index(bag));
  };
  if (has(together)) { limits.together = step.prompts; }
  if (has(moves)) {
    limits.home = step.home;
    limits.then = ballast::fewest_moves;
    limits.within_per_million = step.within;
  }
  if (has(tokens_cap)) { limits.most_per_gpu = step.most_per_gpu; }
  std::vector<ballast::cap> caps;
  if (has(images_cap)) { caps.push_back(images); }
  if (has(room)) { caps.push_back(of_bags); }
  if (has(soft)) { caps.push_back(softly); }
  if (has(rounded)) { caps.push_back(bytes); }
  if (caps.size() == 1) { limits.also = {caps[0]}; }
  if (caps.size() == 2) { limits.also = {caps[0], caps[1]}; }
  if (has(started)) { limits.starting_loads = step.before; }
  if (has(at_most)) { limits.samples = ballast::counts::at_most(step.number + 1); }
  if (has(equal)) { limits.samples = ballast::counts::equal(step.number); }
  if (has(filled)) { limits.samples = ballast::counts::filled(); }
  if (has(multiple)) { limits.samples = ballast::counts::multiple_of(step.number); }
  if (has(apart)) { limits.apart = step.keys; }
  if (has(fits)) { limits.fits = refuse; }
  auto const few_images = [&](std::span<sample_id const> together) {
    return std::ranges::count_if(together, [&](sample_id each) {
             return step.images[to_index(each)] > 1;
           }) <= step.number;
  };
  if (has(mixes)) { limits.mixes = few_images; }
  if (has(level)) { limits.then = ballast::most_level; }
  if (has(least)) { limits.then = ballast::least(step.images); }
  auto const cost = [&](std::size_t sample) {
    if constexpr (D == 1) {
      return step.costs[sample][0];
    } else {
      return step.costs[sample];
    }
  };
  std::vector<std::size_t> samples(step.samples);
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  return plan(
      samples, step.layout, cost, [&](std::size_t sample) { return step.lengths[sample]; }, limits);
}

/// Whether an assignment keeps what was asked for, sum by sum.
template <std::size_t D>
bool keeps(limited_step<D> const& step, assignment const& owner)
{
  std::size_t const cells = step.bags * step.slots;
  std::vector<std::int64_t> lengths(cells), images(cells), bytes(cells), counts(cells), rich(cells);
  std::vector<std::set<std::size_t>> items(cells);
  std::map<int, std::size_t> place;
  auto const prompt = [&](std::size_t sample) {
    return step.has[together] ? step.prompts[sample] : static_cast<int>(sample);
  };
  std::map<int, tokens> joint;
  std::map<std::pair<int, std::size_t>, bool> is_kept_out;  // what stays together, of a bag
  for (std::size_t sample = 0; sample < step.samples; ++sample) {
    joint[prompt(sample)] += step.lengths[sample];
    for (std::size_t bag = 0; bag < step.bags; ++bag) {
      is_kept_out[{prompt(sample), bag}] |= !step.may_take(sample, bag);
    }
  }
  // Whether no bag that takes all of what stays together holds it.
  auto const is_above_all = [&](int item) {
    for (std::size_t bag = 0; bag < step.bags; ++bag) {
      if (!is_kept_out[{item, bag}] && joint[item] <= step.of_cell(bag, 5)) { return false; }
    }
    return true;
  };
  for (std::size_t sample = 0; sample < step.samples; ++sample) {
    std::size_t const bag = owner[sample];
    if (!step.may_take(sample, bag % step.bags)) { return false; }
    if (step.has[together] && place.try_emplace(prompt(sample), bag).first->second != bag) {
      return false;
    }
    for (std::size_t other = 0; step.has[apart] && other < sample; ++other) {
      if (owner[other] == bag && step.keys[other] == step.keys[sample]) { return false; }
    }
    lengths[bag] += step.lengths[sample];
    images[bag] += step.images[sample];
    rich[bag] += step.images[sample] > 1 ? 1 : 0;
    bytes[bag] += step.rounded_bytes(sample);
    ++counts[bag];
    items[bag].insert(static_cast<std::size_t>(prompt(sample)));
  }
  std::int64_t fewest = 1'000;
  std::int64_t most = 0;
  int odd = 0;
  for (std::size_t bag = 0; bag < cells; ++bag) {
    auto const held = static_cast<std::int64_t>(items[bag].size());
    fewest = std::min(fewest, held);
    most = std::max(most, held);
    odd += held % step.number != 0 ? 1 : 0;
    bool const is_over = lengths[bag] > step.of_cell(bag, 5);
    bool const stands_alone = held == 1 && is_above_all(static_cast<int>(*items[bag].begin()));
    if ((step.has[tokens_cap] && lengths[bag] > step.of_cell(bag, step.most_per_gpu)) ||
        (step.has[images_cap] && images[bag] > step.of_cell(bag, step.most_images)) ||
        (step.has[room] && images[bag] > step.rooms[bag % step.bags]) ||
        (step.has[soft] && is_over && !stands_alone) ||
        (step.has[rounded] && bytes[bag] > step.of_cell(bag, step.most_bytes)) ||
        (step.has[at_most] && counts[bag] > step.number + 1) || (step.has[filled] && held == 0) ||
        (step.has[mixes] && rich[bag] > step.number) ||
        (step.has[multiple] && counts[bag] % step.number != 0)) {
      return false;
    }
  }
  return !step.has[equal] || (most - fewest <= step.number && odd <= 1);
}

/// What a plan is judged by: makespan, then what decides ties.
template <std::size_t D>
struct judged {
  std::vector<ballast::cost_vector<D>> loads;
  std::vector<ratio> by_quantity;  // the latest in each
  std::vector<ratio> finish;       // the same, the latest quantity first
  std::vector<ratio> level;        // of all bags, the latest first
  std::int64_t moved = 0;
  ratio images;
};

template <std::size_t D>
judged<D> judge(limited_step<D> const& step, assignment const& owner)
{
  judged<D> found;
  auto& loads = found.loads;
  loads.resize(step.bags);
  auto const speeds = step.layout.speeds();
  std::vector<std::int64_t> images(step.bags);
  if (step.has[started]) {
    for (std::size_t at = 0; at < step.before.size(); ++at) {
      loads[at / D][at % D] = step.before[at];
    }
  }
  std::vector<std::int64_t> times(step.slots);  // of the latest cells, 6 times as fine
  for (std::size_t slot = 0; slot < step.slots && step.meets; ++slot) {
    for (std::size_t bag = 0; bag < step.bags; ++bag) {
      cost_units cell = slot == 0 ? loads[bag][0] : 0;
      for (std::size_t sample = 0; sample < step.samples; ++sample) {
        if (owner[sample] == slot * step.bags + bag) { cell += step.costs[sample][0]; }
      }
      times[slot] = std::max(times[slot], cell * (6 / speeds[bag]));
    }
  }
  for (std::size_t sample = 0; sample < step.samples; ++sample) {
    std::size_t const bag = owner[sample] % step.bags;
    for (std::size_t d = 0; d < D; ++d) { loads[bag][d] += step.costs[sample][d]; }
    images[bag] += step.images[sample];
    if (ballast::to_id<bag_id>(bag) != step.layout.bag_of(step.home[sample])) {
      found.moved += step.lengths[sample];
    }
  }
  found.finish.resize(D);
  for (std::size_t bag = 0; bag < step.bags; ++bag) {
    ratio last;
    for (std::size_t d = 0; d < D; ++d) {
      ratio const finish{loads[bag][d], speeds[bag]};
      found.finish[d] = std::max(found.finish[d], finish);
      last = std::max(last, finish);
    }
    found.level.push_back(last);
    found.images = std::max(found.images, ratio{images[bag], speeds[bag]});
  }
  if (step.meets) { found.finish[0] = {std::reduce(times.begin(), times.end()), 6}; }
  found.by_quantity = found.finish;
  std::ranges::sort(found.finish, std::greater<>());
  std::ranges::sort(found.level, std::greater<>());
  return found;
}

/// Whether a makespan is longer by no more than so many millionths.
inline bool is_within(ratio makespan, ratio shortest, std::uint32_t per_million)
{
  auto const wide = [](std::int64_t part) { return static_cast<ballast::uint128>(part); };
  return wide(makespan.numerator) * 1'000'000U * wide(shortest.denominator) <=
         wide(shortest.numerator) * (1'000'000U + per_million) * wide(makespan.denominator);
}

struct tally {
  int steps = 0;
  int feasible = 0;
  int worse_ties = 0;
};

template <std::size_t D, class Plan>
void check(limited_step<D> const& step, std::string const& name, tally& all, Plan const& make)
{
  std::vector<judged<D>> kept;
  ballast_test::each_assignment(step.samples, step.bags * step.slots, [&](assignment const& owner) {
    if (owner.size() == step.samples && keeps(step, owner)) { kept.push_back(judge(step, owner)); }
    return true;
  });
  auto const plan = planned(step, make);
  ++all.steps;
  ASSERT_EQ(plan.has_value(), !kept.empty()) << name << (plan ? "" : ": " + plan.error().message);
  if (!plan) {
    EXPECT_EQ(plan.error().code, ballast::error_code::infeasible) << name;
    EXPECT_EQ(plan.error().message.find("gave up"), std::string::npos) << name;
    return;
  }
  ++all.feasible;
  assignment const owner = ballast_test::assignment_of(plan->owner);
  ASSERT_TRUE(keeps(step, owner)) << name;
  judged<D> const got = judge(step, owner);
  auto const shortest =
      std::ranges::min(kept, {}, [](judged<D> const& each) { return each.finish[0]; }).finish[0];
  EXPECT_EQ(plan->makespan, got.finish[0]) << name;
  std::size_t above = 0;  // a soft cap
  for (std::size_t cell = 0; cell < step.bags * step.slots && step.has[soft]; ++cell) {
    tokens held = 0;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      held += owner[sample] == cell ? step.lengths[sample] : 0;
    }
    above += held > step.of_cell(cell, 5) ? 1 : 0;
  }
  EXPECT_EQ(plan->above_cap.size(), above) << name;
  EXPECT_LE(plan->lower_bound, shortest) << name << ": a false bound";
  bool const gives_up = step.has[moves] && step.within > 0;
  if (!gives_up) {
    EXPECT_EQ(got.finish[0], shortest) << name;
  } else {
    EXPECT_TRUE(is_within(got.finish[0], shortest, step.within)) << name;
  }
  // The second objective, among plans that are as short.
  std::optional<judged<D>> best;
  auto const is_better = [&](judged<D> const& a, judged<D> const& b) {
    if (step.has[moves]) { return a.moved < b.moved; }
    if (step.has[level]) { return std::ranges::lexicographical_compare(a.level, b.level); }
    return step.has[least] && a.images < b.images;
  };
  for (judged<D> const& each : kept) {
    bool const as_short =
        gives_up ? is_within(each.finish[0], shortest, step.within) : each.finish == got.finish;
    if (as_short && (!best || is_better(each, *best))) { best = each; }
    bool const says_otherwise = plan->then_is_proven && as_short && is_better(each, got) &&
                                (gives_up || each.by_quantity == got.by_quantity);
    EXPECT_FALSE(says_otherwise) << name << ": a false proof";
  }
  if (best && is_better(*best, got)) { ++all.worse_ties; }
}

/// Plans steps with every pair of limits, which `make_step` draws and `make` plans.
template <std::size_t D, class Step, class Plan>
void check_all_pairs(std::uint64_t seed, int trials, Step const& make_step, Plan const& make)
{
  ballast::random_source random(seed);
  auto const is_then = [](std::size_t which) {
    return which == moves || which == level || which == least;
  };
  auto const is_count = [](std::size_t which) {
    return which == at_most || which == equal || which == filled || which == multiple;
  };
  tally all;
  for (std::size_t one = 0; one < all_limits; ++one) {
    for (std::size_t other = one; other < all_limits; ++other) {
      bool const exclude =
          one != other && ((is_then(one) && is_then(other)) || (is_count(one) && is_count(other)));
      if (exclude) { continue; }  // one of them at a time
      for (int trial = 0; trial < trials; ++trial) {
        limited_step<D> const step = make_step(random, one, other);
        if (step.meets && (step.has[level] || step.has[least])) { continue; }  // refused
        if (ballast_test::is_sanitized && (one + other) % 3 != 0) { continue; }
        check(step,
              "limits " + std::to_string(one) + " and " + std::to_string(other) + ", trial " +
                  std::to_string(trial),
              all, make);
        if (testing::Test::HasFatalFailure()) { return; }
      }
    }
  }
  EXPECT_GT(all.feasible, all.steps / 4);
  EXPECT_LE(all.worse_ties, all.steps / 100);
}

/// Leaves at most `most` of these limits.
template <std::size_t D>
void thin(limited_step<D>& step, std::initializer_list<limit> of, std::size_t most,
          ballast::random_source& random)
{
  std::vector<limit> on;
  for (limit const each : of) {
    if (step.has[each]) { on.push_back(each); }
  }
  for (; on.size() > most; on.pop_back()) {
    std::swap(on[random.below(on.size())], on.back());
    step.has[on.back()] = false;
  }
}

/// Any limits at once, each in one step of four.
template <std::size_t D>
void draw_limits(limited_step<D>& step, ballast::random_source& random)
{
  for (bool& has : step.has) { has = random.below(4) == 0; }
  thin(step, {moves, level, least}, 1, random);
  thin(step, {at_most, equal, filled, multiple}, 1, random);
  thin(step, {images_cap, room, soft, rounded}, 2, random);
  if (step.meets) { thin(step, {level, least}, 0, random); }
}

/// The same with any limits.
template <std::size_t D, class Step, class Plan>
void check_subsets(std::uint64_t seed, int trials, Step const& make_step, Plan const& make)
{
  ballast::random_source random(seed);
  tally all;
  for (int trial = 0; trial < trials; ++trial) {
    limited_step<D> step = make_step(random, together, together);
    std::string name = "trial " + std::to_string(trial) + " with limits";
    draw_limits(step, random);
    for (std::size_t each = 0; each < all_limits; ++each) {
      if (step.has[each]) { name += " " + std::to_string(each); }
    }
    check(step, name, all, make);
    if (testing::Test::HasFatalFailure()) { return; }
  }
  EXPECT_GT(all.feasible, all.steps / 4);
  EXPECT_LE(all.worse_ties, all.steps / 100);
}

}  // namespace limited_steps
