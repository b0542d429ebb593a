// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/instances.hpp"
#include "../support/limited_step.hpp"
#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <map>

namespace ballast_soak {

/// A step for partition(), with arrays that its constraints view.
struct drawn_step {
  static constexpr std::int64_t no_limit = ballast::no_limit;

  ballast::bag_layout bags;
  std::vector<ballast::tokens> lengths;
  std::vector<ballast::cost_units> costs;
  std::vector<ballast::cost_units> second;     // costs in a second quantity
  std::vector<ballast::cost_units> attention;  // of the costs
  std::vector<int> together;
  std::vector<ballast::rank_id> home;
  std::vector<std::int64_t> weights;
  std::int64_t most_per_gpu = no_limit;
  number_family family = number_family::tiny;

  [[nodiscard]] std::size_t size() const { return lengths.size(); }
  [[nodiscard]] ballast::placement_limits constraints() const
  {
    ballast::placement_limits limits{.together = together, .home = home};
    if (is_limited()) { limits.also = {{.of = weights, .most_per_gpu = most_per_gpu}}; }
    return limits;
  }
  [[nodiscard]] bool is_limited() const { return most_per_gpu != no_limit; }
  [[nodiscard]] std::int64_t weight(std::size_t sample) const
  {
    return weights.empty() ? lengths[sample] : weights[sample];
  }
  [[nodiscard]] bool takes(std::size_t sample, std::size_t bag) const
  {
    return bags.takes(ballast::to_id<ballast::bag_id>(bag), lengths[sample]);
  }
  /// Whether a bag holds so much: GPUs times most_per_gpu may be above 63 bits.
  [[nodiscard]] bool holds(std::size_t bag, ballast::uint128 weight) const
  {
    return !is_limited() ||
           weight <= static_cast<ballast::uint128>(most_per_gpu) * bags.sizes()[bag];
  }
  /// Samples that stay together, as numbers from 0 on.
  [[nodiscard]] std::vector<std::vector<std::size_t>> items() const
  {
    std::vector<std::vector<std::size_t>> all;
    std::map<int, std::size_t> item_of;
    for (std::size_t sample = 0; sample < size(); ++sample) {
      int const key = together.empty() ? static_cast<int>(sample) : together[sample];
      auto const [at, is_new] = item_of.try_emplace(key, all.size());
      if (is_new) { all.emplace_back(); }
      all[at->second].push_back(sample);
    }
    return all;
  }
  /// Whether nothing in the step is beyond what the library takes, padded or not.
  [[nodiscard]] bool is_in_range() const
  {
    auto const is_length = [](ballast::tokens length) {
      return length >= 0 && length <= ballast::longest_sample;
    };
    constexpr std::int64_t most = std::int64_t{1} << 62;
    auto const padded = [&](std::vector<std::int64_t> const& all) {
      return all.empty() ||
             std::ranges::max(all) < most / static_cast<std::int64_t>(2 * all.size());
    };
    return std::ranges::all_of(lengths, is_length) && is_moderate(costs) && is_moderate(second) &&
           is_moderate(weights) && padded(costs);
  }
};

/// Bags of any sizes on consecutive ranks, or a mix laid over a cluster of uneven nodes; GPUs of
/// one speed, of several, or of so large ones that products need 128 bits.
[[nodiscard]] inline ballast::bag_layout draw_bags(ballast::random_source& random, std::size_t most)
{
  std::uint32_t const fastest = random.below(8) == 0 ? 500'000'000U : 5U;
  bool const has_speeds = random.below(3) == 0;
  auto const speed = [&] { return static_cast<std::uint32_t>(1 + random.below(fastest)); };
  if (random.below(2) == 0) {
    std::vector<std::uint32_t> nodes(1 + random.below(3));
    for (auto& gpus : nodes) { gpus = static_cast<std::uint32_t>(1 + random.below(8)); }
    auto machines = ballast::cluster_of(nodes).value();
    if (has_speeds) {
      for (std::size_t gpu = 0; gpu < machines.gpus(); ++gpu) {
        machines.gpu_speeds.push_back(speed());
      }
    }
    ballast::bag_spec spec;
    std::size_t left = machines.gpus();
    for (std::uint32_t size : {8U, 4U, 2U, 1U}) {
      std::size_t const bags = size == 1 ? left : random.below(left / size + 1);
      if (bags > 0) { (void)spec.add({size, static_cast<std::uint32_t>(bags)}); }
      left -= size * bags;
    }
    auto const laid = ballast::lay_out(spec, machines, ballast::misplaced_bags::largest_first);
    if (laid && laid->size() <= most) { return *laid; }
  }
  std::vector<std::uint32_t> gpus(1 + random.below(most));
  std::vector<std::uint32_t> speeds(has_speeds ? gpus.size() : 0);
  std::uint64_t const largest = random.below(2) == 0 ? 1 : 8;
  for (auto& each : gpus) { each = static_cast<std::uint32_t>(1 + random.below(largest)); }
  for (auto& each : speeds) { each = speed(); }
  return ballast_test::consecutive_bags(gpus, speeds);
}

[[nodiscard]] inline ballast::tokens draw_length(ballast::random_source& random,
                                                 number_family family)
{
  switch (family) {
    case number_family::tiny: return random.between(0, 9);
    case number_family::ties: return 8 * random.between(1, 4);
    case number_family::wide: return random.between(1, 60) * random.between(1, 60);
    case number_family::huge: return ballast::longest_sample - random.between(0, 9);
    case number_family::extreme: break;
  }
  return random.below(6) == 0   ? draw_number(random, family)
         : random.below(2) == 0 ? ballast::longest_sample
                                : random.between(0, 1);
}

/// A step of any kind; a small one has at most a few hundred plans.
[[nodiscard]] inline drawn_step draw_step(ballast::random_source& random)
{
  drawn_step step;
  step.family = draw_family(random);
  bool const is_small = random.below(3) == 0;
  step.bags = draw_bags(random, is_small ? 3 : 9);
  std::size_t const most = random.below(50) == 0 ? 500 : 40;
  std::size_t const count = random.below((is_small ? 5 : most) + 1);
  bool const is_long = random.below(4) != 0;  // mostly no sample is shorter than bags
  auto const largest = ballast::tokens{std::ranges::max(step.bags.sizes())};
  for (std::size_t sample = 0; sample < count; ++sample) {
    auto const length = draw_length(random, step.family);
    step.lengths.push_back(is_long && length > 0 && length < largest ? length + largest : length);
    step.costs.push_back(draw_number(random, step.family));
    step.second.push_back(random.below(4) == 0 ? 0 : draw_number(random, step.family));
    step.attention.push_back(random.between(0, step.costs.back()));
  }
  if (random.below(4) == 0) {
    step.bags = step.bags.with_short_samples(ballast::short_samples::admitted);
  }
  if (random.below(4) == 0) {
    for (std::size_t sample = 0; sample < count; ++sample) {
      step.together.push_back(static_cast<int>(random.below(count)) - 3);
    }
  }
  if (random.below(3) == 0) {
    for (std::size_t sample = 0; sample < count; ++sample) {
      step.home.push_back(ballast::to_id<ballast::rank_id>(random.below(step.bags.gpus())));
    }
  }
  if (random.below(3) == 0) {
    bool const by_weight = random.below(2) == 0;
    ballast::uint128 all = 0;
    std::int64_t heaviest = 0;
    for (std::size_t sample = 0; sample < count; ++sample) {
      if (by_weight) { step.weights.push_back(draw_number(random, step.family)); }
      all += static_cast<ballast::uint128>(std::max<std::int64_t>(0, step.weight(sample)));
      heaviest = std::max(heaviest, step.weight(sample));
    }
    // From too little to plenty, and often just enough.
    auto const even = static_cast<std::int64_t>(
        std::min<ballast::uint128>(all / step.bags.gpus(), drawn_step::no_limit / 8));
    std::array<std::int64_t, 6> const limits = {
        even,         even + even / 16 + 1,    even + even / 4 + 1, std::max(heaviest, even),
        2 * even + 1, drawn_step::no_limit - 1};
    step.most_per_gpu = limits[random.below(limits.size())];
  }
  return step;
}

/// A step with any limits at once; its numbers are of a family.
template <std::size_t D>
[[nodiscard]] limited_steps::limited_step<D> draw_limited_step(ballast::random_source& random,
                                                               bool is_small)
{
  using namespace limited_steps;
  auto const bags = draw_bags(random, is_small ? 3 : 9);
  auto step = draw<D>(random, together, together, random.below(is_small ? 6 : 41), bags);
  draw_limits(step, random);
  if (!is_small) {  // so that many of these have a plan
    for (int& key : step.keys) { key = static_cast<int>(random.below(step.samples)); }
    for (int& key : step.prompts) { key = static_cast<int>(random.below(step.samples)); }
    step.number += step.has[multiple] ? 0 : static_cast<std::int64_t>(step.samples / step.bags);
  }
  number_family const family = draw_family(random);
  for (auto& costs : step.costs) {
    for (ballast::cost_units& each : costs) { each = draw_number(random, family); }
  }
  for (std::int64_t& each : step.before) { each = draw_number(random, family); }
  std::int64_t const unit = std::array{1, 1'000, 1 << 30}[random.below(3)];
  for (auto* all : {&step.images, &step.bytes, &step.rooms}) {
    for (std::int64_t& each : *all) { each *= unit; }
  }
  step.most_images *= unit;
  step.most_bytes *= unit;
  for (auto& length : step.lengths) {  // some shorter than bags, who may admit them
    if (random.below(40) == 0) { length = random.between(1, 3); }
  }
  if (random.below(4) == 0) {
    step.layout = step.layout.with_short_samples(ballast::short_samples::admitted);
  }
  return step;
}

/// Calls visit(owner) for every assignment of whole items to bags that take them and, where asked
/// for, hold them; owner is by sample. Nothing where there are more than `most` assignments.
template <class Visit>
bool for_each_plan(drawn_step const& step, double most, Visit const& visit)
{
  auto const items = step.items();
  std::size_t const bags = step.bags.size();
  double plans = 1;
  for (std::size_t item = 0; item < items.size(); ++item) { plans *= static_cast<double>(bags); }
  if (plans > most) { return false; }
  std::vector<std::size_t> owner(step.size());
  ballast_test::each_assignment(items.size(), bags, [&](ballast_test::assignment const& places) {
    std::vector<ballast::uint128> held(bags, 0);
    for (std::size_t item = 0; item < places.size(); ++item) {
      std::size_t const bag = places[item];
      for (std::size_t const sample : items[item]) {
        if (!step.takes(sample, bag)) { return false; }
        held[bag] += static_cast<ballast::uint128>(step.weight(sample));
        owner[sample] = bag;
      }
      if (!step.holds(bag, held[bag])) { return false; }
    }
    if (places.size() == items.size()) { visit(owner); }
    return true;
  });
  return true;
}

}  // namespace ballast_soak
