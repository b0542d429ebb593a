// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/sharding/detail/slot_search.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/slots_plan.hpp>

#include <bit>

namespace ballast::inline v0 {

namespace detail {

/// Sizes of groups that the rules admit, ascending, in an array of the frame's. Without a list those
/// above 64 are left out that have more than six binary digits.
[[nodiscard]] inline std::span<std::uint32_t> slot_sizes(slot_groups const& rules,
                                                         std::uint32_t most,
                                                         workspace::frame& scratch)
{
  auto const sizes = scratch.take<std::uint32_t>(rules.sizes.empty() ? 1024 : rules.sizes.size());
  auto end = std::copy(rules.sizes.begin(), rules.sizes.end(), sizes.begin());
  for (std::uint32_t size = 1; rules.sizes.empty() && size <= most;) {
    *end++ = size;
    size += size < 64 ? 1U : std::uint32_t{1} << (std::bit_width(size) - 6);
  }
  end = std::remove_if(sizes.begin(), end, [&](std::uint32_t size) {
    return size > most || (rules.powers_of_two && !std::has_single_bit(size));
  });
  std::sort(sizes.begin(), end);
  end = std::unique(sizes.begin(), end);
  return sizes.first(static_cast<std::size_t>(end - sizes.begin()));
}

/// The kinds of groups, by size, that have a place: of each that is larger than a node the shape
/// whose exchanges are shortest, among those that begin with a node.
inline void find_slot_kinds(slot_problem& problem, std::span<std::uint32_t const> sizes,
                            sharding_cost const& cost, workspace::frame& scratch)
{
  node_sizes const& nodes = problem.nodes;
  std::span<slot_kind> const kinds = scratch.take<slot_kind>(sizes.size());
  std::size_t count = 0;
  for (std::uint32_t const gpus : sizes) {
    tokens const rows = longest_sample / gpus;  // a group's fit the 32 bits of cu_seqlens
    tokens const cap = std::min(problem.rules.most_per_gpu, rows);
    bool has_place = false;
    for (std::size_t node = 0; node < (nodes.all_equal() ? 1 : nodes.size()); ++node) {
      std::size_t const first = to_index(nodes.first(to_id<node_id>(node)));
      std::size_t const place = problem.rules.aligned ? (first + gpus - 1) / gpus * gpus : first;
      bool const is_within = place + gpus <= first + nodes[to_id<node_id>(node)];
      bool const begins = gpus > nodes.largest() && place == first;
      if (place + gpus > problem.ranks || !(is_within || begins)) { continue; }
      group_shape const shape = shape_of({to_id<rank_id>(place), gpus}, nodes);
      degree_cost const priced = cost.at(shape);
      if (!has_place || priced(longest_sample) < kinds[count].cost(longest_sample)) {
        kinds[count] = {shape, priced, cap};
      }
      has_place = true;
    }
    count += has_place ? 1 : 0;
  }
  problem.kinds = kinds.first(count);
}

/// The sizes that a sample may be given: each longer group has to be a fifth shorter in time, and
/// none has both more time and more GPU time than another.
///
/// Expects     longer samples have theirs.
inline void choose_slot_kinds(slot_problem& problem, std::size_t sample)
{
  constexpr std::size_t most = slot_problem::most_choices;
  struct choice {
    cost_units time;
    cost_units area;
  };
  std::span<std::uint16_t> const kinds = problem.choices.subspan(sample * most, most);
  std::array<choice, most> known{};
  std::size_t count = 0;
  cost_units least_time = no_cost;
  cost_units least_area = no_cost;
  auto const price = [&](std::size_t kind) {
    cost_units const time = problem.time(sample, kind);
    choice const each{time, problem.area(time, kind)};
    least_time = std::min(least_time, saturating_sum(time, problem.kinds[kind].cost.latency));
    least_area = std::min(least_area, each.area);
    return each;
  };
  std::uint32_t widest = 0;
  for (std::uint32_t kind = 0; kind < problem.kinds.size(); ++kind) {
    if (problem.is_too_short(sample, kind)) { break; }
    widest = kind;
    if (problem.lengths[sample] > problem.kinds[kind].cap * problem.gpus(kind)) { continue; }
    choice const each = price(kind);
    // Less than 1 / 512 is rounding, and not worth the ranks.
    while (count > 0 && each.area < known[count - 1].area - known[count - 1].area / 512 &&
           each.time <= known[count - 1].time) {
      --count;
    }
    if (count == 0 || each.time / 4 <= known[count - 1].time / 5) {
      count = std::min(count, most - 1);
      known[count] = each;
      kinds[count++] = static_cast<std::uint16_t>(kind);
    }
    // One GPU takes the least GPU time but for rounding, and no slot is much shorter than the time
    // that a longer sample takes on any group; looking on is a third of a large step's time.
    if (problem.samples() >= 2048 && problem.gpus(kinds[0]) == 1 &&
        each.time <= problem.longest / 2 && least_time <= problem.longest) {
      cost_units const rounding = problem.gpus(problem.kinds.size() - 1) + (least_area >> 48);
      least_area -= std::min(least_area, rounding);
      break;
    }
  }
  if (count == 0 && problem.rules.is_soft) {
    known[count] = price(widest);
    kinds[count++] = static_cast<std::uint16_t>(widest);
  }
  for (std::size_t at = 0; at < count; ++at) {
    problem.choice_times[sample * most + at] = known[at].time;
  }
  problem.choice_count[sample] = static_cast<std::uint8_t>(count);
  problem.longest = std::max(problem.longest, least_time);
  problem.areas[sample] = least_area;
  if (count > 0) {
    problem.fastest[sample] =
        saturating_sum(known[count - 1].time, problem.kinds[kinds[count - 1]].cost.latency);
  }
}

/// Refuses rules that admit no plan, whatever the samples are.
[[nodiscard]] inline result<void> check_slots(slot_groups const& rules, node_sizes const& nodes,
                                              std::size_t samples)
{
  if (nodes.gpus() > most_gpus || samples >= std::numeric_limits<std::uint32_t>::max()) {
    return fail(error_code::out_of_range, 0, "slots of ", counted(nodes.gpus(), "GPU"), " and ",
                counted(samples, "sample"), ": the most are 16777216 and 4294967294");
  }
  std::size_t const number = rules.number.value_or(1);
  bool const is_capped = rules.samples.kind == counts::rule::at_most;
  if ((!is_capped && rules.samples != counts{}) || rules.samples.number < 1 ||
      rules.most_per_gpu < 1 || rules.largest == 0 || number == 0 || rules.multiple_of == 0 ||
      std::max(number, rules.multiple_of) > most_gpus) {
    return fail(error_code::out_of_range, 0,
                "samples of slots takes counts::at_most(n) alone; n, most_per_gpu and largest are "
                "at least 1, number and multiple_of from 1 to 16777216; correct them");
  }
  if (rules.number && *rules.number % rules.multiple_of != 0) {
    return fail(error_code::infeasible, 0, *rules.number, " slots are no multiple of ",
                rules.multiple_of, "; give a number that is one");
  }
  for (std::size_t at = 0; at < rules.sizes.size(); ++at) {
    if (rules.sizes[at] == 0) {
      return fail(error_code::out_of_range, at, "size ", at, " of groups is 0; leave it out");
    }
  }
  return {};
}

/// Sorts the samples and looks up what they cost.
///
/// Errors      as plan_slots_into.
[[nodiscard]] inline result<void> read_slots(slot_problem& problem, std::span<tokens const> lengths,
                                             sharding_cost const& cost, workspace::frame& scratch)
{
  std::size_t const count = lengths.size();
  auto const most = std::min(static_cast<std::uint32_t>(problem.ranks), problem.rules.largest);
  find_slot_kinds(
      problem, slot_sizes(problem.rules, cost.by_rows ? most : std::min(most, cost.heads), scratch),
      cost, scratch);
  if (problem.kinds.empty()) {
    return fail(error_code::infeasible, 0, "no size of groups is admitted of ",
                counted(problem.ranks, "GPU"), " and ", counted(cost.heads, "head"),
                "; allow smaller groups");
  }
  for (std::size_t sample = 0; sample < count; ++sample) {
    if (lengths[sample] < 0 || lengths[sample] > longest_sample) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has a length of ",
                  lengths[sample], ", which is not from 0 to ", longest_sample);
    }
  }
  problem.original = by_length(lengths, scratch);
  problem.lengths = scratch.take<tokens>(count);
  problem.choices = scratch.take<std::uint16_t>(count * slot_problem::most_choices);
  problem.choice_times = scratch.take<cost_units>(count * slot_problem::most_choices);
  problem.choice_count = scratch.take<std::uint8_t>(count);
  problem.areas = scratch.take<cost_units>(count);
  problem.fastest = scratch.take<cost_units>(count);
  cost_units all = 0;
  for (std::size_t at = 0; at < count; ++at) {
    std::uint32_t const sample = problem.original[at];
    problem.lengths[at] = lengths[sample];
    choose_slot_kinds(problem, at);
    if (problem.choice_count[at] == 0) {
      return fail(error_code::infeasible, sample, "sample ", sample, " of ",
                  counted(lengths[sample], "token"), " fits no group of which each GPU may hold ",
                  counted(problem.rules.most_per_gpu, "token"),
                  "; allow more tokens, larger groups, or a soft cap");
    }
    all = saturating_sum(all, problem.areas[at]);
    if (all == no_cost) {
      return fail(error_code::out_of_range, sample, "the costs up to sample ", sample,
                  " do not fit 63 bits; give them in coarser units");
    }
  }
  return {};
}

/// What no plan is shorter than: all ranks busy with each sample's least GPU time, and the longest
/// sample on the group that is fastest for it.
[[nodiscard]] inline cost_units slots_lower_bound(slot_problem const& problem)
{
  cost_units all = 0;
  for (cost_units const area : problem.areas) { all += area; }
  auto const ranks = static_cast<cost_units>(problem.ranks);
  return std::max(problem.longest, all / ranks + (all % ranks != 0 ? 1 : 0));
}

/// The fewest slots whose ranks hold all tokens.
[[nodiscard]] inline std::size_t fewest_slots(slot_problem const& problem)
{
  tokens all = 0;
  for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
    std::uint16_t const widest = problem.choices_of(sample).back();
    all += std::min(problem.lengths[sample], problem.share(sample, widest) * problem.gpus(widest));
  }
  if (all == 0) { return problem.samples() > 0 ? 1 : 0; }
  auto const cells = (all - 1) / problem.rules.most_per_gpu;
  return static_cast<std::size_t>(cells / static_cast<tokens>(problem.ranks)) + 1;
}

/// When the ranks of a group have ended what they do before.
[[nodiscard]] inline cost_units ready_at(std::span<cost_units const> ready, std::size_t first,
                                         std::size_t gpus)
{
  auto const own = ready.subspan(first, gpus);
  return *std::max_element(own.begin(), own.end());
}

/// Writes the plan that a search found: groups slot after slot, by first rank. Where ranks meet once
/// a step, groups of one kind in a slot change places: those that take longest go to the ranks that
/// are ready first.
inline void describe_slots(slots_plan& plan, slot_problem const& problem, slot_tiling& tiling,
                           workspace::frame& scratch)
{
  std::span<std::uint32_t> const order = scratch.take<std::uint32_t>(tiling.size);
  std::span<std::uint32_t> const places = scratch.take<std::uint32_t>(tiling.size);
  std::span<std::uint32_t> const group_of_tile = scratch.take<std::uint32_t>(tiling.size);
  std::span<cost_units> const ready = scratch.take<cost_units>(problem.ranks);
  std::fill(ready.begin(), ready.end(), cost_units{0});
  std::iota(order.begin(), order.end(), 0U);
  auto const gpus_of = [&](std::uint32_t tile) { return problem.gpus(tiling.all[tile].kind); };
  auto const before = [&](std::uint32_t a, std::uint32_t b) {
    return precedes(tiling.all[a].slot, tiling.all[b].slot, tiling.all[a].first,
                    tiling.all[b].first);
  };
  std::sort(order.begin(), order.end(), before);
  bool const meet_once = problem.rules.meet == grid_meeting::step;
  plan.groups.clear();
  plan.first_group.assign(1, 0);
  plan.makespan = 0;
  auto next = order.begin();
  for (std::uint32_t slot = 0; slot < plan.slots; ++slot) {
    auto const end = std::find_if(
        next, order.end(), [&](std::uint32_t tile) { return tiling.all[tile].slot != slot; });
    if (meet_once) {
      auto const kind_of = [&](std::uint32_t tile) { return tiling.all[tile].kind; };
      std::sort(next, end, [&](std::uint32_t a, std::uint32_t b) {
        return precedes(kind_of(a), kind_of(b), ready_at(ready, tiling.all[a].first, gpus_of(a)),
                        ready_at(ready, tiling.all[b].first, gpus_of(b)), a, b);
      });
      std::transform(next, end, places.begin(), [&](auto tile) { return tiling.all[tile].first; });
      std::sort(next, end, [&](std::uint32_t a, std::uint32_t b) {
        return precedes(kind_of(a), kind_of(b), tiling.all[b].load, tiling.all[a].load, a, b);
      });
      auto place = places.begin();
      std::for_each(next, end, [&](std::uint32_t tile) { tiling.all[tile].first = *place++; });
      std::sort(next, end, before);
    }
    std::uint32_t rank = 0;
    auto const add_empty = [&](std::uint32_t until) {
      for (; rank < until; ++rank) { plan.groups.push_back({slot, {to_id<rank_id>(rank), 1}}); }
    };
    for (; next != end; ++next) {
      std::uint32_t const gpus = gpus_of(*next);
      add_empty(tiling.all[*next].first);
      group_of_tile[*next] = static_cast<std::uint32_t>(plan.groups.size());
      cost_units const load = tiling.time(problem, *next);
      plan.groups.push_back({slot, {to_id<rank_id>(rank), gpus}, load});
      auto const own = ready.subspan(rank, gpus);
      std::fill(own.begin(), own.end(), saturating_sum(ready_at(ready, rank, gpus), load));
      rank += gpus;
    }
    add_empty(static_cast<std::uint32_t>(problem.ranks));
    plan.first_group.push_back(plan.groups.size());
    plan.makespan = saturating_sum(plan.makespan, plan.length_of(slot));
  }
  if (meet_once) { plan.makespan = ready_at(ready, 0, ready.size()); }
  plan.owner.resize(problem.samples());
  for (std::size_t at = 0; at < problem.samples(); ++at) {
    plan.owner[to_id<sample_id>(problem.original[at])] =
        to_id<group_id>(group_of_tile[tiling.of_sample[at]]);
  }
  plan.samples.collect(span_of(plan.owner), plan.groups.size());
  plan.cu_seqlens.clear();
  plan.above_cap.clear();
  for (std::size_t at = 0; at < plan.groups.size(); ++at) {
    slots_plan::group& group = plan.groups[at];
    std::int32_t sum = 0;
    plan.cu_seqlens.push_back(0);
    for (sample_id const sample : plan.samples[to_id<group_id>(at)]) {
      tokens const length = plan.lengths[to_index(sample)];
      group.held += (length + group.ranks.gpus - 1) / group.ranks.gpus;
      plan.cu_seqlens.push_back(sum += static_cast<std::int32_t>(length));
    }
    plan.cu_seqlens.end_row();
    if (group.held > problem.rules.most_per_gpu) { plan.above_cap.push_back(to_id<group_id>(at)); }
  }
}

}  // namespace detail

/// Tiles slots by groups of ranks of the sizes that a step's samples need, and decides which group
/// computes which samples, one or several: long samples on many ranks, short ones packed on few, in
/// a training step of several microbatches (dynamic context parallelism). Every rank is in one group
/// of every slot.
///
/// A group of at most as many ranks as the largest node has lies in one node; a larger one begins
/// with a node, and all of one size have one shape over nodes. A sample shorter than a group has
/// ranks goes to no such group, unless there are no smaller ones.
///
/// Shapes      lengths[n], n < 2^32 - 1.
/// Expects     what cost.at() expects.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Ensures     (1) those of slots_plan
///             (2) no rank holds more than most_per_gpu tokens of a slot, but in groups above_cap
///             (3) slots are as many as `number` says, or a multiple of multiple_of; of a number that
///                 is given, some may stay empty
///             (4) the plan depends on nothing but the arguments, so every rank finds the same one
///             (5) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: sample `position` has no length from 0 to longest_sample, or the costs
///             up to it do not fit 63 bits, or a rule is out of range; infeasible: sample `position`
///             fits no group and the cap is not soft; no size is admitted; `number` is no multiple;
///             or no plan with so many slots was found.
/// Complexity  O(n sizes) costs of samples, and at most 12 plans of slots, of which each visits the
///             samples that are left once a slot; about rules.work visits.
/// Source      the execution model is that of dynamic context parallelism in Megatron-LM.
[[nodiscard]] inline result<void> plan_slots_into(slots_plan& plan, workspace& memory,
                                                  std::span<tokens const> lengths,
                                                  node_sizes const& nodes,
                                                  sharding_cost const& cost,
                                                  slot_groups const& rules = {})
{
  if (auto checked = detail::check_slots(rules, nodes, lengths.size()); !checked) {
    return checked;
  }
  auto scratch = memory.open();
  detail::slot_problem problem(rules, nodes);
  if (auto read = detail::read_slots(problem, lengths, cost, scratch); !read) { return read; }
  plan.ranks = problem.ranks;
  plan.meet = rules.meet;
  plan.lengths.assign(lengths.begin(), lengths.end());
  plan.lower_bound = detail::slots_lower_bound(problem);
  plan.fewest_slots = detail::fewest_slots(problem);
  detail::slot_search search(problem, plan.lower_bound, scratch);
  detail::work_budget budget(rules.work);
  std::size_t const found = lengths.empty() ? 0 : search.run(plan.fewest_slots, budget);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  if (found == 0 && !lengths.empty()) {
    return fail(error_code::infeasible, 0, "no plan of ",
                detail::counted(rules.number.value_or(0), "slot"), " was found; at least ",
                plan.fewest_slots, " are needed: give more, or leave the number out");
  }
  plan.slots = rules.number.value_or((found + rules.multiple_of - 1) / rules.multiple_of *
                                     rules.multiple_of);
  detail::describe_slots(plan, problem, search.best(), scratch);
  return {};
}

/// The same, once: returns a new plan.
[[nodiscard]] inline result<slots_plan> plan_slots(std::span<tokens const> lengths,
                                                   node_sizes const& nodes,
                                                   sharding_cost const& cost,
                                                   slot_groups const& rules = {})
{
  slots_plan plan;
  workspace memory;
  auto const done = plan_slots_into(plan, memory, lengths, nodes, cost, rules);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0
