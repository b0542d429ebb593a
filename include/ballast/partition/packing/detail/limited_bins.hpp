// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/placement/plan_limited.hpp>
#include <ballast/partition/packing/detail/fewest_bins.hpp>
#include <ballast/partition/packing/pack.hpp>

namespace ballast::inline v0::detail {

[[nodiscard, gnu::cold]] inline tl::unexpected<error> refuse_heavy(std::size_t sample,
                                                                   bool has_others,
                                                                   std::int64_t takes,
                                                                   std::string const& name,
                                                                   std::int64_t room)
{
  return fail(error_code::infeasible, sample, "sample ", sample,
              has_others ? " and what stays with it take " : " takes ", takes, " of ", name,
              ", and a bin has ", room, "; split it, leave it out or raise the cap");
}

/// Refuses what says nothing of bins, or is out of range.
[[nodiscard]] inline result<void> check_packing(placement_limits const& limits, bins const& wanted,
                                                std::size_t samples)
{
  using kind = second_objective::kind;
  auto const refuse = [](auto const&... pieces) {
    return fail(error_code::out_of_range, 0, pieces...);
  };
  if (samples >= (std::uint64_t{1} << 32)) {
    return refuse("a step has more than 2^32 - 1 samples; split it");
  }
  constexpr std::size_t most_bins = std::size_t{1} << 31;
  if (wanted.multiple_of == 0 || wanted.least > most_bins || wanted.multiple_of > most_bins) {
    return refuse("bins asks for at least ", wanted.least, " and a multiple of ",
                  wanted.multiple_of, "; give at most 2^31, and a multiple of 1 or more");
  }
  bool has_most = false;
  bool has_soft = false;
  for (std::size_t at = 0; at < std::min(limits.also.size(), caps::most); ++at) {
    has_most = has_most || !limits.also[at].most.empty();
    has_soft = has_soft || limits.also[at].is_soft;
  }
  char const* const unread = !limits.home.empty()             ? "home"
                             : !limits.starting_loads.empty() ? "starting_loads"
                             : !limits.fits.empty()           ? "fits"
                             : limits.within_per_million > 0  ? "within_per_million"
                             : has_most                       ? "also.most"
                                                              : nullptr;
  if (unread != nullptr) {
    return refuse("limits.", unread,
                  " is of bags that are there already, and a packing makes its "
                  "bins; leave it out, or use partition()");
  }
  if (auto checked = check_limits(limits, samples, 1, 1); !checked) { return checked; }
  auto const rule = limits.samples.kind;
  bool const is_simple = all_caps(limits).size() <= 1 && !has_soft && limits.together.empty() &&
                         limits.apart.empty() && limits.mixes.empty() &&
                         rule != counts::rule::equal && rule != counts::rule::multiple_of &&
                         limits.then.what() != kind::least;
  if (wanted.is_padded && !is_simple) {
    return refuse(
        "padded bins keep one cap that is not soft, at most so many samples, and "
        "most_level; leave the other limits out, or is_padded");
  }
  return {};
}

/// Bins for samples within all limits: a first packing by one cap alone, by a partition into some
/// number of bins, or item by item; fewer bins by `limit_search`, which tries all plans of small steps;
/// then what decides among packings into as many bins.
///
/// Samples that stay together are one item. One above a soft cap is alone in its bin.
class limited_bins {
 public:
  /// Shapes      lengths[n]. n >= 1.
  /// In, out     the plan has weights; it gets owners and bounds.
  limited_bins(packing_plan& plan, std::span<tokens> lengths, placement_limits const& limits,
               bins const& wanted, workspace& memory)
      : plan_(plan),
        lengths_{lengths, lengths},
        weights_(span_of(plan.weights)),
        owner_(mutable_span_of(plan.owner)),
        limits_(limits),
        wanted_(wanted),
        memory_(memory),
        caps_(limits),
        item_of_(lengths.size())
  {
    limits_.then = {};
    is_one_cap_ =
        caps_.size() <= 1 && limits.apart.empty() && limits.mixes.empty() && !is_multiple();
    by_partition_ = is_one_cap_ && !(caps_.size() > 0 && caps_[0].is_soft);
    is_level_ = limits.then.what() == second_objective::kind::level;
    least_of_ = limits.then.of();
  }

  /// Returns     the number of bins.
  /// Errors      infeasible: an item takes more than a bin has, or no number of bins keeps the limits,
  ///             or none was found that does.
  [[nodiscard]] result<std::size_t> operator()()
  {
    if (auto done = read(); !done) { return tl::unexpected(std::move(done).error()); }
    least_ = wanted_.allowed(least_);
    first_ = least_;
    most_ = std::max(wanted_.allowed(items_), least_);
    if (is_filled() && most_ > items_) { most_ = items_ - items_ % wanted_.multiple_of; }
    bool const asks = wanted_.least > 0 || wanted_.multiple_of > 1;
    if (by_partition_ && (asks || is_equal() || bins_ == 0)) {
      climb(is_equal() ? items_ : few_numbers,
            [this](std::size_t number) { return divide(number); });
    }
    if (bins_ == 0 && !is_equal() && !is_multiple()) { fill(); }
    if (by_partition_ && asks && bins_ > 0 && !is_divided_) { divide(wanted_.allowed(bins_)); }
    bool const is_small = items_ <= limit_search::most_items;
    if (is_small || bins_ == 0) {
      climb(items_,
            [this](std::size_t number) { return search(number, weights_, plan_tie::none, false); });
    }
    if (bins_ > 0 && !is_multiple()) { spread(); }
    if (bins_ == 0 || (is_filled() && bins_ > items_)) { return refuse(); }
    if (!least_of_.empty()) { (void)search(bins_, least_of_, plan_tie::none, true); }
    if (is_level_ || (asks && least_of_.empty() && (is_small || !is_divided_))) {
      (void)search(bins_, weights_, is_level_ ? plan_tie::level : plan_tie::none, true);
    }
    plan_.lower_bound = least_;
    return bins_;
  }

  /// The fewest bins in which count x longest is at most the cap, and of as many bins those whose
  /// largest is least, where `levels`. Expects that no length is above the cap.
  ///
  /// Longest first, each bin takes as many as it can. That is the fewest: the bin of the longest
  /// sample holds no more in any packing, and what it holds there can be exchanged for the next
  /// longest ones, which makes no bin longer.
  [[nodiscard]] result<std::size_t> pad(std::int64_t capacity, bool levels)
  {
    items_ = weights_.size();
    std::iota(item_of_.begin(), item_of_.end(), std::uint32_t{0});
    auto scratch = memory_.open();
    std::span<priced_sample> const order = scratch.take<priced_sample>(items_);
    descending_order_into(order, weights_, memory_);
    bool const has_most = limits_.samples.kind == counts::rule::at_most;
    std::int64_t const most = has_most ? limits_.samples.number : no_limit;
    auto const bins_within = [&](std::int64_t limit) {
      std::size_t opened = 0;
      for (std::size_t at = 0; at < items_; ++opened) {
        std::int64_t const longest = order[at].cost;
        std::int64_t left = std::min(longest == 0 ? no_limit : limit / longest, most);
        for (; left > 0 && at < items_; --left) {
          owner_[to_index(order[at++].sample)] = to_id<bag_id>(opened);
        }
      }
      return opened;
    };
    least_ = wanted_.allowed(bins_within(capacity));
    plan_.largest_bound = least_that(order.front().cost, capacity, [&](std::int64_t limit) {
      return bins_within(limit) <= least_;
    });
    bins_ = bins_within(levels ? plan_.largest_bound : capacity);
    plan_.lower_bound = least_;
    first_ = 1;
    spread();
    if (is_filled() && bins_ > items_) { return refuse(); }
    return bins_;
  }

 private:
  static constexpr std::size_t few_numbers = 8;
  enum class search_end : std::uint8_t { found, gave_up, impossible };

  [[nodiscard]] bool is_equal() const { return limits_.samples.kind == counts::rule::equal; }
  [[nodiscard]] bool is_multiple() const
  {
    return limits_.samples.kind == counts::rule::multiple_of;
  }
  [[nodiscard]] bool is_filled() const { return limits_.samples.kind == counts::rule::filled; }

  [[nodiscard]] static std::int64_t rounded_up(ratio bound)
  {
    auto const [numerator, denominator] = bound;
    return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
  }

  /// The limits but for counts that depend on the number of bins.
  [[nodiscard]] placement_limits relaxed() const
  {
    placement_limits limits = limits_;
    if (is_equal() || is_filled()) { limits.samples = {}; }
    return limits;
  }

  /// Reads the items, bounds the number of bins, and packs by one cap where that is all.
  [[nodiscard]] result<void> read()
  {
    auto scratch = memory_.open();
    bag_layout const bags = one_gpu_bags(weights_.size());
    placement_limits const limits = relaxed();
    limited_items items(weights_, 1, {lengths_, {}, {}}, bags, limits, scratch);
    if (auto done = items.read(scratch); !done) { return done; }
    placement_problem const problem = items.problem();
    items_ = problem.size();
    for (std::size_t sample = 0; sample < item_of_.size(); ++sample) {
      item_of_[sample] = static_cast<std::uint32_t>(items.item(sample));
    }
    std::vector<std::uint32_t> rest;
    std::vector<std::uint32_t> alone;
    for (std::uint32_t item = 0; item < items_; ++item) {
      bool is_alone = false;
      for (std::size_t at = 0; at < problem.limits.size(); ++at) {
        auto const& of = problem.limits[at];
        if (of.takes[item] <= of.room[0]) { continue; }
        if (!of.is_soft) {
          std::size_t const sample = items.items().sample_of(item);
          bool const has_others = std::count(item_of_.begin(), item_of_.end(), item) > 1;
          return refuse_heavy(sample, has_others, of.takes[item], name_of_cap(limits_, at),
                              of.room[0]);
        }
        is_alone = true;
      }
      (is_alone ? alone : rest).push_back(item);
    }

    std::vector<std::int64_t> takes(rest.size());
    auto const bound_by = [&](auto const& takes_of, std::int64_t room) {
      std::transform(rest.begin(), rest.end(), takes.begin(), takes_of);
      std::vector<priced_sample> order(rest.size());
      descending_order_into(order, takes, memory_);
      least_ = std::max(least_, alone.size() + least_bins(order, room, 5));
    };
    for (auto const& of : problem.limits) {
      bound_by([&](std::uint32_t item) { return of.takes[item]; }, of.room[0]);
    }
    if (limits.samples.kind == counts::rule::at_most) {
      bound_by([&](std::uint32_t item) { return problem.samples_of(item); }, limits.samples.number);
    }
    if (auto const* rules = problem.items.rules; rules != nullptr) {
      for (std::size_t group = 1; group < rules->first_member.size(); ++group) {
        least_ = std::max<std::size_t>(least_,
                                       rules->first_member[group] - rules->first_member[group - 1]);
      }
    }
    least_ = std::max<std::size_t>(least_, 1);
    if (!is_one_cap_) { return {}; }

    std::int64_t room = no_limit;
    std::fill(takes.begin(), takes.end(), 0);
    for (auto const& of : problem.limits) {
      room = of.room[0];
      for (std::size_t at = 0; at < rest.size(); ++at) { takes[at] = of.takes[rest[at]]; }
    }
    std::vector<bag_id> owner(rest.size());
    bins_found const made = fewest_bins(takes, room, wanted_.work, owner, memory_);
    least_ = std::max(least_, alone.size() + made.lower_bound);
    std::vector<std::uint32_t> places(items_);
    for (std::size_t at = 0; at < rest.size(); ++at) {
      places[rest[at]] = static_cast<std::uint32_t>(owner[at]);
    }
    auto bins = static_cast<std::uint32_t>(made.bins);
    for (std::uint32_t const item : alone) { places[item] = bins++; }
    take(places, bins);
    if (is_equal() || !counts_fit(owner_, bins)) { bins_ = 0; }
    return {};
  }

  [[nodiscard]] bool counts_fit(std::span<bag_id const> owner, std::size_t bins) const
  {
    if (limits_.samples.kind != counts::rule::at_most) { return true; }
    std::vector<std::int64_t> held(bins, 0);
    return std::all_of(owner.begin(), owner.end(),
                       [&](bag_id bin) { return ++held[to_index(bin)] <= limits_.samples.number; });
  }

  search_end divide(std::size_t number)
  {
    bag_layout const bags = one_gpu_bags(number);
    placement_limits limits{.together = limits_.together};
    if (caps_.size() > 0) {
      limits.also = {cap{.of = weights_, .most_per_gpu = caps_[0].most_per_gpu}};
    }
    if (!is_filled()) { limits.samples = limits_.samples; }
    auto const try_it = [&](bool is_bounded) {
      auto const plan = partition(weights_, bags, std::identity{}, no_length{}, limits);
      if (!plan || !counts_fit(span_of(plan->owner), number)) { return false; }
      std::copy(plan->owner.begin(), plan->owner.end(), owner_.begin());
      plan_.largest_bound = is_bounded ? rounded_up(plan->lower_bound) : 0;
      return true;
    };
    is_divided_ = try_it(true);
    if (!is_divided_ && !is_equal()) {  // stricter, and found more easily
      limits.samples = counts::equal();
      is_divided_ = try_it(false);
    }
    if (!is_divided_) { return search_end::gave_up; }
    bins_ = number;
    return search_end::found;
  }

  /// First fit of items by their largest share of a cap, by the sum of their shares, and by each cap;
  /// keeps the fewest bins. O(items bins) for each, as long as there is work for it.
  void fill()
  {
    auto scratch = memory_.open();
    bag_layout const bags = one_gpu_bags(items_);
    placement_limits const limits = relaxed();
    limited_items items(weights_, 1, {lengths_, {}, {}}, bags, limits, scratch);
    if (!items.read(scratch)) { return; }
    placement_problem const problem = items.problem();
    std::size_t const keys = 2 + problem.limits.size();
    std::vector<std::uint64_t> shares(items_ * keys, 0);
    for (std::size_t item = 0; item < items_; ++item) {
      std::uint64_t* const share = &shares[item * keys];
      for (std::size_t at = 0; at + 2 < keys; ++at) {
        auto const takes = static_cast<std::uint64_t>(problem.limits[at].takes[item]);
        auto const room = static_cast<std::uint64_t>(problem.limits[at].room[0]);
        share[2 + at] =
            static_cast<std::uint64_t>((uint128{takes} << 20U) / std::max<std::uint64_t>(room, 1));
        share[0] = std::max(share[0], share[2 + at]);
        share[1] += share[2 + at];
      }
    }
    std::vector<std::uint32_t> order(items_);
    work_budget work(wanted_.work);
    for (std::size_t key = 0; key < keys && (bins_ == 0 || !work.spent()); ++key) {
      std::iota(order.begin(), order.end(), std::uint32_t{0});
      std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return precedes(shares[b * keys + key], shares[a * keys + key], shares[b * keys + 1],
                        shares[a * keys + 1], a, b);
      });
      auto frame = memory_.open();
      plan_state plan(problem, frame);
      std::size_t opened = 0;
      for (std::uint32_t const item : order) {
        if (cancel_scope::is_cancelled()) { return; }
        std::size_t bin = 0;
        while (bin < opened && !plan.admits(item, bin)) { ++bin; }
        work.spend(bin);
        opened = std::max(opened, bin + 1);
        plan.put(item, bin);
      }
      if (bins_ == 0 || opened < bins_) { take(plan.owners(), opened); }
    }
  }

  void take(std::span<std::uint32_t const> places, std::size_t bins)
  {
    for (std::size_t sample = 0; sample < owner_.size(); ++sample) {
      owner_[sample] = bag_id{places[item_of_[sample]]};
    }
    bins_ = bins;
  }

  /// Tries numbers of bins from the bound on, until one has a packing: each of the first, then
  /// larger steps. The bound grows with each that is proven impossible.
  template <class Try>
  void climb(std::size_t most_tried, Try const& try_number)
  {
    bool is_bound = true;
    std::size_t number = least_;
    for (std::size_t tried = 0; tried < most_tried && number <= most_; ++tried) {
      if (cancel_scope::is_cancelled()) { return; }
      if (bins_ > 0 && number >= wanted_.allowed(bins_)) { return; }
      search_end const end = try_number(number);
      if (end == search_end::found) { return; }
      is_bound = is_bound && end == search_end::impossible;
      number = wanted_.allowed(number + 1 + (tried > limit_search::most_items ? number / 8 : 0));
      if (is_bound) { least_ = number; }
    }
    is_impossible_ = is_bound && bins_ == 0 && number > most_;
  }

  /// Searches a packing into so many bins, from one if it is known; `improves` the largest sum of costs.
  search_end search(std::size_t number, std::span<cost_units const> costs, plan_tie tie,
                    bool improves)
  {
    auto scratch = memory_.open();
    bag_layout const bags = one_gpu_bags(number);
    limited_items items(costs, 1, {lengths_, {}, {}}, bags, limits_, scratch);
    if (!items.read(scratch)) { return search_end::impossible; }
    placement_problem const problem = items.problem();
    ratio const bound = improves ? items.lower_bound(memory_) : ratio{no_cost, 1};
    limit_search find(problem, 1, bound, wanted_.work, memory_, scratch);
    std::span<std::uint32_t> const start = scratch.take<std::uint32_t>(problem.size());
    for (std::size_t sample = 0; sample < owner_.size() && bins_ == number; ++sample) {
      start[item_of_[sample]] = static_cast<std::uint32_t>(owner_[sample]);
    }
    if (bins_ == number) { find.begin_with(start); }
    if (!find(tie, 0)) { return find.is_proven() ? search_end::impossible : search_end::gave_up; }
    take(find.plan().owners(), number);
    if (improves && costs.data() == weights_.data()) {
      plan_.largest_bound =
          std::max(plan_.largest_bound, rounded_up(find.is_proven() ? find.makespan() : bound));
    }
    return search_end::found;
  }

  /// Drops empty bins; then as many as are asked for get items of those with most, as far as there
  /// are any. No load grows.
  void spread()
  {
    std::vector<std::vector<std::uint32_t>> held(bins_);
    std::vector<bool> is_seen(items_, false);
    for (std::size_t sample = 0; sample < owner_.size(); ++sample) {
      std::uint32_t const item = item_of_[sample];
      if (!is_seen[item]) { held[to_index(owner_[sample])].push_back(item); }
      is_seen[item] = true;
    }
    held.erase(
        std::remove_if(held.begin(), held.end(), [](auto const& bin) { return bin.empty(); }),
        held.end());
    std::size_t const filled = held.size();
    bins_ = wanted_.allowed(filled);
    held.resize(bins_);
    auto const has_fewer = [&held](std::size_t a, std::size_t b) {
      return precedes(held[a].size(), held[b].size(), b, a);
    };
    std::vector<std::size_t> heap(filled);
    std::iota(heap.begin(), heap.end(), std::size_t{0});
    std::make_heap(heap.begin(), heap.end(), has_fewer);
    for (std::size_t bin = filled; bin < bins_ && !is_equal(); ++bin) {
      if (held[heap.front()].size() < 2) { break; }
      std::pop_heap(heap.begin(), heap.end(), has_fewer);
      auto& most = held[heap.back()];
      held[bin].push_back(most.back());
      most.pop_back();
      std::push_heap(heap.begin(), heap.end(), has_fewer);
    }
    std::vector<std::uint32_t> places(items_);
    for (std::uint32_t bin = 0; bin < held.size(); ++bin) {
      for (std::uint32_t const item : held[bin]) { places[item] = bin; }
    }
    take(places, bins_);
  }

  [[nodiscard, gnu::cold]] tl::unexpected<error> refuse()
  {
    std::string names = "limits.samples";
    if (most_ >= first_) {
      auto scratch = memory_.open();
      bag_layout const bags = one_gpu_bags(most_);
      limited_items items(weights_, 1, {lengths_, {}, {}}, bags, limits_, scratch);
      if (auto done = items.read(scratch); !done) {
        return tl::unexpected(std::move(done).error());
      }
      workspace other;
      names = conflicting_limits(items.problem(), limits_, is_impossible_, other);
    }
    return fail(error_code::infeasible, 0, counted(items_, "item"),
                is_impossible_ || most_ < first_ ? " have no packing" : " found no packing",
                " that keeps ", names, " in any number of bins that is allowed, from ", first_,
                " on; raise or leave out one");
  }

  packing_plan& plan_;
  sample_lengths lengths_;
  std::span<std::int64_t const> weights_;
  std::span<bag_id> owner_;
  placement_limits limits_;
  bins const& wanted_;
  workspace& memory_;
  all_caps caps_;
  std::vector<std::uint32_t> item_of_;
  std::size_t items_ = 0;
  std::size_t bins_ = 0;  // 0: none found yet
  std::size_t least_ = 0;
  std::size_t first_ = 0;  // bins that are tried
  std::size_t most_ = 0;
  std::span<std::int64_t const> least_of_;
  bool is_one_cap_ = false;  // and nothing apart
  bool by_partition_ = false;
  bool is_level_ = false;
  bool is_divided_ = false;
  bool is_impossible_ = false;
};

BALLAST_ONCE result<void> pack_lengths(packing_plan& plan, workspace& memory,
                                       placement_limits const& limits, bins const& wanted)
{
  using then = second_objective::kind;
  std::size_t const count = plan.weights.size();
  if (auto checked = check_packing(limits, wanted, count); !checked) { return checked; }
  all_caps const caps(limits);
  cap const first = caps.size() > 0 ? caps[0] : cap{};
  std::int64_t left = std::numeric_limits<std::int64_t>::max() - 1;
  std::int64_t rounding = 0;
  for (std::size_t at = 0; at < caps.size(); ++at) {
    if (caps[at].of.empty()) { rounding = std::max(rounding, caps[at].rounded_to - 1); }
  }
  auto scratch = memory.open();
  std::span<tokens> const lengths = scratch.take<tokens>(count);
  std::copy(plan.weights.begin(), plan.weights.end(), lengths.begin());
  for (std::size_t sample = 0; sample < count; ++sample) {
    tokens const length = lengths[sample];
    if (length < 0 || length > left || rounding > left - length) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " of length ", length,
                  length < 0 ? " is negative; correct its length"
                             : " brings the total above 63 bits; use a coarser unit or pack fewer "
                               "samples");
    }
    left -= length + rounding;
    plan.weights[sample] = taken_of(first, sample, lengths);
  }
  plan.most_per_gpu = first.most_per_gpu;
  plan.owner.resize(count);
  plan.above_cap.clear();
  std::size_t bins = wanted.allowed(0);  // of no samples
  plan.lower_bound = bins;
  plan.largest_bound = 0;
  bool const asks = bins > 0 || wanted.multiple_of > 1;
  auto const rule = limits.samples.kind;
  bool const is_plain = caps.size() <= 1 && !first.is_soft && limits.together.empty() &&
                        limits.apart.empty() && limits.mixes.empty() &&
                        limits.then.what() == then::none && !asks &&
                        (rule == counts::rule::any || rule == counts::rule::filled);
  for (std::size_t sample = 0; (is_plain || wanted.is_padded) && sample < count; ++sample) {
    if (plan.weights[sample] <= first.most_per_gpu) { continue; }
    return refuse_heavy(sample, false, plan.weights[sample], name_of_cap(limits, 0),
                        first.most_per_gpu);
  }
  if (count == 0 && bins > 0 && rule == counts::rule::filled) {
    return fail(error_code::infeasible, 0, "there is no sample to fill ", counted(bins, "bin"),
                "; leave out limits.samples or bins.least");
  }
  if (count > 0 && is_plain && !wanted.is_padded) {
    bins_found const made = fewest_bins(span_of(plan.weights), first.most_per_gpu, wanted.work,
                                        mutable_span_of(plan.owner), memory);
    bins = made.bins;
    plan.lower_bound = made.lower_bound;
  } else if (count > 0) {
    limited_bins within(plan, lengths, limits, wanted, memory);
    bool const levels = asks || limits.then.what() == then::level;
    auto const made = wanted.is_padded ? within.pad(first.most_per_gpu, levels) : within();
    if (!made) { return tl::unexpected(made.error()); }
    bins = *made;
  }

  plan.samples.collect(span_of(plan.owner), bins);
  plan.loads.assign(bins, 0);
  plan.empty.clear();
  std::int64_t total = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::int64_t const weight = plan.weights[sample];
    std::int64_t& load = plan.loads[to_index(plan.owner[sample])];
    load = wanted.is_padded ? std::max(load, weight) : load + weight;
    total += weight;
    plan.largest_bound = std::max(plan.largest_bound, weight);
  }
  for (std::size_t bin = 0; bin < bins; ++bin) {
    auto const row = plan.samples[to_id<bag_id>(bin)];
    if (row.empty()) { plan.empty.push_back(to_id<bag_id>(bin)); }
    if (wanted.is_padded) { plan.loads[bin] *= static_cast<std::int64_t>(row.size()); }
    bool is_above = false;
    for (std::size_t at = 0; at < caps.size(); ++at) {
      if (!caps[at].is_soft) { continue; }
      std::int64_t held = 0;
      for (sample_id const sample : row) { held += taken_of(caps[at], to_index(sample), lengths); }
      is_above = is_above || held > caps[at].most_per_gpu;
    }
    if (is_above) { plan.above_cap.push_back(to_id<bag_id>(bin)); }
  }
  if (total > 0) {
    auto const each = static_cast<std::int64_t>(bins);
    plan.largest_bound = std::max(plan.largest_bound, (total - 1) / each + 1);
  }
  return {};
}

}  // namespace ballast::inline v0::detail
