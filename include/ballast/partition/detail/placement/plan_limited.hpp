// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/capped.hpp>
#include <ballast/partition/detail/placement/plan_search.hpp>
#include <ballast/partition/detail/plan_items.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/least_movement.hpp>
#include <ballast/partition/refine.hpp>

namespace ballast::inline v0::detail {

/// The caps of a call: most_per_gpu, which counts lengths, and those beside it.
class all_caps {
 public:
  explicit all_caps(placement_limits const& limits)
  {
    if (limits.most_per_gpu != no_limit) { caps_[size_++] = {.most_per_gpu = limits.most_per_gpu}; }
    for (std::size_t at = 0; at < limits.also.size(); ++at) { caps_[size_++] = limits.also[at]; }
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] cap const& operator[](std::size_t at) const noexcept { return caps_[at]; }

 private:
  std::array<cap, caps::most + 1> caps_;
  std::size_t size_ = 0;
};

/// Refuses limits that say nothing, or that no planner could read.
[[nodiscard]] inline result<void> check_limits(placement_limits const& limits, std::size_t samples,
                                               bag_layout const& bags)
{
  auto const refuse = [](auto const&... pieces) {
    return fail(error_code::out_of_range, 0, pieces...);
  };
  if (limits.also.size() > caps::most) {
    return refuse("limits.also has ", limits.also.size(), " caps; give at most ", caps::most);
  }
  for (std::size_t at = 0; at < limits.also.size(); ++at) {
    cap const& each = limits.also[at];
    if (each.most_per_gpu == no_limit && each.most.empty()) {
      return refuse("limits.also[", at, "] has neither most_per_gpu nor most; give one");
    }
    if (each.rounded_to < 1) {
      return refuse("limits.also[", at, "].rounded_to is ", each.rounded_to, "; give 1 or more");
    }
    if (each.most_per_gpu < 0) {
      return refuse("a GPU cannot hold ", each.most_per_gpu,
                    "; give the most that it holds in limits.also[", at, "]");
    }
    if (!each.of.empty() && each.of.size() != samples) {
      return fail(error_code::out_of_range, std::min(each.of.size(), samples), "limits.also[", at,
                  "].of has ", counted(each.of.size(), "entry"), " for ",
                  counted(samples, "sample"), "; give one for each sample, or none");
    }
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    if (auto checked = check_bag_numbers("also.most", each.most, bags.size(), most); !checked) {
      return checked;
    }
    std::int64_t total = 0;
    for (std::size_t sample = 0; sample < each.of.size(); ++sample) {
      std::int64_t const takes = each.of[sample];
      std::int64_t const rounding = each.rounded_to - 1;
      if (takes < 0 || takes > most - 1 - total || rounding > most - 1 - total - takes) {
        return fail(error_code::out_of_range, sample, "limits.also[", at, "].of of sample ", sample,
                    " is ", takes,
                    ", which is negative or brings the sum above 63 bits; correct "
                    "it");
      }
      total += takes + rounding;
    }
  }
  if (!limits.apart.empty() && limits.apart.size() != samples) {
    return fail(error_code::out_of_range, std::min(limits.apart.size(), samples),
                "limits.apart has ", counted(limits.apart.size(), "entry"), " for ",
                counted(samples, "sample"), "; give one for each sample, or none");
  }
  if (limits.samples.number < 1) {
    return refuse("limits.samples asks for ", limits.samples.number, " samples; give 1 or more");
  }
  if (limits.samples.kind == counts::rule::equal &&
      limits.samples.number > std::numeric_limits<std::int32_t>::max()) {
    return refuse("limits.samples asks for counts in multiples of ", limits.samples.number,
                  "; give less than 2^31");
  }
  std::span<std::int64_t const> const of = limits.then.of();
  if (limits.then.what() == second_objective::kind::least && of.size() != samples) {
    return refuse("limits.then = least(...) has ", counted(of.size(), "entry"), " for ",
                  counted(samples, "sample"), "; give one for each sample");
  }
  std::int64_t total = 0;
  for (std::size_t sample = 0; sample < of.size(); ++sample) {
    if (of[sample] < 0 || of[sample] > no_cost - 1 - total) {
      return fail(error_code::out_of_range, sample, "limits.then has ", of[sample], " for sample ",
                  sample, ", which is negative or brings the sum above 63 bits; correct it");
    }
    total += of[sample];
  }
  if (limits.then.what() == second_objective::kind::fewest_moves && limits.home.empty() &&
      samples > 0) {
    return refuse("limits.then = fewest_moves needs limits.home, the rank that holds each sample");
  }
  return {};
}

/// Whether a cap counts the lengths of samples.
[[nodiscard]] inline bool counts_lengths(placement_limits const& limits)
{
  all_caps const caps(limits);
  for (std::size_t at = 0; at < caps.size(); ++at) {
    if (caps[at].of.empty()) { return true; }
  }
  return false;
}

/// Which planner a call goes to.
enum class limit_planner : std::uint8_t {
  policy,  ///< the policy, alone
  capped,  ///< around it
  counts,  ///< equal counts
  capped_counts,
  moves,  ///< fewest moves
  capped_moves,
  all,  ///< limit_search, which keeps every limit
};

/// The planner that keeps these limits, the most special one.
[[nodiscard]] inline limit_planner planner_for(placement_limits const& limits,
                                               std::size_t quantities)
{
  using then = second_objective::kind;
  all_caps const caps(limits);
  bool const is_capped = caps.size() > 0;
  bool const has_rules = limits.samples.kind == counts::rule::at_most || !limits.apart.empty() ||
                         (is_capped && caps[0].is_soft);
  bool const is_equal = limits.samples.kind == counts::rule::equal;
  bool const moves = limits.then.what() == then::fewest_moves;
  bool const is_plain = caps.size() <= 1 && (!is_capped || caps[0].rounded_to == 1) &&
                        limits.samples.kind != counts::rule::filled && limits.fits.empty() &&
                        limits.then.what() != then::level && limits.then.what() != then::least;
  bool const is_single = !is_equal && !moves;
  if (!is_plain || has_rules || (quantities > 1 && !is_single) || (is_equal && moves)) {
    return limit_planner::all;
  }
  if (is_equal) { return is_capped ? limit_planner::capped_counts : limit_planner::counts; }
  if (moves) { return is_capped ? limit_planner::capped_moves : limit_planner::moves; }
  return is_capped ? limit_planner::capped : limit_planner::policy;
}

/// What the planners other than limit_search read. Expects that they keep these limits.
[[nodiscard]] inline partition_constraints constraints_of(placement_limits const& limits)
{
  partition_constraints given{
      .together = limits.together, .home = limits.home, .starting_loads = limits.starting_loads};
  all_caps const caps(limits);
  if (caps.size() > 0) {
    given.most_per_gpu = caps[0].most_per_gpu;
    given.weights = caps[0].of;
    given.bag_capacities = caps[0].most;
  }
  return given;
}

/// Any policy by reference, so that what plans around one is compiled once.
class policy_ref {
 public:
  template <partition_policy Policy>
  explicit policy_ref(Policy const& policy)
      : policy_(&policy),
        run_([](void const* self, partition_problem const& problem, std::span<cost_units> loads,
                std::span<bag_id> owner, workspace& memory) {
          return run_policy(*static_cast<Policy const*>(self), problem, loads, owner, memory);
        }),
        batches_(batching_of(policy)),
        restricts_(restricts_plans(policy)),
        keeps_counts_(plans_keep_counts(policy)),
        keeps_homes_(plans_keep_homes(policy))
  {}

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    return run_(policy_, problem, loads, owner, memory);
  }
  [[nodiscard]] batching batches() const { return batches_; }
  [[nodiscard]] bool restricts() const { return restricts_; }
  [[nodiscard]] bool keeps_counts() const { return keeps_counts_; }
  [[nodiscard]] bool keeps_homes() const { return keeps_homes_; }

 private:
  void const* policy_;
  ratio (*run_)(void const*, partition_problem const&, std::span<cost_units>, std::span<bag_id>,
                workspace&);
  batching batches_;
  bool restricts_;
  bool keeps_counts_;
  bool keeps_homes_;
};

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

/// What limit_search has found for a step.
struct limited_step {
  ratio makespan;
  std::vector<bag_id> above_cap;
  bool is_proven = false;      ///< no plan within the limits is shorter
  bool is_tie_proven = false;  ///< nor better by the second objective, where all plans were tried
};

/// The step that limit_search plans, and the arrays that it reads.
class limited_items {
 public:
  /// Shapes      costs[n D], sample after sample; lengths[n], home[n] or empty.
  limited_items(std::span<cost_units const> costs, std::size_t quantities, step_samples const& step,
                bag_layout const& bags, placement_limits const& limits, workspace::frame& scratch)
      : limits_(limits), bags_(bags), caps_(limits)
  {
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
      for (std::size_t d = 0; d < quantities; ++d) {
        all[at + d] += costs[sample * quantities + d];
      }
      if (has_least) { all[at + quantities] += limits.then.of()[sample]; }
    }
    costs_ = all;
    std::span<cost_units> const starts =
        scratch.take<cost_units>(limits.starting_loads.empty() ? 0 : bags.size() * quantities_);
    std::fill(starts.begin(), starts.end(), 0);
    for (std::size_t at = 0; at < limits.starting_loads.size(); ++at) {
      starts[at / quantities * quantities_ + at % quantities] = limits.starting_loads[at];
    }
    starts_ = starts;

    for (std::size_t at = 0; at < caps_.size(); ++at) {
      std::span<std::int64_t> const takes = scratch.take<std::int64_t>(items);
      std::span<std::int64_t> const room = scratch.take<std::int64_t>(bags.size());
      std::fill(takes.begin(), takes.end(), 0);
      for (std::size_t sample = 0; sample < count; ++sample) {
        takes[item(sample)] += taken(caps_[at], sample, step.lengths.own);
      }
      for (std::size_t bag = 0; bag < room.size(); ++bag) {
        room[bag] = room_of_bag(bags, bag, caps_[at].most_per_gpu, caps_[at].most);
      }
      rooms_[at] = {takes, room, caps_[at].is_soft};
    }
    std::span<bool> const refused =
        scratch.take<bool>(limits.fits.empty() ? 0 : items * bags.size());
    std::fill(refused.begin(), refused.end(), false);
    for (std::size_t sample = 0; sample < (limits.fits.empty() ? 0 : count); ++sample) {
      for (std::size_t bag = 0; bag < bags.size(); ++bag) {
        bool const fits = limits.fits(to_id<sample_id>(sample), to_id<bag_id>(bag));
        refused[item(sample) * bags.size() + bag] |= !fits;
      }
    }
    refused_ = refused;
  }

  /// Reads what counts and samples that are apart ask for.
  ///
  /// Errors      infeasible: as read_rules.
  [[nodiscard]] result<void> read(workspace::frame& scratch)
  {
    bool const is_limited = limits_.samples.kind == counts::rule::at_most;
    std::int64_t const most = is_limited ? limits_.samples.number : no_limit;
    bool const has_rules = is_limited || !limits_.apart.empty();
    if (has_rules) {
      std::size_t const samples = item_of_.empty() ? items_.lengths.size() : item_of_.size();
      auto read = read_rules(most, limits_.apart, items_, item_of_, samples, bags_.size(), scratch);
      if (!read) { return tl::unexpected(std::move(read).error()); }
      rules_ = *read;
    }
    counts_ = count_limits::any(items_.lengths.size());
    counts_.most_samples = most;
    if (limits_.samples.kind == counts::rule::equal) {
      counts_ = count_limits::equal(items_.lengths.size(), bags_.size(), limits_.samples.number);
    } else if (limits_.samples.kind == counts::rule::filled) {
      counts_.least = 1;
    }
    base_ = {{}, items_.lengths, {}, bags_.sizes(), bags_.speeds(), items_.home};
    base_.joint_lengths = items_.joint_lengths;
    base_.first_part = items_.first_part;
    base_.parts = items_.parts;
    if (has_rules) { base_.rules = &rules_; }
    return {};
  }

  [[nodiscard]] placement_problem problem() const
  {
    return {
        base_,    quantities_, costs_, starts_, bags_.speeds(), {}, {rooms_.data(), caps_.size()},
        refused_, counts_};
  }
  [[nodiscard]] std::size_t ranked() const noexcept { return ranked_; }
  [[nodiscard]] planned_items const& items() const noexcept { return items_; }
  [[nodiscard]] std::size_t item(std::size_t sample) const
  {
    return item_of_.empty() ? sample : item_of_[sample];
  }

  /// A makespan that no plan gets below, in one quantity after the other.
  [[nodiscard]] ratio lower_bound(workspace& memory) const
  {
    ratio bound;
    auto scratch = memory.open();
    std::size_t const items = items_.lengths.size();
    auto const costs = scratch.take<cost_units>(items);
    auto const starts = scratch.take<cost_units>(starts_.empty() ? 0 : bags_.size());
    auto const order = scratch.take<priced_sample>(items);
    for (std::size_t d = 0; d < ranked_; ++d) {
      for (std::size_t at = 0; at < items; ++at) { costs[at] = costs_[at * quantities_ + d]; }
      for (std::size_t bag = 0; bag < starts.size(); ++bag) {
        starts[bag] = starts_[bag * quantities_ + d];
      }
      cost_units const unit =
          std::max<cost_units>(common_divisor(starts, common_divisor(costs)), 1);
      for (cost_units& cost : costs) { cost /= unit; }
      for (cost_units& start : starts) { start /= unit; }
      descending_order_into(order, costs, memory);
      partition_problem one{costs, items_.lengths, order, bags_.sizes(), bags_.speeds()};
      ratio of_one = makespan_lower_bound(one, memory, starts);
      bool const are_one = item_of_.empty();
      std::int64_t const most = std::min(counts_.most, are_one ? counts_.most_samples : no_limit);
      of_one = std::max(of_one, bound_by_counts(one, most));
      of_one.numerator *= unit;
      bound = std::max(bound, of_one);
    }
    return bound;
  }

 private:
  [[nodiscard]] static std::int64_t taken(cap const& of, std::size_t sample,
                                          std::span<tokens const> lengths)
  {
    std::int64_t const takes = of.of.empty() ? lengths[sample] : of.of[sample];
    std::int64_t const over = takes % of.rounded_to;
    return over == 0 ? takes : takes - over + of.rounded_to;
  }

  placement_limits const& limits_;
  bag_layout const& bags_;
  all_caps caps_;
  planned_items items_;
  std::span<std::uint32_t> item_of_;
  std::size_t ranked_ = 0;
  std::size_t quantities_ = 0;
  std::span<cost_units const> costs_;
  std::span<cost_units const> starts_;
  std::array<placement_problem::limit, caps::most + 1> rooms_;
  std::span<bool const> refused_;
  partition_problem::placement_rules rules_{no_limit};
  partition_problem base_;
  count_limits counts_;
};

/// The limits of which none can be left out for a plan to exist, as far as a search of all tells;
/// where it gave up, all that were given.
[[nodiscard, gnu::cold]] inline std::string conflicting_limits(placement_problem problem,
                                                               placement_limits const& limits,
                                                               bool is_proven, workspace& memory)
{
  constexpr std::uint64_t work = 200'000;
  auto scratch = memory.open();
  std::span<placement_problem::limit> const kept =
      scratch.take<placement_problem::limit>(problem.limits.size());
  std::copy(problem.limits.begin(), problem.limits.end(), kept.begin());
  partition_problem items = problem.items;
  partition_problem::placement_rules rules{no_limit};
  if (items.rules != nullptr) { rules = *items.rules; }
  items.rules = &rules;
  std::vector<std::string> names;
  auto const is_needed = [&](placement_problem const& without) {
    if (!is_proven) { return true; }
    auto frame = memory.open();
    limit_search search(without, 1, {no_cost, 1}, work, memory, frame);
    return search(plan_tie::none, 0) || !search.is_proven();
  };
  auto const problem_with = [&](count_limits counts, std::span<bool const> refused) {
    return placement_problem{
        items, problem.quantities, problem.costs, problem.starts, problem.speeds, {}, kept, refused,
        counts};
  };
  count_limits counts = problem.counts;
  std::span<bool const> refused = problem.refused;
  bool const has_first = limits.most_per_gpu != no_limit;
  for (std::size_t at = 0; at < kept.size(); ++at) {
    std::span<std::int64_t> const endless = scratch.take<std::int64_t>(problem.places());
    std::fill(endless.begin(), endless.end(), no_limit);
    std::span<std::int64_t const> const room = std::exchange(kept[at].room, endless);
    if (!is_needed(problem_with(counts, refused))) { continue; }
    kept[at].room = room;
    names.push_back(has_first && at == 0 ? "limits.most_per_gpu"
                                         : concat("limits.also[", at - (has_first ? 1 : 0), "]"));
  }
  if (limits.samples.kind != counts::rule::any) {
    count_limits const all = std::exchange(counts, count_limits::any(problem.size()));
    if (is_needed(problem_with(counts, refused))) {
      counts = all;
      names.emplace_back("limits.samples");
    }
  }
  if (!limits.apart.empty()) {
    partition_problem::placement_rules const all = rules;
    rules.first_group = {};
    if (is_needed(problem_with(counts, refused))) {
      rules = all;
      names.emplace_back("limits.apart");
    }
  }
  if (!limits.fits.empty()) {
    if (is_needed(problem_with(counts, {}))) {
      names.emplace_back("limits.fits");
    } else {
      refused = {};
    }
  }
  std::string text;
  for (std::size_t at = 0; at < names.size(); ++at) {
    text += at == 0 ? "" : at + 1 == names.size() ? " and " : ", ";
    text += names[at];
  }
  return text.empty() ? std::string("the lengths of samples and the sizes of bags") : text;
}

/// Plans a step by limit_search: the owner of each sample.
///
/// Shapes      costs[n D], sample after sample; owner[n].
/// In, out     owner enters as the plan to begin with, or as bag m, which does not exist.
/// Errors      infeasible: no plan keeps the limits, or the search found none before it gave up.
[[nodiscard]] inline result<limited_step> place_by_limits(
    std::span<cost_units const> costs, std::size_t quantities, step_samples const& step,
    bag_layout const& bags, placement_limits const& limits, std::uint64_t work,
    std::span<bag_id> owner, ratio& lower_bound, workspace& memory)
{
  auto scratch = memory.open();
  limited_items items(costs, quantities, step, bags, limits, scratch);
  if (auto read = items.read(scratch); !read) { return tl::unexpected(std::move(read).error()); }
  placement_problem const problem = items.problem();
  lower_bound = items.lower_bound(memory);
  auto frame = memory.open();
  limit_search search(problem, items.ranked(), lower_bound, work, memory, frame);
  using kind = second_objective::kind;
  plan_tie const tie = limits.then.what() == kind::level          ? plan_tie::level
                       : limits.then.what() == kind::fewest_moves ? plan_tie::fewest_moves
                                                                  : plan_tie::none;
  std::span<std::uint32_t> const start = frame.take<std::uint32_t>(problem.size());
  bool const has_start = !owner.empty() && to_index(owner.front()) != bags.size();
  for (std::size_t sample = 0; sample < owner.size() && has_start; ++sample) {
    start[items.item(sample)] = static_cast<std::uint32_t>(to_index(owner[sample]));
  }
  if (has_start) { search.begin_with(start); }
  if (!search(tie, limits.within_per_million)) {
    bool const is_proven = search.is_proven();
    workspace other;
    std::string const names = conflicting_limits(problem, limits, is_proven, other);
    bool const is_one = names.find(' ') == std::string::npos;
    return fail(
        error_code::infeasible, 0, counted(problem.size(), "item"), " in ",
        counted(bags.size(), "bag"),
        is_proven ? " have no plan that keeps " : " found no plan that keeps ", names,
        !is_proven ? " before the search gave up; raise one, add bags, or give it more work, as "
                     "refine{.work = 20'000'000}"
        : is_one   ? "; raise it or leave it out"
                   : " together, and each of these is needed for that; raise or leave out one");
  }
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    owner[sample] = to_id<bag_id>(search.plan().owner(items.item(sample)));
  }
  if (search.is_proven()) { lower_bound = std::max(lower_bound, search.makespan()); }
  limited_step made{search.makespan(), {}, search.is_proven(), search.is_tie_proven()};
  for (std::size_t bag = 0; bag < problem.places(); ++bag) {
    for (std::size_t at = 0; at < problem.limits.size(); ++at) {
      if (search.plan().held(at, bag) <= problem.limits[at].room[bag]) { continue; }
      made.above_cap.push_back(to_id<bag_id>(bag));
      break;
    }
  }
  return made;
}

/// How much the search of a policy may do: of `refine` what it says.
template <class Policy>
[[nodiscard]] std::uint64_t work_of(Policy const& policy)
{
  if constexpr (requires { policy.work_per_sample; }) {
    return policy.work;
  } else {
    return refine<>().work;
  }
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
  std::span<bag_id> const home = scratch.take<bag_id>(limits.home.size());
  std::transform(limits.home.begin(), limits.home.end(), home.begin(),
                 [&bags](rank_id rank) { return bags.bag_of(rank); });
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
  auto const placed = place_by_limits(costs, quantities, {lengths, {}, home}, bags, limits, work,
                                      mutable_span_of(plan.owner), bound, memory);
  if (!placed) { return tl::unexpected(placed.error()); }
  for (std::size_t each = 0; each < costs.size(); ++each) {
    auto const bag = to_index(plan.owner[each / quantities]);
    at(plan.loads, bag * quantities + each % quantities) += costs[each];
  }
  plan.samples.collect(span_of(plan.owner), bags.size());
  plan.makespan = makespan_of(span_of(plan.loads), bags.speeds());
  plan.lower_bound = bound;
  plan.then_is_proven = placed->is_tie_proven;
  plan.above_cap = placed->above_cap;
  plan.moved = moved_share(span_of(plan.owner), lengths.own, home);
  return {};
}

/// Plans samples whose costs are in the plan by one quantity: what of partition_into() knows nothing
/// of the types of samples, cost model and policy, so that a program compiles it once, or not at all
/// with ballast::compiled.
///
/// In, out     the plan has costs, attention and batches; the rest is written.
/// Errors      as partition_into.
template <partition_policy Policy>
[[nodiscard]] result<void> plan_limited(partition_plan& plan, workspace& memory,
                                        sample_lengths const& lengths, bag_layout const& bags,
                                        Policy const& policy, std::uint64_t work,
                                        placement_limits const& limits)
{
  limit_planner const planner = planner_for(limits, 1);
  plan.then_is_proven = false;
  bool const free = plans_are_free(policy);
  if (!free && planner != limit_planner::policy && planner != limit_planner::capped) {
    return fail(error_code::infeasible, 0,
                "a policy that pads samples, or keeps counts or homes itself, keeps one cap alone; "
                "use refine{} with limits.samples or limits.then, or leave the other limits out");
  }
  // equal_count gives large bags fewer samples where some are too short for these.
  bool const counts = planner == limit_planner::counts || planner == limit_planner::capped_counts;
  bool const is_uneven = std::any_of(bags.sizes().begin(), bags.sizes().end(),
                                     [&](std::uint32_t size) { return size != bags.sizes()[0]; });
  if (planner == limit_planner::all || (counts && is_uneven)) {
    return plan_within(plan, memory, lengths, bags, work, limits);
  }
  auto const by = [&](auto const& with) {
    return plan_priced(plan, memory, lengths, bags, with, constraints_of(limits));
  };
  equal_count const equally{static_cast<std::uint32_t>(limits.samples.number)};
  std::uint32_t const tolerance = limits.within_per_million;
  auto const by_planner = [&] {
    switch (planner) {
      case limit_planner::capped: return free ? by(capped<Policy>{policy}) : by(policy);
      case limit_planner::counts: return by(equally);
      case limit_planner::capped_counts: return by(capped<equal_count>{equally});
      case limit_planner::moves: return by(least_movement<Policy>{policy, tolerance});
      case limit_planner::capped_moves:
        return by(least_movement<capped<Policy>>{{policy}, tolerance});
      default: return by(policy);
    }
  };
  auto done = by_planner();
  // A small step goes on from there, to a proof, or to a plan where that found none.
  constexpr std::uint64_t share = 2;
  bool const moves = planner == limit_planner::moves || planner == limit_planner::capped_moves;
  bool const is_open = (done && (moves || !plan.proven_optimal())) ||
                       (!done && done.error().code == error_code::infeasible);
  if (planner == limit_planner::policy || !is_open || !free ||
      !limit_search::is_small(lengths.own.size(), bags.size())) {
    return done;
  }
  auto within = plan_within(plan, memory, lengths, bags, work / share, limits, done.has_value());
  return done || within ? within : done;
}

/// The same by several quantities.
template <std::size_t D, cost_vector_policy<D> Policy>
[[nodiscard]] result<void> plan_limited(cost_vector_plan<D>& plan, workspace& memory,
                                        sample_lengths const& lengths, bag_layout const& bags,
                                        Policy const& policy, std::uint64_t work,
                                        placement_limits const& limits)
{
  plan.then_is_proven = false;
  if (planner_for(limits, D) == limit_planner::all) {
    return plan_within(plan, memory, lengths, bags, work, limits);
  }
  return plan_priced(plan, memory, lengths, bags, policy, constraints_of(limits));
}

}  // namespace ballast::inline v0::detail
