// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/detail/placement/plan_search.hpp>
#include <ballast/partition/detail/plan_items.hpp>
#include <ballast/partition/partition.hpp>

namespace ballast::inline v0::detail {

/// A makespan that no plan with at most so many samples a bag gets below. The other bags hold at
/// most their number each, so the j bags with the j heaviest samples hold at least the rest, at best
/// the lightest, and one of them ends at the mean or later. O(n + m)
[[nodiscard]] inline ratio bound_by_counts(partition_problem const& problem, std::int64_t most)
{
  auto const samples = static_cast<std::int64_t>(problem.heaviest_first.size());
  auto const bags = static_cast<std::int64_t>(problem.speeds.size());
  if (most > samples) { return {}; }
  std::int64_t const fastest = *std::max_element(problem.speeds.begin(), problem.speeds.end());
  auto const cost = [&problem](std::int64_t place) {
    return problem.heaviest_first[static_cast<std::size_t>(place)].cost;
  };
  ratio bound;
  cost_units work = 0;
  std::int64_t lightest = 0;
  for (std::int64_t used = 1; used <= std::min(bags, samples); ++used) {
    work += cost(used - 1);
    while (lightest < samples - (bags - used) * most - used) { work += cost(samples - ++lightest); }
    bound = std::max(bound, ratio{work, used * fastest});
  }
  return bound;
}

/// A makespan that no plan gets below whose bags hold these numbers of samples, in any order.
///
/// Take the t heaviest samples, t = i m + j with 1 <= j <= m. The j bags that hold most of them
/// hold at least j (i + 1) of them, by pigeonhole, and at least as many samples as the j smallest
/// counts together. So they do at least the work of the j (i + 1) lightest of those t samples and
/// of the lightest samples for their other places, and one of them finishes at the mean or later.
/// The bound is the largest over t. For t = 1 it is the heaviest sample together with the lightest
/// ones, for t = n the mean load. And the q slowest bags hold at least as many samples as the q
/// smallest counts together, at best the lightest of all, for every q.
///
/// Expects     a valid partition_problem; equal counts of n.
/// Ensures     (1) no assignment with these counts has a smaller makespan
/// Complexity  O(n + m log m); 8 n + 16 m bytes of scratch.
[[nodiscard]] inline ratio equal_count_bound(partition_problem const& problem,
                                             count_limits const& counts, workspace& memory)
{
  std::size_t const samples = problem.heaviest_first.size();
  std::size_t const bags = problem.speeds.size();
  auto scratch = memory.open();
  std::span<std::int64_t> const fewest_first = scratch.take<std::int64_t>(bags);
  std::span<std::uint32_t> const fastest_first = scratch.take<std::uint32_t>(bags);
  std::fill(fewest_first.begin(), fewest_first.end(), counts.least);
  auto const fuller = static_cast<std::size_t>(counts.fuller);
  std::fill_n(fewest_first.rbegin(), fuller, counts.most);
  if (counts.rest > 0) { fewest_first[bags - 1 - fuller] += counts.rest; }
  std::copy(problem.speeds.begin(), problem.speeds.end(), fastest_first.begin());
  std::sort(fastest_first.begin(), fastest_first.end(), std::greater{});
  std::span<cost_units const> const before = sums_of_heaviest(problem, scratch);

  ratio bound{0, fastest_first.front()};
  for (std::size_t full = 0; full * bags < samples; ++full) {
    std::size_t places = 0;
    std::int64_t speed = 0;
    for (std::size_t used = 1; used <= std::min(bags, samples - full * bags); ++used) {
      std::size_t const heaviest = full * bags + used;
      std::size_t const crowded = used * (full + 1);
      places += static_cast<std::size_t>(fewest_first[used - 1]);
      speed += fastest_first[used - 1];
      std::size_t const others = places - std::min(places, crowded);
      // Where the lightest samples reach into the t heaviest, more of these lie there anyway.
      bool const apart = others <= samples - heaviest;
      cost_units const crowd = before[heaviest] - before[heaviest - crowded];
      cost_units const work = apart ? crowd + (before[samples] - before[samples - others])
                                    : before[samples] - before[samples - places];
      bound = std::max(bound, ratio{work, speed});
    }
  }
  bool const one_speed = fastest_first.front() == fastest_first.back();
  std::size_t places = 0;
  std::int64_t speed = 0;
  for (std::size_t slowest = 0; slowest < bags && !one_speed; ++slowest) {
    places += static_cast<std::size_t>(fewest_first[slowest]);
    speed += fastest_first[bags - 1 - slowest];
    bound = std::max(bound, ratio{before[samples] - before[samples - places], speed});
  }
  return one_speed ? whole_units_per_bag(bound, fastest_first.front()) : bound;
}

[[nodiscard]] inline std::int64_t taken_of(cap const& of, std::size_t sample,
                                           std::span<tokens const> lengths)
{
  std::int64_t const takes = of.of.empty() ? lengths[sample] : of.of[sample];
  std::int64_t const over = takes % of.rounded_to;
  return over == 0 ? takes : takes - over + of.rounded_to;
}

/// How often bags are filled, microbatch after microbatch, and whether they meet after each.
struct bag_slots {
  std::size_t number = 0;  ///< 0: once, and no grid
  bool meet = false;
};

/// The step that limit_search plans, and the arrays that it reads.
class limited_items {
 public:
  /// Shapes      costs[n D], sample after sample; lengths[n], home[n] or empty.
  BALLAST_ONCE limited_items(std::span<cost_units const> costs, std::size_t quantities,
                             step_samples const& step, bag_layout const& bags,
                             placement_limits const& limits, workspace::frame& scratch,
                             bag_slots slots = {});

  /// Reads what counts and samples that are apart ask for.
  ///
  /// Errors      infeasible: as read_rules.
  [[nodiscard]] BALLAST_ONCE result<void> read(workspace::frame& scratch);

  [[nodiscard]] placement_problem problem() const
  {
    return {base_,
            quantities_,
            costs_,
            starts_,
            speeds_,
            lane_of_,
            {rooms_.data(), caps_.size()},
            refused_,
            counts_,
            {limits_.mixes, first_, samples_, asked_},
            slots_.number == 0 ? 0 : bags_.size(),
            slots_.meet};
  }
  [[nodiscard]] std::size_t ranked() const noexcept { return ranked_; }
  [[nodiscard]] planned_items const& items() const noexcept { return items_; }
  [[nodiscard]] std::size_t item(std::size_t sample) const
  {
    return item_of_.empty() ? sample : item_of_[sample];
  }

  /// A makespan that no plan gets below, in one quantity after the other.
  [[nodiscard]] BALLAST_ONCE ratio lower_bound(workspace& memory) const;

 private:
  void list_samples();
  [[nodiscard]] bool sums_fit() const;

  placement_limits const& limits_;
  bag_layout const& bags_;
  all_caps caps_;
  bag_slots slots_;
  planned_items items_;
  std::span<std::uint32_t> item_of_;
  std::size_t ranked_ = 0;
  std::size_t quantities_ = 0;
  std::span<cost_units const> costs_;
  std::span<cost_units const> starts_;
  std::array<placement_problem::limit, caps::most + 1> rooms_;
  std::span<bool const> refused_;
  std::span<std::uint32_t> first_;  // of items, in samples_
  std::span<sample_id> samples_;
  std::span<sample_id> asked_;
  std::span<std::uint32_t const> gpus_;
  std::span<std::uint32_t const> speeds_;
  std::span<std::uint32_t const> lane_of_;
  partition_problem::placement_rules rules_;
  partition_problem base_;
  count_limits counts_;
};

[[nodiscard]] inline std::string name_of_cap(placement_limits const& limits, std::size_t at)
{
  std::size_t const before = limits.most_per_gpu != no_limit ? 1 : 0;
  return at < before ? "limits.most_per_gpu" : concat("limits.also[", at - before, "]");
}

[[nodiscard]] inline plan_tie tie_of(placement_limits const& limits)
{
  switch (limits.then.what()) {
    case second_objective::kind::level: return plan_tie::level;
    case second_objective::kind::fewest_moves: return plan_tie::fewest_moves;
    default: return plan_tie::none;
  }
}

/// The limits of which none can be left out for a plan to exist, as far as a search of all tells;
/// where it gave up, all that were given.
[[nodiscard, gnu::cold]] BALLAST_ONCE std::string conflicting_limits(placement_problem problem,
                                                                     placement_limits const& limits,
                                                                     bool is_proven,
                                                                     workspace& memory);

#ifndef BALLAST_COMPILED

inline void limited_items::list_samples()
{
  std::fill(first_.begin(), first_.end(), 0);
  for (std::uint32_t const item : item_of_) { ++first_[item + 1]; }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  for (std::size_t sample = item_of_.size(); sample-- > 0;) {  // each place from the back
    samples_[--first_[item_of_[sample] + 1]] = to_id<sample_id>(sample);
  }
  if (first_.empty()) { return; }
  std::rotate(first_.begin(), first_.begin() + 1, first_.end());
  first_.back() = static_cast<std::uint32_t>(item_of_.size());
}

inline bool limited_items::sums_fit() const
{
  cost_units left = no_cost - 1;
  for (auto const all : {costs_, starts_}) {
    for (cost_units const each : all) {
      if (each > left) { return false; }
      left -= each;
    }
  }
  return true;
}

BALLAST_ONCE limited_items::limited_items(std::span<cost_units const> costs, std::size_t quantities,
                                          step_samples const& step, bag_layout const& bags,
                                          placement_limits const& limits, workspace::frame& scratch,
                                          bag_slots slots)
    : limits_(limits), bags_(bags), caps_(limits), slots_(slots)
{
  std::size_t const places = bags.size() * std::max<std::size_t>(slots.number, 1);
  std::size_t const count = step.lengths.own.size();
  bool const has_least = limits.then.what() == second_objective::kind::least;
  ranked_ = quantities;
  quantities_ = quantities + (has_least ? 1 : 0);
  items_ = {{}, step.lengths.fitting, {}, step.home};
  if (step.lengths.short_samples > 0) { items_.joint_lengths = step.lengths.own; }
  item_of_ = scratch.take<std::uint32_t>(limits.together.size());
  if (!limits.together.empty()) {
    items_ = join_samples(limits.together, items_, item_of_, scratch);
  }
  std::size_t const items = items_.lengths.size();

  std::span<cost_units> const all = scratch.take<cost_units>(items * quantities_);
  std::fill(all.begin(), all.end(), 0);
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::size_t const at = item(sample) * quantities_;
    for (std::size_t d = 0; d < quantities; ++d) { all[at + d] += costs[sample * quantities + d]; }
    if (has_least) { all[at + quantities] += limits.then.of()[sample]; }
  }
  costs_ = all;
  std::size_t const lanes = slots.meet ? places : bags.size();
  std::span<cost_units> const starts =
      scratch.take<cost_units>(limits.starting_loads.empty() ? 0 : lanes * quantities_);
  std::fill(starts.begin(), starts.end(), 0);
  for (std::size_t at = 0; at < limits.starting_loads.size(); ++at) {
    starts[at / quantities * quantities_ + at % quantities] = limits.starting_loads[at];
  }
  starts_ = starts;

  for (std::size_t at = 0; at < caps_.size(); ++at) {
    std::span<std::int64_t> const takes = scratch.take<std::int64_t>(items);
    std::span<std::int64_t> const room = scratch.take<std::int64_t>(places);
    std::fill(takes.begin(), takes.end(), 0);
    for (std::size_t sample = 0; sample < count; ++sample) {
      takes[item(sample)] += taken_of(caps_[at], sample, step.lengths.own);
    }
    for (std::size_t place = 0; place < places; ++place) {
      std::size_t const bag = place % bags.size();
      room[place] = room_of_bag(bags, bag, caps_[at]);
    }
    rooms_[at] = {takes, room, caps_[at].is_soft};
  }
  std::span<bool> const refused = scratch.take<bool>(limits.fits.empty() ? 0 : items * bags.size());
  std::fill(refused.begin(), refused.end(), false);
  for (std::size_t sample = 0; sample < (limits.fits.empty() ? 0 : count); ++sample) {
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      bool const fits = limits.fits(to_id<sample_id>(sample), to_id<bag_id>(bag));
      refused[item(sample) * bags.size() + bag] |= !fits;
    }
  }
  refused_ = refused;
  if (!limits.mixes.empty()) {
    asked_ = scratch.take<sample_id>(count);
    first_ = scratch.take<std::uint32_t>(item_of_.empty() ? 0 : items + 1);
    samples_ = scratch.take<sample_id>(item_of_.size());
    list_samples();
  }

  std::span<std::uint32_t> const gpus = scratch.take<std::uint32_t>(places);
  std::span<std::uint32_t> const speeds = scratch.take<std::uint32_t>(lanes);
  std::span<std::uint32_t> const lane_of =
      scratch.take<std::uint32_t>(lanes == places ? 0 : places);
  for (std::size_t place = 0; place < places; ++place) {
    auto const bag = static_cast<std::uint32_t>(place % bags.size());
    gpus[place] = bags.sizes()[bag];
    if (place < lanes) { speeds[place] = bags.speeds()[bag]; }
    if (lanes != places) { lane_of[place] = bag; }
  }
  gpus_ = gpus;
  speeds_ = speeds;
  lane_of_ = lane_of;
}

BALLAST_ONCE result<void> limited_items::read(workspace::frame& scratch)
{
  bool const is_limited = limits_.samples.kind == counts::rule::at_most;
  std::int64_t const most = is_limited ? limits_.samples.number : no_limit;
  bool const has_rules =
      is_limited || !limits_.apart.empty() || limits_.samples.kind == counts::rule::multiple_of;
  if (has_rules) {
    std::size_t const samples = item_of_.empty() ? items_.lengths.size() : item_of_.size();
    auto read = read_rules(most, limits_.apart, items_, item_of_, samples, gpus_.size(), scratch);
    if (!read) { return tl::unexpected(std::move(read).error()); }
    rules_ = *read;
  }
  counts_ = count_limits::any(items_.lengths.size());
  counts_.most_samples = most;
  if (limits_.samples.kind == counts::rule::equal) {
    counts_ = count_limits::equal(items_.lengths.size(), gpus_.size(), limits_.samples.number);
  } else if (limits_.samples.kind == counts::rule::filled) {
    counts_.least = 1;
  } else if (limits_.samples.kind == counts::rule::multiple_of) {
    counts_.step = limits_.samples.number;
  }
  base_ = {{}, items_.lengths, {}, gpus_, speeds_, items_.home};
  base_.joint_lengths = items_.joint_lengths;
  base_.first_part = items_.first_part;
  base_.parts = items_.parts;
  if (has_rules) { base_.rules = &rules_; }
  return {};
}

BALLAST_ONCE ratio limited_items::lower_bound(workspace& memory) const
{
  ratio bound;
  auto scratch = memory.open();
  std::size_t const items = items_.lengths.size();
  auto const costs = scratch.take<cost_units>(items);
  auto const starts = scratch.take<cost_units>(starts_.empty() ? 0 : bags_.size());
  auto const order = scratch.take<priced_sample>(items);
  // By several quantities, a bag does at least the mean of all in one of them.
  bool const has_sums = ranked_ > 1 && sums_fit();
  for (std::size_t d = 0; d < ranked_ + (has_sums ? 1 : 0); ++d) {
    auto const part = [&](std::span<cost_units const> all, std::size_t at) {
      auto const own = all.subspan(at * quantities_, ranked_);
      return d < ranked_ ? own[d] : std::reduce(own.begin(), own.end());
    };
    for (std::size_t at = 0; at < items; ++at) { costs[at] = part(costs_, at); }
    for (std::size_t bag = 0; bag < starts.size(); ++bag) { starts[bag] = part(starts_, bag); }
    cost_units const unit = std::max<cost_units>(common_divisor(starts, common_divisor(costs)), 1);
    for (cost_units& cost : costs) { cost /= unit; }
    for (cost_units& start : starts) { start /= unit; }
    descending_order_into(order, costs, memory);
    partition_problem one{costs, items_.lengths, order, bags_.sizes(), bags_.speeds()};
    ratio of_one = makespan_lower_bound(one, memory, starts);
    bool const are_one = item_of_.empty();
    std::int64_t const most = std::min(counts_.most, are_one ? counts_.most_samples : no_limit);
    of_one = std::max(of_one, bound_by_counts(one, most));
    if (counts_.is_equal) { of_one = std::max(of_one, equal_count_bound(one, counts_, memory)); }
    for (std::size_t at = 0; at < caps_.size(); ++at) {
      if (caps_[at].is_soft) { continue; }
      one.weights = rooms_[at].takes;
      one.most = rooms_[at].room;
      of_one = std::max(of_one, capacity_bound(one, memory));
    }
    of_one.numerator *= unit;
    if (d == ranked_) {
      auto const parts = static_cast<cost_units>(ranked_);
      bool const rounds_up = of_one.numerator % parts != 0 && problem().has_one_speed();
      of_one.numerator = of_one.numerator / parts + (rounds_up ? 1 : 0);
    }
    bound = std::max(bound, of_one);
  }
  return bound;
}

BALLAST_ONCE std::string conflicting_limits(placement_problem problem,
                                            placement_limits const& limits, bool is_proven,
                                            workspace& memory)
{
  constexpr std::uint64_t work = 200'000;
  auto scratch = memory.open();
  std::span<placement_problem::limit> const kept =
      scratch.take<placement_problem::limit>(problem.limits.size());
  std::copy(problem.limits.begin(), problem.limits.end(), kept.begin());
  partition_problem items = problem.items;
  partition_problem::placement_rules rules;
  if (items.rules != nullptr) { rules = *items.rules; }
  items.rules = &rules;
  placement_problem tried{
      items, problem.quantities, problem.costs,  problem.starts, problem.speeds, {},
      kept,  problem.refused,    problem.counts, problem.mixes};
  std::vector<std::string> names;
  // Leaves out one limit for good, unless it is needed.
  auto const leave_out = [&](std::string const& name, auto& limit, auto const& none) {
    auto const given = std::exchange(limit, none);
    if (is_proven) {
      auto frame = memory.open();
      limit_search search(tried, 1, {no_cost, 1}, work, memory, frame);
      if (!search(plan_tie::none, 0) && search.is_proven()) { return; }
    }
    limit = given;
    names.push_back(name);
  };
  for (std::size_t at = 0; at < kept.size(); ++at) {
    std::span<std::int64_t> const endless = scratch.take<std::int64_t>(problem.places());
    std::fill(endless.begin(), endless.end(), no_limit);
    leave_out(name_of_cap(limits, at), kept[at].room, std::span<std::int64_t const>(endless));
  }
  if (limits.samples.kind != counts::rule::any) {
    leave_out("limits.samples", tried.counts, count_limits::any(problem.size()));
  }
  if (!limits.apart.empty()) {
    leave_out("limits.apart", rules.first_group, std::span<std::uint32_t const>{});
  }
  if (!limits.fits.empty()) { leave_out("limits.fits", tried.refused, std::span<bool const>{}); }
  if (!limits.mixes.empty()) { leave_out("limits.mixes", tried.mixes.allows, mix_filter{}); }
  std::string text;
  for (std::size_t at = 0; at < names.size(); ++at) {
    text += at == 0 ? "" : at + 1 == names.size() ? " and " : ", ";
    text += names[at];
  }
  return text.empty() ? std::string("the lengths of samples and the sizes of bags") : text;
}

#endif

/// Plans a step by limit_search: the owner of each sample. Returns whether no plan as short is better
/// by the second objective.
///
/// Shapes      costs[n D], sample after sample; owner[n].
/// In, out     owner enters as the plan to begin with, or as bag m, which does not exist.
/// Errors      infeasible: no plan keeps the limits, or the search found none before it gave up.
[[nodiscard]] inline result<bool> place_by_limits(
    std::span<cost_units const> costs, std::size_t quantities, step_samples const& step,
    bag_layout const& bags, placement_limits const& limits, std::uint64_t work,
    std::span<bag_id> owner, std::vector<bag_id>& above_cap, ratio& lower_bound, workspace& memory)
{
  auto scratch = memory.open();
  limited_items items(costs, quantities, step, bags, limits, scratch);
  if (auto read = items.read(scratch); !read) { return tl::unexpected(std::move(read).error()); }
  placement_problem const problem = items.problem();
  lower_bound = items.lower_bound(memory);
  auto frame = memory.open();
  limit_search search(problem, items.ranked(), lower_bound, work, memory, frame);
  std::span<std::uint32_t> const start = frame.take<std::uint32_t>(problem.size());
  bool const has_start = !owner.empty() && to_index(owner.front()) != bags.size();
  for (std::size_t sample = 0; sample < owner.size() && has_start; ++sample) {
    start[items.item(sample)] = static_cast<std::uint32_t>(to_index(owner[sample]));
  }
  if (has_start) { search.begin_with(start, true); }
  if (!search(tie_of(limits), limits.within_per_million)) {
    for (placement_problem::limit const& each : problem.limits) {
      if (each.is_soft) { continue; }
      auto fits = check_each_fits(problem.items, items.items(), each.takes, each.room);
      if (!fits) { return tl::unexpected(std::move(fits).error()); }
    }
    bool const is_proven = search.is_proven();
    workspace other;
    std::string const names = conflicting_limits(problem, limits, is_proven, other);
    bool const is_one = names.find(' ') == std::string::npos;
    bool const is_cap = problem.limits.size() == 1 && names.find("_per_gpu") != std::string::npos;
    return fail(
        error_code::infeasible, 0,
        is_cap ? tell_room(problem.limits[0].takes, problem.limits[0].room) + "; " : std::string(),
        counted(problem.size(), "item"), " in ", counted(bags.size(), "bag"),
        is_proven ? " have no plan that keeps " : " found no plan that keeps ", names,
        !is_proven ? " before the search gave up; raise one, add bags, or give it more work, as "
                     "refine<>{.work = 20'000'000}"
        : is_one   ? "; loosen it, add bags or microbatches, or leave it out"
                   : " together, and each of these is needed for that; raise or leave out one");
  }
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    owner[sample] = to_id<bag_id>(search.plan().owner(items.item(sample)));
  }
  if (search.is_proven()) { lower_bound = std::max(lower_bound, search.makespan()); }
  above_cap.clear();
  for (std::size_t bag = 0; bag < problem.places(); ++bag) {
    for (std::size_t at = 0; at < problem.limits.size(); ++at) {
      if (search.plan().held(at, bag) <= problem.limits[at].room[bag]) { continue; }
      above_cap.push_back(to_id<bag_id>(bag));
      break;
    }
  }
  return search.is_tie_proven();
}

/// Plans samples whose costs are in the plan, within all limits.
///
/// In, out     the plan has costs, attention and batches, and, to begin with, owners where
///             `has_start`; the rest is written.
template <class Cost>
[[nodiscard]] result<void> plan_within(basic_partition_plan<Cost>& plan, workspace& memory,
                                       sample_lengths const& lengths, bag_layout const& bags,
                                       std::uint64_t work, placement_limits const& limits,
                                       bool has_start = false)
{
  std::size_t const count = lengths.own.size();
  plan.lengths.assign(lengths.own.begin(), lengths.own.end());
  plan.short_samples = lengths.short_samples;
  if (!has_start) { plan.owner.assign(count, to_id<bag_id>(bags.size())); }
  plan.loads.assign(bags.size(), Cost{});
  plan.bags_digest = bags.digest();
  auto scratch = memory.open();
  auto const home = bags_of_home(limits, bags, scratch);
  std::size_t const quantities = numbers_of(plan.loads[0]).size();
  std::span<cost_units> const costs = scratch.take<cost_units>(count * quantities);
  auto const at = [quantities](auto& of, std::size_t each) -> cost_units& {
    return numbers_of(of[each / quantities])[each % quantities];
  };
  for (std::size_t each = 0; each < costs.size(); ++each) { costs[each] = at(plan.costs, each); }
  std::span<std::int64_t const> const starts = limits.starting_loads;
  for (std::size_t each = 0; each < starts.size(); ++each) { at(plan.loads, each) = starts[each]; }
  if (auto checked = check_started(costs, starts, quantities); !checked) { return checked; }
  ratio bound;
  auto const is_tie_proven =
      place_by_limits(costs, quantities, {lengths, {}, home}, bags, limits, work,
                      mutable_span_of(plan.owner), plan.above_cap, bound, memory);
  if (!is_tie_proven) { return tl::unexpected(is_tie_proven.error()); }
  for (std::size_t each = 0; each < costs.size(); ++each) {
    auto const bag = to_index(plan.owner[each / quantities]);
    at(plan.loads, bag * quantities + each % quantities) += costs[each];
  }
  plan.samples.collect(span_of(plan.owner), bags.size());
  plan.makespan = makespan_of(span_of(plan.loads), bags.speeds());
  plan.lower_bound = bound;
  plan.then_is_proven = *is_tie_proven;
  plan.moved = moved_share(span_of(plan.owner), lengths.own, home);
  return {};
}

/// Has the workspace allocate now what any stage of a search takes, so that a step which goes through
/// more of them than the last one allocates nothing.
inline void reserve_for_search(workspace& memory, std::size_t samples, std::size_t bags,
                               std::size_t quantities)
{
  // Sums of subsets by refine; what exchanges list, for each quantity; pairs of a place's items.
  std::size_t const width = quantities + caps::most + 1 + 2;
  std::size_t const sums = std::size_t{24}
                           << std::min<std::size_t>(samples, subset_sum::most_members);
  std::size_t const of_sample = 320 + 2 * quantities * (12 + 8 * width);
  std::size_t const of_bag = 640 + 64 * width + 4 * quantities * (12 + 8 * width);
  auto frame = memory.open();
  (void)frame.take<std::byte>(sums + samples * of_sample + bags * of_bag + 1'024 * width + 16'384);
}

template <class Cost>
result<void> plan_limited(basic_partition_plan<Cost>& plan, workspace& memory,
                          sample_lengths const& lengths, bag_layout const& bags,
                          policy_ref<Cost> const& policy, placement_limits const& limits)
{
  plan.then_is_proven = false;
  called_limits const called(limits);
  if constexpr (std::same_as<Cost, cost_units>) {
    if (policy.batches() != batching::packed) {
      if (!called.is_one_cap && called.is_any) {
        return fail(error_code::infeasible, 0,
                    "a policy that pads samples keeps one cap alone; use refine{} with "
                    "limits.samples, limits.then and the like, or leave these out");
      }
      return plan_priced(plan, memory, lengths, bags, policy, limits);
    }
  }
  if (!called.is_any) { return plan_priced(plan, memory, lengths, bags, policy, limits); }
  std::size_t quantities = 1;
  if constexpr (!std::same_as<Cost, cost_units>) { quantities = std::tuple_size_v<Cost>; }
  reserve_for_search(memory, lengths.own.size(), bags.size(), quantities + 1);
  std::uint64_t const work = policy.work_within_limits();
  bool const has_start = work == 0 || limits.samples.kind != counts::rule::equal;
  if (has_start) {
    placement_limits const own{
        .together = limits.together, .home = limits.home, .starting_loads = limits.starting_loads};
    if (auto done = plan_priced(plan, memory, lengths, bags, policy, own); !done) { return done; }
  }
  return plan_within(plan, memory, lengths, bags,
                     work > 0 ? work : longest_processing_time::work_within_limits(), limits,
                     has_start);
}

}  // namespace ballast::inline v0::detail
