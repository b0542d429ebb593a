// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/placement/plan_limited.hpp>
#include <ballast/partition/grid/detail/greedy_grid.hpp>

namespace ballast::inline v0::detail {

/// What has to be known of the samples of a kind to give it slots.
struct grid_kind {
  std::int64_t key = 0;
  std::size_t fewest = 0;     ///< slots that no plan has fewer of
  std::size_t by_cap = 0;     ///< the same without counts and samples that are apart
  std::size_t by_apart = 0;   ///< the same without counts
  std::size_t by_sample = 0;  ///< the same with counts, as one sample of the kind asks for
  sample_id sample{};         ///< that one
  std::size_t items = 0;
  std::size_t samples = 0;  ///< that are counted
  std::int64_t weight = 0;
  std::size_t slots = 0;
};

/// A step as items of kinds, before there are slots.
struct grid_step {
  grid_problem problem;  ///< without slots
  planned_items items;
  std::span<std::uint32_t const> item_of;
  std::span<grid_kind> kinds;
  std::size_t by_cap = 0;  ///< slots that no plan has fewer of, without kinds and counts
  bool is_plain = false;   ///< within what the greedy grid knows: one cap, and bags of one speed
  bool is_alike = false;   ///< bags can be exchanged
  bool falls = false;      ///< slots may stay empty on all ranks, where that is shorter
  bool joins = false;      ///< two slots in one are a plan: then one is enough, and no longer

  [[nodiscard]] std::size_t fewest(
      std::size_t grid_kind::* of_kind = &grid_kind::fewest) const noexcept
  {
    std::size_t sum = 0;
    for (grid_kind const& kind : kinds) { sum += kind.*of_kind; }
    return sum;
  }

  [[nodiscard]] grid_plan::decision decide(std::size_t slots, microbatches const& given) const
  {
    using reason = grid_plan::decision::reason;
    std::size_t const least = fewest();
    std::size_t const multiple = given.multiple_of;
    if (given.number) { return {reason::given, {}, least}; }
    if (slots == 1) { return {reason::nothing, {}, 1}; }
    if (slots > (least + multiple - 1) / multiple * multiple) {
      return {reason::search, {}, least};
    }
    if (slots > least) { return {reason::multiple, {}, least}; }
    if (least == by_cap) { return {reason::cap, {}, 1}; }
    std::size_t const without_counts = fewest(&grid_kind::by_apart);
    if (least == without_counts) {
      std::size_t const without = fewest(&grid_kind::by_cap);
      if (least > without) { return {reason::apart, {}, without}; }
      return {reason::kinds, {}, by_cap};
    }
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

[[nodiscard]] BALLAST_ONCE result<void> check_microbatches(microbatches const& given,
                                                           std::size_t samples,
                                                           bag_layout const& bags,
                                                           placement_limits const& limits)
{
  constexpr auto limit = std::size_t{1} << 32;
  auto const refuse = [](auto const&... pieces) {
    return fail(error_code::out_of_range, 0, pieces...);
  };
  std::size_t const ranks = bags.size();
  std::size_t const slots = given.number.value_or(1);
  if (slots == 0) {
    return refuse("microbatches.number is 0; give at least 1, or none to find the least");
  }
  if (given.multiple_of == 0) {
    return refuse("microbatches.multiple_of is 0, and only 0 is a multiple of it; give 1 or more");
  }
  if (given.number && slots % given.multiple_of != 0) {
    return refuse("microbatches.number is ", slots, " and microbatches.multiple_of ",
                  given.multiple_of, "; give a multiple, or no number");
  }
  if (slots >= limit / ranks || given.multiple_of >= limit / ranks) {
    return refuse("a grid of ", counted(ranks, "bag"), " and ",
                  counted(std::max(slots, given.multiple_of), "slot"),
                  " has more than 2^32 - 1 cells; use fewer");
  }
  if (given.kinds.size() != 0 && given.kinds.size() != samples) {
    return fail(error_code::out_of_range, std::min(given.kinds.size(), samples),
                "microbatches.kinds has ", counted(given.kinds.size(), "entry"), " for ",
                counted(samples, "sample"), "; give one for each sample, or none");
  }
  using then = second_objective::kind;
  bool const meets = given.meet == grid_meeting::microbatch;
  if (meets && (limits.then.what() == then::level || limits.then.what() == then::least)) {
    return refuse("bags that meet in every microbatch end together, so that limits.then = ",
                  limits.then.what() == then::level ? "most_level" : "least(...)",
                  " says nothing; let them meet once a step, or leave it out");
  }
  std::size_t const cells = ranks * std::max(slots, given.multiple_of);
  if (limits.samples.kind == counts::rule::filled && samples < cells) {
    return fail(error_code::infeasible, 0, "limits.samples asks for a sample in each of ",
                counted(cells, "cell"), ", and a step has ", counted(samples, "sample"),
                "; give fewer bags or microbatches, or leave it out");
  }
  return {};
}

/// Joins samples to items, sorts them, and counts their kinds.
///
/// Shapes      costs[n]; weights[n], what the first cap counts or lengths.
/// Errors      infeasible: an item is heavier than every cap, has more samples than a cell may have,
///             or samples that stay together are of two kinds, or those of a kind are no multiple.
[[nodiscard]] inline result<grid_step> read_grid(std::span<cost_units const> costs,
                                                 std::span<std::int64_t const> weights,
                                                 sample_lengths const& lengths,
                                                 bag_layout const& bags, microbatches const& given,
                                                 placement_limits const& limits,
                                                 workspace::frame& scratch, workspace& memory)
{
  using rule = ballast::counts::rule;
  std::size_t const count = costs.size();
  std::size_t const ranks = bags.size();
  all_caps const caps(limits);
  auto const item_of = scratch.take<std::uint32_t>(count);
  planned_items items{costs, lengths.fitting, weights};
  if (limits.together.empty()) {
    std::iota(item_of.begin(), item_of.end(), 0U);
  } else {
    items = join_samples(limits.together, items, item_of, scratch);
    auto const joined = scratch.take<cost_units>(items.lengths.size());
    std::fill(joined.begin(), joined.end(), 0);
    for (std::size_t sample = 0; sample < count; ++sample) {
      joined[item_of[sample]] += costs[sample];
    }
    items.costs = joined;
  }
  std::size_t const size = items.costs.size();
  auto const members = scratch.take<std::uint32_t>(size);
  std::fill(members.begin(), members.end(), 0U);
  for (std::uint32_t const item : item_of) { ++members[item]; }
  auto const stands_for = [&](std::size_t item) {
    std::size_t const sample = items.sample_of(item);
    return members[item] > 1
               ? concat("the ", members[item], " samples that stay together with sample ", sample)
               : concat("sample ", sample);
  };
  std::int64_t const number = limits.samples.number;
  for (std::size_t item = 0; item < size && limits.samples.kind == rule::at_most; ++item) {
    if (members[item] <= number) { continue; }
    return fail(error_code::infeasible, items.sample_of(item), stands_for(item),
                " are more than the ", number, " that a cell may hold; split the group");
  }

  auto const sample_keys = scratch.take<std::int64_t>(count);
  std::fill(sample_keys.begin(), sample_keys.end(), 0);
  given.kinds.read_into(sample_keys);
  auto const keys = scratch.take<std::int64_t>(std::max<std::size_t>(count, 1));
  keys[0] = 0;
  std::copy(sample_keys.begin(), sample_keys.end(), keys.begin());
  std::sort(keys.begin(), keys.end());
  auto const end_of_keys = std::unique(keys.begin(), keys.end());
  auto const kinds = scratch.take<grid_kind>(static_cast<std::size_t>(end_of_keys - keys.begin()));
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    kinds[kind] = {.key = keys[kind], .fewest = 1, .by_cap = 1};
  }
  auto const kind_of = scratch.take<std::uint32_t>(size);
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
    kinds[kind].weight += weights[sample];
  }
  // Samples that stay together count as one, but against a most and in multiples.
  bool const counts_samples =
      limits.samples.kind == rule::at_most || limits.samples.kind == rule::multiple_of;
  auto const counts = scratch.take<std::uint32_t>(size);
  for (std::size_t item = 0; item < size; ++item) {
    counts[item] = counts_samples ? members[item] : 1;
    ++kinds[kind_of[item]].items;
    kinds[kind_of[item]].samples += counts[item];
  }

  auto const rooms = scratch.take<std::int64_t>(ranks);
  auto const takes = scratch.take<std::int64_t>(size);
  auto const own_takes = scratch.take<std::int64_t>(size);
  auto const most_weights = scratch.take<std::int64_t>(ranks);
  std::int64_t const total = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::fill(most_weights.begin(), most_weights.end(), total);
  auto const is_first = [](auto const& values) {
    return std::all_of(values.begin(), values.end(),
                       [&](auto value) { return value == values.front(); });
  };
  bool is_alike = is_first(bags.sizes());
  std::size_t by_all_caps = 1;  // without kinds
  bool const is_one_cap = caps.size() == 1 && !caps[0].is_soft;
  bool const is_equal = limits.samples.kind == rule::equal && number == 1;
  for (std::size_t at = 0; at < caps.size(); ++at) {
    std::fill(takes.begin(), takes.end(), 0);
    std::int64_t all = 0;
    for (std::size_t sample = 0; sample < count; ++sample) {
      std::int64_t const taken = taken_of(caps[at], sample, lengths.own);
      takes[item_of[sample]] += taken;
      all += taken;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {  // no cell holds more than all
      rooms[rank] = std::min(room_of_bag(bags, rank, caps[at]), all);
    }
    is_alike = is_alike && is_first(rooms);
    std::int64_t const most = *std::max_element(rooms.begin(), rooms.end());
    for (std::size_t item = 0; item < size; ++item) {
      if (takes[item] <= most) { continue; }
      if (caps[at].is_soft) {  // it fills a cell
        takes[item] = most;
        continue;
      }
      return fail(
          error_code::infeasible, items.sample_of(item), stands_for(item),
          members[item] > 1 ? " weigh " : " of weight ", takes[item],
          members[item] > 1 ? ", above the cap of a cell, " : " is above the cap of a cell, ", most,
          members[item] > 1 ? "; split the group or raise the cap"
                            : "; split it, leave it out or raise the cap");
    }
    if (at == 0 && !caps[0].is_soft) {
      std::copy(rooms.begin(), rooms.end(), most_weights.begin());
    }
    if (kinds.size() > 1) {
      by_all_caps = std::max(by_all_caps, fewest_slots(takes, rooms, memory));
    }
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      grid_kind& own = kinds[kind];
      std::size_t found = 0;
      for (std::size_t item = 0; item < size; ++item) {
        if (kind_of[item] != kind) { continue; }
        bool const is_heaviest = found == 0 || takes[item] > takes[item_of[to_index(own.sample)]];
        if (is_heaviest) { own.sample = to_id<sample_id>(items.sample_of(item)); }
        own_takes[found++] = takes[item];
      }
      own.by_cap = std::max(own.by_cap, fewest_slots(own_takes.first(found), rooms, memory));
      own.fewest = own.by_sample = own.by_cap;
      if (is_equal && limits.together.empty() && is_one_cap && found > 0) {
        std::sort(own_takes.begin(), own_takes.begin() + static_cast<std::ptrdiff_t>(found));
        auto const [by_all, by_one] = most_in_all_cells(own_takes.first(found), most, memory);
        own.fewest = std::max(own.fewest, found / (ranks * (by_all + 1)) + 1);
        own.by_sample = std::max(own.by_sample, found / (ranks * (by_one + 1)) + 1);
      }
    }
  }
  auto const apart = scratch.take<std::int64_t>(limits.apart.size());
  for (grid_kind& own : kinds) {
    std::size_t found = 0;
    auto const all = scratch.take<std::int64_t>(limits.apart.size());
    limits.apart.read_into(all);
    for (std::size_t sample = 0; sample < apart.size(); ++sample) {
      if (keys[kind_of[item_of[sample]]] == own.key) { apart[found++] = all[sample]; }
    }
    std::sort(apart.begin(), apart.begin() + static_cast<std::ptrdiff_t>(found));
    own.by_apart = own.by_cap;
    for (std::size_t from = 0, to = 0; from < found; from = to) {
      while (to < found && apart[to] == apart[from]) { ++to; }
      own.by_apart = std::max(own.by_apart, (to - from + ranks - 1) / ranks);
    }
    own.fewest = std::max(own.fewest, own.by_apart);
    if (limits.samples.kind == rule::at_most) {
      uint128 const room = uint128{ranks} * static_cast<std::uint64_t>(number);
      own.fewest = std::max(own.fewest, static_cast<std::size_t>((own.samples + room - 1) / room));
    }
    auto const left_over = own.samples % static_cast<std::size_t>(number);
    if (limits.samples.kind == rule::multiple_of && left_over != 0) {
      return fail(error_code::infeasible, 0,
                  kinds.size() > 1 ? concat("kind ", own.key, " has ") : "a step has ",
                  counted(own.samples, "sample"), ", no multiple of ", number,
                  ", as limits.samples asks of every cell; leave out ", left_over);
    }
  }

  auto const order = scratch.take<priced_sample>(size);
  descending_order_into(order, items.costs, memory);
  grid_step step{{items.costs, items.weights, counts, kind_of, order, most_weights, {}, given.meet},
                 items,
                 item_of,
                 kinds};
  step.by_cap = step.fewest(&grid_kind::by_cap);
  if (kinds.size() > 1) { step.by_cap = std::min(by_all_caps, step.by_cap); }
  bool const one_speed = is_first(bags.speeds());
  std::uint32_t const largest = *std::max_element(bags.sizes().begin(), bags.sizes().end());
  bool const fits_all = is_first(bags.sizes()) ||
                        std::all_of(items.lengths.begin(), items.lengths.end(), [&](tokens length) {
                          return partition_problem::splits(length, largest);
                        });
  using then = second_objective::kind;
  bool const is_free =
      limits.fits.empty() && limits.mixes.empty() && limits.starting_loads.empty() && one_speed;
  step.is_alike = is_free && is_alike;
  bool const is_any = limits.samples.kind == rule::any || limits.samples.kind == rule::multiple_of;
  bool const meets = given.meet == grid_meeting::microbatch && kinds.size() == 1;
  step.joins = meets && is_any && caps.size() == 0 && limits.apart.empty() && limits.mixes.empty();
  bool is_soft = false;
  for (std::size_t at = 0; at < caps.size(); ++at) { is_soft = is_soft || caps[at].is_soft; }
  step.falls = step.joins || (meets && !is_soft && limits.then.what() == then::none &&
                              (is_any || limits.samples.kind == rule::at_most));
  step.is_plain = is_free && fits_all && (caps.size() == 0 || is_one_cap) && limits.apart.empty() &&
                  (limits.samples.kind != rule::equal || number == 1) &&
                  limits.then.what() != then::level && limits.then.what() != then::least;
  return step;
}

/// Of the samples of one kind, a sum over slots of their largest cells that no plan gets below.
///
/// Shapes      items: of the kind, heaviest first.
[[nodiscard]] inline cost_units slots_bound(grid_problem const& problem,
                                            std::span<std::uint32_t const> items, workspace& memory)
{
  if (items.empty()) { return 0; }
  auto const cost_of = [&problem](std::uint32_t item) { return problem.costs[item]; };
  auto const weight_of = [&problem](std::uint32_t item) {
    return static_cast<std::uint64_t>(problem.weights[item]);
  };
  auto const ranks = static_cast<cost_units>(problem.ranks());
  auto const share = [ranks](cost_units work) {
    return work / ranks + (work % ranks != 0 ? 1 : 0);
  };
  cost_units total = 0;
  for (std::uint32_t const item : items) { total += cost_of(item); }
  cost_units bound = std::max(cost_of(items.front()), share(total));

  std::int64_t most = 0;
  uint128 room = 0;  // of one slot
  for (std::int64_t const each : problem.most_weights) {
    most = std::max(most, each);
    room += static_cast<std::uint64_t>(each);
  }
  auto scratch = memory.open();
  std::span<std::uint32_t> const densest = scratch.take<std::uint32_t>(items.size());
  std::copy(items.begin(), items.end(), densest.begin());
  auto const denser = [&](std::uint32_t a, std::uint32_t b) {
    uint128 const left = uint128{static_cast<std::uint64_t>(cost_of(a))} * weight_of(b);
    uint128 const right = uint128{static_cast<std::uint64_t>(cost_of(b))} * weight_of(a);
    // Without weight, density is infinite.
    bool const weightless = (weight_of(a) == 0) != (weight_of(b) == 0);
    if (weightless) { return weight_of(a) == 0; }
    return left != right ? left > right : a < b;
  };
  auto const not_sparser = [&](std::uint32_t a, std::uint32_t b) {
    return uint128{static_cast<std::uint64_t>(cost_of(a))} * weight_of(b) >=
           uint128{static_cast<std::uint64_t>(cost_of(b))} * weight_of(a);
  };
  bool sorted = true;  // as it is where longer samples cost more for each token
  for (std::size_t place = 1; place < densest.size() && sorted; ++place) {
    sorted = weight_of(densest[place]) > 0 && not_sparser(densest[place - 1], densest[place]);
  }
  if (!sorted) { std::sort(densest.begin(), densest.end(), denser); }

  cost_units alone = 0;    // of samples that share no cell, the longest of each slot
  std::size_t heavy = 0;   // such samples so far
  std::size_t filled = 0;  // of `densest`, into the slots so far
  cost_units work = 0;
  uint128 weight = 0;
  uint128 slots_room = 0;
  for (std::uint32_t const item : items) {
    if (2 * uint128{weight_of(item)} <= static_cast<std::uint64_t>(most)) { continue; }
    if (heavy++ % problem.ranks() != 0) { continue; }
    alone += cost_of(item);
    slots_room += room;
    while (filled < densest.size() && weight + weight_of(densest[filled]) <= slots_room) {
      work += cost_of(densest[filled]);
      weight += weight_of(densest[filled++]);
    }
    cost_units part = 0;  // of the sample that the knapsack cuts, rounded up
    if (filled < densest.size()) {
      std::uint64_t const whole = weight_of(densest[filled]);
      part = static_cast<cost_units>(
          (uint128{static_cast<std::uint64_t>(cost_of(densest[filled]))} * (slots_room - weight) +
           whole - 1) /
          whole);
    }
    bound = std::max(bound, alone + share(std::max<cost_units>(total - work - part, 0)));
  }
  return bound;
}

/// The same where a cell holds at most so many items: the i-th of the slots, by their longest items,
/// has one no shorter than the ((i - 1) R most + 1)-th of all, and j slots hold at most j R most items.
[[nodiscard]] inline cost_units counted_slots_bound(grid_problem const& problem,
                                                    std::span<std::uint32_t const> items,
                                                    std::size_t most)
{
  if (most >= items.size() || most == 0) { return 0; }
  auto const ranks = static_cast<cost_units>(problem.ranks());
  cost_units rest = 0;
  for (std::uint32_t const item : items) { rest += problem.costs[item]; }
  cost_units bound = 0;
  cost_units longest = 0;
  for (std::size_t first = 0; first < items.size(); first += problem.ranks() * most) {
    longest += problem.costs[items[first]];
    for (std::uint32_t const item :
         items.subspan(first, std::min(problem.ranks() * most, items.size() - first))) {
      rest -= problem.costs[item];
    }
    bound = std::max(bound, longest + rest / ranks + (rest % ranks != 0 ? 1 : 0));
  }
  return bound;
}

/// With a sample in every cell, i slots hold at least i R samples, so that the longest of them is
/// at least the i R-th from the end.
[[nodiscard]] inline cost_units full_cells_bound(grid_problem const& problem)
{
  std::size_t const count = problem.heaviest_first.size();
  cost_units bound = count == 0 ? 0 : problem.heaviest_first.front().cost;
  for (std::size_t slots = 1; slots < problem.slots.size(); ++slots) {
    if (slots * problem.ranks() > count) { break; }
    bound += problem.heaviest_first[count - slots * problem.ranks()].cost;
  }
  return bound;
}

/// A makespan that no plan of a grid with these slots gets below.
///
/// That of a plan without slots, `makespan_lower_bound`: all slots in one take no longer. Where bags meet
/// in every microbatch also the sum over kinds of the largest of their longest sample, the mean, and, on
/// bags of one speed, for any j, with cap W, c the costs, descending, of the samples heavier than W/2,
/// and F(t) the most work in t tokens (the fractional knapsack):
/// sum over i <= j of c[(i - 1) R + 1] + (total work - F(j R W)) / R.
/// No two such samples share a cell, so the j slots with the largest cells last at least the sum of
/// the c and hold at most F(j R W), and the others at least the mean of the rest. Where caps
/// differ, W is the largest, and j R W their sum times j. With a sample in every cell also c[1] +
/// sum over i = 2..K of c[n - (K - i + 1) R + 1], with c the costs of all.
///
/// Complexity  that of makespan_lower_bound, and O(n log n) where costs per weight are not in the order of
///             costs.
[[nodiscard]] inline ratio grid_lower_bound(grid_step const& step, grid_problem const& problem,
                                            bag_layout const& bags,
                                            std::span<cost_units const> starts, workspace& memory)
{
  std::size_t const count = problem.costs.size();
  partition_problem const ranks{problem.costs, step.items.lengths, problem.heaviest_first,
                                bags.sizes(), bags.speeds()};
  std::int64_t least = 0;  // items of a bag
  std::int64_t most = 0;
  for (grid_slot const& slot : problem.slots) {
    least += slot.least;
    most += slot.most;
  }
  ratio once = std::max(makespan_lower_bound(ranks, memory, starts), bound_by_counts(ranks, most));
  if (least > 0) {
    once = std::max(once, equal_count_bound(ranks, {.least = least, .most = least}, memory));
  }
  if (problem.meet == grid_meeting::step) { return once; }
  auto scratch = memory.open();
  std::span<std::uint32_t> const items = scratch.take<std::uint32_t>(count);
  std::int64_t const common = common_speed(bags.speeds());
  bool const one_speed = common == bags.speeds()[0] &&
                         std::all_of(bags.speeds().begin(), bags.speeds().end(),
                                     [&](std::uint32_t speed) { return speed == common; });
  uint128 speeds = 0;
  for (std::uint32_t const speed : bags.speeds()) { speeds += speed; }
  std::uint32_t const fastest = *std::max_element(bags.speeds().begin(), bags.speeds().end());
  auto const mean = [&](cost_units work) {
    return static_cast<cost_units>(
        (uint128{static_cast<std::uint64_t>(work)} * static_cast<std::uint64_t>(common) + speeds -
         1) /
        speeds);
  };
  cost_units bound = 0;
  for (std::uint32_t kind = 0; kind < step.kinds.size(); ++kind) {
    std::size_t found = 0;
    cost_units work = 0;
    for (priced_sample const each : problem.heaviest_first) {
      auto const item = static_cast<std::uint32_t>(to_index(each.sample));
      if (problem.kinds[item] != kind) { continue; }
      items[found++] = item;
      work += each.cost;
    }
    if (found == 0) { continue; }
    auto const slot = std::find_if(problem.slots.begin(), problem.slots.end(),
                                   [&](grid_slot const& each) { return each.kind == kind; });
    bound += one_speed ? std::max(slots_bound(problem, items.first(found), memory),
                                  counted_slots_bound(problem, items.first(found), slot->most))
                       : std::max(problem.costs[items[0]] * (common / fastest), mean(work));
  }
  bool const all_full = std::all_of(problem.slots.begin(), problem.slots.end(),
                                    [](grid_slot const& slot) { return slot.least >= 1; });
  if (all_full && one_speed) { bound = std::max(bound, full_cells_bound(problem)); }
  return std::max(once, ratio{bound, common});
}

}  // namespace ballast::inline v0::detail
