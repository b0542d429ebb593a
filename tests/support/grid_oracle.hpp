// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"
#include "test.hpp"

#include <ballast/partition/grid/partition_grid.hpp>

namespace ballast_test {

struct grid_sample {
  std::int64_t weight;
  std::int64_t cost;
};

/// A step for a grid, with arrays that its options view.
struct grid_instance {
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> costs;
  std::size_t ranks = 1;
  std::size_t slots = 1;
  std::vector<std::int64_t> caps = {};  ///< by rank, or none
  std::vector<int> groups = {};
  std::vector<int> kinds = {};
  std::vector<ballast::rank_id> home = {};
  std::int64_t multiple = 1;
  ballast::counts counts = {};
  ballast::grid_meeting meet = ballast::grid_meeting::step;

  [[nodiscard]] std::vector<grid_sample> samples() const
  {
    std::vector<grid_sample> all;
    for (std::size_t i = 0; i < weights.size(); ++i) { all.push_back({weights[i], costs[i]}); }
    return all;
  }

  [[nodiscard]] ballast::placement_limits limits() const
  {
    ballast::placement_limits given{.together = groups, .home = home, .samples = counts};
    if (!caps.empty()) { given.also = {{.most = caps, .rounded_to = multiple}}; }
    return given;
  }

  /// The plan, with as many microbatches or with those that are found, a multiple of a number.
  [[nodiscard]] ballast::result<ballast::grid_plan> planned(
      std::optional<std::size_t> number = std::nullopt, std::size_t multiple_of = 1) const
  {
    return ballast::partition_grid(
        samples(), ballast::one_gpu_bags(ranks),
        {.number = number, .multiple_of = multiple_of, .meet = meet, .kinds = kinds},
        &grid_sample::cost, &grid_sample::weight, limits());
  }
};

/// Whether cells (slot x ranks + rank, one for each sample) keep to all that the instance asks for.
[[nodiscard]] inline bool keeps_to(grid_instance const& step, assignment const& cell)
{
  std::size_t const cells = step.ranks * step.slots;
  std::vector<std::int64_t> filled(cells, 0);
  std::vector<std::int64_t> counts(cells, 0);
  std::vector<std::set<std::size_t>> items(cells);
  std::map<int, std::size_t> cell_of_group;
  std::map<std::size_t, int> kind_of_slot;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    std::int64_t weight = step.weights[i];
    while (weight % step.multiple != 0) { ++weight; }
    filled[cell[i]] += weight;
    ++counts[cell[i]];
    items[cell[i]].insert(step.groups.empty() ? i : static_cast<std::size_t>(step.groups[i]));
    if (!step.groups.empty() &&
        cell_of_group.emplace(step.groups[i], cell[i]).first->second != cell[i]) {
      return false;
    }
    if (!step.kinds.empty() &&
        kind_of_slot.emplace(cell[i] / step.ranks, step.kinds[i]).first->second != step.kinds[i]) {
      return false;
    }
  }
  for (std::size_t c = 0; c < cells; ++c) {
    if (!step.caps.empty() && filled[c] > step.caps[c % step.ranks]) { return false; }
    using rule = ballast::counts::rule;
    if (step.counts.kind == rule::filled && counts[c] == 0) { return false; }
    if (step.counts.kind == rule::at_most && counts[c] > step.counts.number) { return false; }
    if (step.counts.kind == rule::multiple_of && counts[c] % step.counts.number != 0) {
      return false;
    }
    counts[c] = static_cast<std::int64_t>(items[c].size());
  }
  if (step.counts.kind != ballast::counts::rule::equal || cell.empty()) { return true; }
  // Of the cells of each kind, counts differ by one at most. An empty slot is of any kind that may
  // have empty cells.
  std::map<int, std::pair<std::int64_t, std::int64_t>> range_of_kind;
  bool all_hold = true;
  for (std::size_t slot = 0; slot < step.slots; ++slot) {
    auto const [least, most] =
        std::ranges::minmax(std::span(counts).subspan(slot * step.ranks, step.ranks));
    if (most == 0) {
      all_hold = false;
      continue;
    }
    int const kind = step.kinds.empty() ? 0 : kind_of_slot.at(slot);
    auto& range = range_of_kind.emplace(kind, std::pair{least, most}).first->second;
    range = {std::min(range.first, least), std::max(range.second, most)};
  }
  auto const small = [](auto const& each) { return each.second.second <= 1; };
  return std::ranges::all_of(
             range_of_kind,
             [](auto const& each) { return each.second.second - each.second.first <= 1; }) &&
         (all_hold || std::ranges::any_of(range_of_kind, small));
}

/// What a step with these cells takes.
[[nodiscard]] inline std::int64_t grid_takes(grid_instance const& step, assignment const& cell)
{
  std::vector<std::int64_t> loads(step.ranks * step.slots, 0);
  for (std::size_t i = 0; i < cell.size(); ++i) { loads[cell[i]] += step.costs[i]; }
  std::int64_t sum = 0;
  std::int64_t largest_sum = 0;
  for (std::size_t slot = 0; slot < step.slots; ++slot) {
    std::int64_t largest = 0;
    for (std::size_t rank = 0; rank < step.ranks; ++rank) {
      largest = std::max(largest, loads[slot * step.ranks + rank]);
    }
    sum += largest;
  }
  for (std::size_t rank = 0; rank < step.ranks; ++rank) {
    std::int64_t own = 0;
    for (std::size_t slot = 0; slot < step.slots; ++slot) {
      own += loads[slot * step.ranks + rank];
    }
    largest_sum = std::max(largest_sum, own);
  }
  return step.meet == ballast::grid_meeting::step ? largest_sum : sum;
}

/// The least that any plan takes, or nothing: tries every cell for every sample.
[[nodiscard]] inline std::optional<std::int64_t> best_grid(grid_instance const& step)
{
  std::size_t const samples = step.weights.size();
  return least_of_all(samples, step.ranks * step.slots,
                      [&](assignment const& cell) -> std::optional<std::int64_t> {
                        if (cell.size() == samples && !keeps_to(step, cell)) {
                          return std::nullopt;
                        }
                        return grid_takes(step, cell);
                      });
}

/// Whether there is a plan at all.
[[nodiscard]] inline bool has_grid(grid_instance step)
{
  step.costs.assign(step.weights.size(), 0);  // all plans are as good
  return best_grid(step).has_value();
}

/// A plan says what it does, and keeps to the options.
inline void expect_valid_grid(ballast::grid_plan const& plan, grid_instance step)
{
  ASSERT_EQ(plan.ranks, step.ranks);
  ASSERT_EQ(plan.owner.size(), step.weights.size());
  step.slots = plan.microbatches;
  auto const cell = assignment_of(plan.owner);
  ASSERT_TRUE(std::ranges::all_of(cell, [&](auto c) { return c < step.ranks * step.slots; }));
  EXPECT_TRUE(keeps_to(step, cell));
  EXPECT_EQ(plan.makespan, (ballast::ratio{grid_takes(step, cell), 1}));
  EXPECT_LE(plan.lower_bound, plan.makespan);
  EXPECT_LE(plan.fewest_microbatches, plan.microbatches);
  std::size_t empty = 0;
  for (std::size_t slot = 0; slot < step.slots; ++slot) {
    for (std::size_t rank = 0; rank < step.ranks; ++rank) {
      auto const own = ballast::to_id<ballast::rank_id>(rank);
      std::int64_t load = 0;
      std::int64_t weight = 0;
      for (auto const sample : plan.microbatch(own, slot)) {
        EXPECT_EQ(cell[to_index(sample)], slot * step.ranks + rank);
        load += step.costs[to_index(sample)];
        weight += plan.weights[to_index(sample)];
        if (!step.kinds.empty()) { EXPECT_EQ(plan.kinds[slot], step.kinds[to_index(sample)]); }
      }
      EXPECT_EQ(plan.load(own, slot), load);
      EXPECT_EQ(plan.weight(own, slot), weight);
      EXPECT_EQ(plan.is_empty(own, slot), plan.microbatch(own, slot).empty());
      empty += plan.is_empty(own, slot) ? 1 : 0;
    }
  }
  EXPECT_EQ(plan.empty_cells(), empty);
}

/// Small grids with any of the constraints together, most of them tight.
[[nodiscard]] inline grid_instance random_grid(ballast::random_source& random, std::size_t most)
{
  grid_instance step;
  step.ranks = 1 + random.below(3);
  step.slots = 1 + random.below(step.ranks == 1 ? 4 : 4 - step.ranks);
  step.meet =
      random.below(2) == 0 ? ballast::grid_meeting::step : ballast::grid_meeting::microbatch;
  step.multiple = random.below(4) == 0 ? 3 : 1;
  auto const caps = random.below(3);
  std::int64_t const cap = random.between(8, 40);
  for (std::size_t rank = 0; rank < step.ranks && caps > 0; ++rank) {
    step.caps.push_back(caps == 1 ? cap : random.between(2, 40));
  }
  auto const rule = random.below(6);
  if (rule == 1) { step.counts = ballast::counts::at_most(random.below(2) == 0 ? 1 : 2); }
  if (rule == 2) { step.counts = ballast::counts::equal(); }
  if (rule == 3) { step.counts = ballast::counts::multiple_of(random.below(2) == 0 ? 2 : 3); }
  if (rule == 4) { step.counts = ballast::counts::filled(); }
  bool const by_length = random.below(2) == 0;
  bool const of_kinds = random.below(2) == 0;
  bool const grouped = random.below(3) == 0;
  bool const at_home = random.below(8) == 0;
  for (std::size_t count = random.below(most + 1); count > 0; --count) {
    std::int64_t const weight = random.between(0, 14);
    step.weights.push_back(weight);
    step.costs.push_back(by_length ? weight * (weight + 10) : random.between(0, 30));
    if (of_kinds) { step.kinds.push_back(random.below(3) == 0 ? 1 : 0); }
    if (grouped) { step.groups.push_back(static_cast<int>(random.below(4))); }
    if (at_home) {
      step.home.push_back(ballast::to_id<ballast::rank_id>(random.below(step.ranks)));
    }
  }
  return step;
}

}  // namespace ballast_test
