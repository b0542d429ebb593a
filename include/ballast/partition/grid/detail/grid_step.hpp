// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/joint_samples.hpp>
#include <ballast/partition/grid/grid_plan.hpp>

namespace ballast::inline v0::detail {

/// What has to be known of the samples of a kind to give it slots.
struct grid_kind {
  std::int64_t key = 0;
  std::size_t fewest = 0;     ///< slots that no plan has fewer of
  std::size_t by_cap = 0;     ///< the same without counts
  std::size_t by_sample = 0;  ///< the same with counts, as one sample of the kind asks for
  sample_id sample{};         ///< that one
  std::size_t items = 0;
  std::size_t samples = 0;
  std::int64_t weight = 0;
  std::size_t slots = 0;
};

/// A step as items of kinds, before there are slots.
struct grid_step {
  grid_problem problem;  ///< without slots
  std::span<std::uint32_t const> item_of;
  std::span<grid_kind> kinds;
  std::size_t by_cap = 0;  ///< slots that no plan has fewer of, without kinds and counts

  [[nodiscard]] std::size_t fewest(
      std::size_t grid_kind::* of_kind = &grid_kind::fewest) const noexcept
  {
    std::size_t sum = 0;
    for (grid_kind const& kind : kinds) { sum += kind.*of_kind; }
    return sum;
  }

  /// What asks for this number of slots.
  [[nodiscard]] grid_plan::decision decide(std::size_t slots, grid_options const& options) const
  {
    using reason = grid_plan::decision::reason;
    std::size_t const least = fewest();
    std::size_t const multiple = options.multiple_of;
    if (options.microbatches) { return {reason::given, {}, least}; }
    if (slots == 1) { return {reason::nothing, {}, 1}; }
    if (slots > (least + multiple - 1) / multiple * multiple) {
      return {reason::search, {}, least};
    }
    if (slots > least) { return {reason::multiple, {}, least}; }
    if (least == by_cap) { return {reason::cap, {}, 1}; }
    std::size_t const without_counts = fewest(&grid_kind::by_cap);
    if (least == without_counts) { return {reason::kinds, {}, by_cap}; }
    if (least > fewest(&grid_kind::by_sample)) { return {reason::counts, {}, without_counts}; }
    auto const by_most = [](grid_kind const& a, grid_kind const& b) {
      return a.by_sample - a.by_cap < b.by_sample - b.by_cap;
    };
    return {reason::sample, std::max_element(kinds.begin(), kinds.end(), by_most)->sample,
            without_counts};
  }
};

/// How many samples each cell can have at least, by all samples and by the heaviest alone.
struct least_counts {
  std::size_t by_all;
  std::size_t by_one;
};

/// The h heaviest samples, no two of which fit one cell, lie in h cells, which have no less weight
/// than they and the lightest others that bring these cells to their counts: for every such h.
///
/// Shapes      weights: in ascending order, one or more.
/// Complexity  O(n)
[[nodiscard]] inline least_counts most_in_all_cells(std::span<std::int64_t const> weights,
                                                    std::int64_t most, workspace& memory)
{
  std::size_t const count = weights.size();
  auto scratch = memory.open();
  auto const lightest = scratch.take<std::int64_t>(count + 1);  // sums of so many
  lightest[0] = 0;
  std::partial_sum(weights.begin(), weights.end(), lightest.begin() + 1);
  least_counts found{count, count};
  std::int64_t heaviest = 0;
  for (std::size_t heavy = 1; heavy <= count; ++heavy) {
    std::int64_t const weight = weights[count - heavy];
    if (heavy > 1 && weight <= most - weights[count - heavy + 1]) { break; }
    heaviest += weight;
    uint128 const room = static_cast<uint128>(static_cast<std::uint64_t>(most)) * heavy;
    auto const exceeds = [&](std::size_t each) {
      std::size_t const others = std::min(heavy * (each - 1), count - heavy);
      return static_cast<std::uint64_t>(heaviest + lightest[others]) > room;
    };
    while (found.by_all > 1 && exceeds(found.by_all)) { --found.by_all; }
    if (heavy == 1) { found.by_one = found.by_all; }
  }
  return found;
}

/// Slots that no plan of items of these weights has fewer of.
[[nodiscard]] inline std::size_t fewest_slots(std::span<std::int64_t const> weights,
                                              std::span<std::int64_t const> most_weights,
                                              workspace& memory)
{
  std::int64_t const most = *std::max_element(most_weights.begin(), most_weights.end());
  auto scratch = memory.open();
  auto const order = scratch.take<priced_sample>(weights.size());
  descending_order_into(order, weights, memory);
  std::size_t const bins = least_bins(order, most);
  uint128 total = 0;
  uint128 room = 0;
  for (std::int64_t const each : weights) { total += static_cast<std::uint64_t>(each); }
  for (std::int64_t const each : most_weights) { room += static_cast<std::uint64_t>(each); }
  std::size_t const by_room = room == 0 ? 0 : static_cast<std::size_t>((total + room - 1) / room);
  return std::max(by_room, (bins + most_weights.size() - 1) / most_weights.size());
}

/// Joins samples to items, sorts them, and counts their kinds.
///
/// Shapes      costs[n], weights[n]
/// Errors      infeasible: an item is heavier than every cap, has more samples than a cell may have,
///             or samples that stay together are of two kinds.
[[nodiscard]] inline result<grid_step> read_grid(std::span<cost_units const> costs,
                                                 std::span<std::int64_t const> weights,
                                                 std::size_t ranks, grid_options const& options,
                                                 workspace::frame& scratch, workspace& memory)
{
  std::size_t const count = costs.size();
  std::int64_t const total = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  auto const most_weights = scratch.take<std::int64_t>(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {  // no cell holds more than all
    most_weights[rank] = std::min(
        options.most_weights.empty() ? options.most_weight : options.most_weights[rank], total);
  }
  std::int64_t const most = *std::max_element(most_weights.begin(), most_weights.end());

  auto const item_of = scratch.take<std::uint32_t>(count);
  planned_items items{costs, weights, weights};
  if (options.together.empty()) {
    std::iota(item_of.begin(), item_of.end(), 0U);
  } else {
    items = join_samples(options.together, items, item_of, scratch);
  }
  auto const counts = scratch.take<std::uint32_t>(items.costs.size());
  std::fill(counts.begin(), counts.end(), 0U);
  for (std::uint32_t const item : item_of) { ++counts[item]; }
  bool const limited = options.counts.kind == cell_counts::rule::at_most;
  for (std::size_t item = 0; item < items.costs.size(); ++item) {
    std::size_t const sample = items.sample_of(item);
    if (items.weights[item] > most) {
      if (counts[item] > 1) {
        return fail(error_code::infeasible, sample, "the ", counts[item],
                    " samples that stay together with sample ", sample, " weigh ",
                    items.weights[item], ", above the cap of a cell, ", most,
                    "; split the group or raise the cap");
      }
      return fail(error_code::infeasible, sample, "sample ", sample, " of weight ",
                  items.weights[item], " is above the cap of a cell, ", most,
                  "; split it, leave it out or raise the cap");
    }
    if (limited && counts[item] > options.counts.number) {
      return fail(error_code::infeasible, sample, "the ", counts[item],
                  " samples that stay together with sample ", sample, " are more than the ",
                  options.counts.number, " that a cell may hold; split the group");
    }
  }

  auto const sample_keys = scratch.take<std::int64_t>(count);
  std::fill(sample_keys.begin(), sample_keys.end(), 0);
  options.kinds.read_into(sample_keys);
  auto const keys = scratch.take<std::int64_t>(std::max<std::size_t>(count, 1));
  keys[0] = 0;
  std::copy(sample_keys.begin(), sample_keys.end(), keys.begin());
  std::sort(keys.begin(), keys.end());
  auto const end_of_keys = std::unique(keys.begin(), keys.end());
  auto const kinds = scratch.take<grid_kind>(static_cast<std::size_t>(end_of_keys - keys.begin()));
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) { kinds[kind] = {.key = keys[kind]}; }
  auto const kind_of = scratch.take<std::uint32_t>(items.costs.size());
  std::fill(kind_of.begin(), kind_of.end(), std::numeric_limits<std::uint32_t>::max());
  for (std::size_t sample = 0; sample < count; ++sample) {
    auto const kind = static_cast<std::uint32_t>(
        std::lower_bound(keys.begin(), end_of_keys, sample_keys[sample]) - keys.begin());
    std::uint32_t& own = kind_of[item_of[sample]];
    if (own != kind && own != std::numeric_limits<std::uint32_t>::max()) {
      return fail(error_code::infeasible, sample, "sample ", sample, " of kind ",
                  sample_keys[sample], " has to stay together with one of kind ", keys[own],
                  ", and a cell holds one kind; split the group");
    }
    own = kind;
    ++kinds[kind].samples;
    kinds[kind].weight += weights[sample];
  }
  for (std::uint32_t const kind : kind_of) { ++kinds[kind].items; }
  auto const own_weights = scratch.take<std::int64_t>(items.costs.size());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    grid_kind& own = kinds[kind];
    std::size_t found = 0;
    for (std::size_t item = 0; item < items.costs.size(); ++item) {
      if (kind_of[item] != kind) { continue; }
      std::size_t const sample = items.sample_of(item);
      bool const is_heaviest = found == 0 || items.weights[item] > weights[to_index(own.sample)];
      if (is_heaviest) { own.sample = to_id<sample_id>(sample); }
      own_weights[found++] = items.weights[item];
    }
    own.fewest =
        std::max<std::size_t>(fewest_slots(own_weights.first(found), most_weights, memory), 1);
    own.by_cap = own.fewest;
    own.by_sample = own.fewest;
    if (limited) {
      std::size_t const room = ranks * options.counts.number;
      own.fewest = std::max(own.fewest, (own.samples + room - 1) / room);
    }
    if (options.counts.kind == cell_counts::rule::equal && options.together.empty() && found > 0) {
      std::sort(own_weights.begin(), own_weights.begin() + static_cast<std::ptrdiff_t>(found));
      auto const [by_all, by_one] = most_in_all_cells(own_weights.first(found), most, memory);
      own.fewest = std::max(own.fewest, found / (ranks * (by_all + 1)) + 1);
      own.by_sample = std::max(own.by_sample, found / (ranks * (by_one + 1)) + 1);
    }
    if (options.counts.kind == cell_counts::rule::multiple_of &&
        own.samples % options.counts.number != 0) {
      return fail(error_code::infeasible, 0, "kind ", own.key, " has ",
                  counted(own.samples, "sample"), ", no multiple of ", options.counts.number,
                  ", as options.counts asks of every cell; leave out ",
                  own.samples % options.counts.number);
    }
  }
  auto const order = scratch.take<priced_sample>(items.costs.size());
  descending_order_into(order, items.costs, memory);
  grid_step step{
      {items.costs, items.weights, counts, kind_of, order, most_weights, {}, options.meet},
      item_of,
      kinds};
  step.by_cap = step.fewest(&grid_kind::by_cap);
  if (kinds.size() > 1) {
    std::size_t const without_kinds = fewest_slots(items.weights, most_weights, memory);
    step.by_cap = std::clamp<std::size_t>(without_kinds, 1, step.by_cap);
  }
  return step;
}

}  // namespace ballast::inline v0::detail
