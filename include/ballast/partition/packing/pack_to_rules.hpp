// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>
#include <ballast/partition/packing/refine_bins.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>

#include <functional>
#include <ranges>

namespace ballast::inline v0 {

namespace detail {

/// A packing within packing_rules.
struct ruled_bins {
  std::vector<bag_id> owner;
  std::size_t bins = 0;
  std::size_t lower_bound = 0;
  std::int64_t largest_bound = 0;
};

/// The least number of bins from `bins` on that the rules allow.
[[nodiscard]] inline std::size_t allowed_bins(std::size_t bins, packing_rules const& rules)
{
  std::size_t const least = std::max(bins, rules.least_bins);
  std::size_t const more = least % rules.multiple_of;
  return more == 0 ? least : least + rules.multiple_of - more;
}

[[nodiscard]] inline bool asks_for_bins(packing_rules const& rules)
{
  return rules.least_bins > 0 || rules.multiple_of > 1;
}

/// Moves samples to bins without any, from those with most, until there are no such bins or no bin
/// has two samples. No load grows.
inline void fill_empty_bins(std::vector<bag_id>& owner, std::size_t bins)
{
  std::vector<std::vector<std::size_t>> held(bins);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    held[to_index(owner[sample])].push_back(sample);
  }
  auto const has_fewer = [&held](std::size_t a, std::size_t b) {
    return held[a].size() < held[b].size() || (held[a].size() == held[b].size() && b < a);
  };
  std::vector<std::size_t> heap;
  std::vector<std::size_t> empty;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    (held[bin].empty() ? empty : heap).push_back(bin);
  }
  std::make_heap(heap.begin(), heap.end(), has_fewer);
  for (std::size_t const bin : empty) {
    if (heap.empty() || held[heap.front()].size() < 2) { break; }
    std::pop_heap(heap.begin(), heap.end(), has_fewer);
    auto& most = held[heap.back()];
    owner[most.back()] = to_id<bag_id>(bin);
    most.pop_back();
    std::push_heap(heap.begin(), heap.end(), has_fewer);
  }
}

/// Bins of sums that keep to packing_rules, from a packing that keeps to the capacity.
///
/// Where rules ask for more, samples are partitioned into each number of bins from the bound on:
/// freely, and with equal counts, which is within most_samples if anything is. Where neither works
/// out, samples are put heaviest first into the first bin that has room for one.
class even_bins {
 public:
  /// Expects     both outlive it.
  even_bins(packing_plan const& packed, packing_rules const& rules) : packed_(packed), rules_(rules)
  {}

  [[nodiscard]] ruled_bins find() const
  {
    std::size_t const samples = packed_.weights.size();
    ruled_bins found;
    std::size_t const least = std::max(
        packed_.lower_bound,
        samples / rules_.most_samples + (samples % rules_.most_samples != 0 ? std::size_t{1} : 0));
    found.lower_bound = allowed_bins(least, rules_);
    found.owner.assign(packed_.owner.begin(), packed_.owner.end());
    found.bins = packed_.bins();
    if (counts_fit(found.owner, found.bins)) {
      if (!asks_for_bins(rules_)) {
        found.largest_bound = std::max(mean_load(found.bins), heaviest());
        return found;
      }
    } else {
      found.bins = first_fit(found.owner);
    }
    std::size_t const most = allowed_bins(found.bins, rules_);
    // A few numbers of bins are tried; the packing itself is the last of them.
    std::size_t bins = found.lower_bound;
    for (int tried = 0; tried < most_tried && bins < most; ++tried) {
      if (try_bins(bins, found)) { return found; }
      bins = allowed_bins(bins + 1, rules_);
    }
    if (try_bins(most, found)) { return found; }
    found.bins = most;
    found.largest_bound = std::max(mean_load(most), heaviest());
    if (asks_for_bins(rules_)) { fill_empty_bins(found.owner, most); }
    return found;
  }

 private:
  static constexpr int most_tried = 8;

  [[nodiscard]] std::int64_t heaviest() const
  {
    return packed_.weights.empty()
               ? 0
               : *std::max_element(packed_.weights.begin(), packed_.weights.end());
  }

  [[nodiscard]] std::int64_t mean_load(std::size_t bins) const
  {
    if (bins == 0) { return 0; }
    std::int64_t const total =
        std::accumulate(packed_.weights.begin(), packed_.weights.end(), std::int64_t{0});
    auto const count = static_cast<std::int64_t>(bins);
    return total / count + (total % count != 0 ? 1 : 0);
  }

  template <class Owners>
  [[nodiscard]] bool counts_fit(Owners const& owner, std::size_t bins) const
  {
    if (rules_.most_samples >= owner.size()) { return true; }
    std::vector<std::size_t> counts(bins, 0);
    return std::all_of(owner.begin(), owner.end(),
                       [&](bag_id bin) { return ++counts[to_index(bin)] <= rules_.most_samples; });
  }

  /// Whether a partition into so many bins keeps to the rules; then it is the packing found.
  [[nodiscard]] bool try_bins(std::size_t bins, ruled_bins& found) const
  {
    if (bins == 0) {
      found.bins = 0;
      return true;
    }
    auto const bags = one_gpu_bags(bins);
    auto const keep = [&](partition_plan const& plan) {
      if (std::any_of(plan.loads.begin(), plan.loads.end(),
                      [&](std::int64_t load) { return load > rules_.capacity; }) ||
          !counts_fit(plan.owner, bins)) {
        return false;
      }
      found.owner.assign(plan.owner.begin(), plan.owner.end());
      found.bins = bins;
      auto const [numerator, denominator] = plan.lower_bound;
      found.largest_bound = numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
      fill_empty_bins(found.owner, bins);
      return true;
    };
    cap const room{.of = packed_.weights, .most_per_gpu = rules_.capacity};
    auto const free =
        partition(packed_.weights, bags, std::identity{}, no_length{}, {.also = {room}});
    if (free && keep(*free)) { return true; }
    std::int64_t const bound = std::max(mean_load(bins), heaviest());
    auto const counted = partition(packed_.weights, bags, std::identity{}, no_length{},
                                   {.also = {room}, .samples = counts::equal()});
    if (!counted || !keep(*counted)) { return false; }
    found.largest_bound = bound;  // that of the policy holds for equal counts
    return true;
  }

  /// Heaviest first, each into the first bin with room for its weight and one more sample.
  [[nodiscard]] std::size_t first_fit(std::vector<bag_id>& owner) const
  {
    std::vector<std::size_t> order(owner.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      auto const& weights = packed_.weights;
      return weights[b] < weights[a] || (weights[a] == weights[b] && a < b);
    });
    std::vector<std::int64_t> room;
    std::vector<std::size_t> places;
    std::size_t first_open = 0;
    for (std::size_t const sample : order) {
      std::int64_t const weight = packed_.weights[sample];
      while (first_open < room.size() && places[first_open] == 0) { ++first_open; }
      std::size_t bin = first_open;
      while (bin < room.size() && (places[bin] == 0 || room[bin] < weight)) { ++bin; }
      if (bin == room.size()) {
        room.push_back(rules_.capacity);
        places.push_back(rules_.most_samples);
      }
      room[bin] -= weight;
      --places[bin];
      owner[sample] = to_id<bag_id>(bin);
    }
    return room.size();
  }

  packing_plan const& packed_;
  packing_rules const& rules_;
};

/// How many bins of padded samples one needs, longest first, where none takes more than the limit;
/// writes the bin of each into `bins`, in their order.
///
/// It is the fewest: the bin of the longest sample can hold no more than this many, and samples that
/// it holds in any packing can be exchanged for the next longest ones, which makes no bin longer.
[[nodiscard]] inline std::size_t fill_padded(std::vector<std::int64_t> const& longest_first,
                                             std::int64_t limit, std::size_t most_samples,
                                             std::vector<bag_id>& bins)
{
  std::size_t opened = 0;
  for (std::size_t at = 0; at < longest_first.size();) {
    std::int64_t const longest = longest_first[at];
    std::size_t const rest = longest_first.size() - at;
    std::size_t const fits = longest == 0 ? rest : static_cast<std::size_t>(limit / longest);
    for (std::size_t left = std::min({fits, most_samples, rest}); left > 0; --left) {
      bins[at++] = to_id<bag_id>(opened);
    }
    ++opened;
  }
  return opened;
}

/// The fewest bins in which count x longest is at most the capacity, and of as many bins those whose
/// largest is least, where bins are asked for.
///
/// Expects     no length is above the capacity.
/// Complexity  O(n log n + n log(capacity)).
[[nodiscard]] inline ruled_bins padded_bins(std::vector<std::int64_t> const& lengths,
                                            packing_rules const& rules)
{
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&lengths](std::size_t a, std::size_t b) {
    return lengths[b] < lengths[a] || (lengths[a] == lengths[b] && a < b);
  });
  std::vector<std::int64_t> longest_first;
  longest_first.reserve(lengths.size());
  for (std::size_t const sample : order) { longest_first.push_back(lengths[sample]); }
  std::vector<bag_id> bin_of(lengths.size());
  auto const bins_within = [&](std::int64_t limit) {
    return fill_padded(longest_first, limit, rules.most_samples, bin_of);
  };
  ruled_bins found;
  found.bins = allowed_bins(bins_within(rules.capacity), rules);
  found.lower_bound = found.bins;
  std::int64_t low = longest_first.empty() ? 0 : longest_first.front();
  std::int64_t high = rules.capacity;
  while (low < high) {
    std::int64_t const limit = low + (high - low) / 2;
    if (bins_within(limit) <= found.bins) {
      high = limit;
    } else {
      low = limit + 1;
    }
  }
  static_cast<void>(bins_within(asks_for_bins(rules) ? high : rules.capacity));
  found.owner.resize(lengths.size());
  for (std::size_t at = 0; at < order.size(); ++at) { found.owner[order[at]] = bin_of[at]; }
  if (asks_for_bins(rules)) { fill_empty_bins(found.owner, found.bins); }
  found.largest_bound = longest_first.empty() ? 0 : high;
  return found;
}

}  // namespace detail

/// A packing_plan within packing_rules, of which bins may be empty.
///
/// Units       loads[b]: what bin b takes of the capacity, count x longest where bins are padded;
///             weights: lengths, rounded up.
/// Ensures     (1) those of packing_plan, but for empty bins
///             (2) no packing within the rules has fewer than lower_bound bins
///             (3) `largest` is the largest load, and no packing into as many bins has one below
///                 largest_bound
struct ruled_packing : packing_plan {
  std::vector<bag_id> empty;  ///< bins without a sample, since there are fewer samples than bins
  std::int64_t largest = 0;
  std::int64_t largest_bound = 0;
};

namespace detail {

[[nodiscard]] inline result<void> check_rules(packing_rules const& rules)
{
  auto const refuse = [](auto const&... pieces) {
    return fail(error_code::out_of_range, 0, pieces...);
  };
  if (rules.most_samples == 0 || rules.multiple_of == 0 || rules.length_multiple < 1) {
    return refuse("packing_rules ask for at most ", counted(rules.most_samples, "sample"),
                  " a bin, a multiple of ", counted(rules.multiple_of, "bin"),
                  " and lengths in multiples of ", rules.length_multiple,
                  "; give at least 1 of each");
  }
  constexpr std::size_t most_bins = std::size_t{1} << 31;
  if (rules.least_bins > most_bins || rules.multiple_of > most_bins) {
    return refuse("packing_rules ask for ", counted(rules.least_bins, "bin"), " or a multiple of ",
                  rules.multiple_of, "; give at most 2^31");
  }
  return {};
}

}  // namespace detail

/// Packs samples into as few bins as it finds within rules that trainers have besides a cap, and
/// into so many bins that the largest is least where the number of bins is asked for.
///
///     pack_to_rules(lengths, {.capacity = 4096, .multiple_of = 4})
///
/// Shapes      samples[n] of any type, n < 2^32.
/// Expects     as pack_to_capacity, whose policy packs first and proves a bound.
/// Ensures     (1) those of ruled_packing; no load is above the capacity and no bin has more than
///                 most_samples; the number of bins is a multiple, and at least least_bins
///             (2) padded bins are the fewest, and their largest is least: both exactly
///             (3) where least_bins or multiple_of ask for bins, the largest is made less, and a bin
///                 is empty only if there are fewer samples than bins; else bins are only as few as
///                 the policy and the rules make them
///             (4) the same on every machine
/// Errors      those of pack_to_capacity, of rounded lengths; out_of_range: a rule is 0 or too large.
/// Complexity  the policy, and for rules that it does not keep to a partition of the samples for each
///             number of bins that is tried.
template <std::ranges::forward_range Samples, packing_policy Policy = refine_bins<>,
          integer_projection<Samples> LengthOf = std::identity>
[[nodiscard]] result<ruled_packing> pack_to_rules(Samples&& samples, packing_rules const& rules,
                                                  Policy const& policy = {},
                                                  LengthOf const& length_of = {})
{
  if (auto checked = detail::check_rules(rules); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const rounded = [&](auto&& sample) {
    auto const length = static_cast<std::int64_t>(std::invoke(length_of, sample));
    std::int64_t const more = length % rules.length_multiple;
    if (length <= 0 || more == 0) { return length; }
    // Too large for any capacity where it does not fit 63 bits.
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    std::int64_t const missing = rules.length_multiple - more;
    return length > most - missing ? most : length + missing;
  };
  ruled_packing plan;
  workspace memory;
  if (auto packed = pack_to_capacity_into(plan, memory, std::forward<Samples>(samples),
                                          rules.capacity, policy, rounded);
      !packed) {
    return tl::unexpected(packed.error());
  }
  detail::ruled_bins const found = rules.is_padded ? detail::padded_bins(plan.weights, rules)
                                                   : detail::even_bins(plan, rules).find();
  plan.lower_bound = found.lower_bound;
  plan.largest_bound = found.largest_bound;
  std::copy(found.owner.begin(), found.owner.end(), plan.owner.begin());
  plan.samples.collect(detail::span_of(plan.owner), found.bins);
  plan.loads.clear();
  for (std::size_t bin = 0; bin < found.bins; ++bin) {
    auto const row = plan.samples[to_id<bag_id>(bin)];
    if (row.empty()) { plan.empty.push_back(to_id<bag_id>(bin)); }
    std::int64_t sum = 0;
    std::int64_t longest = 0;
    for (sample_id const sample : row) {
      sum += plan.weights[to_index(sample)];
      longest = std::max(longest, plan.weights[to_index(sample)]);
    }
    plan.loads.push_back(rules.is_padded ? longest * static_cast<std::int64_t>(row.size()) : sum);
    plan.largest = std::max(plan.largest, plan.loads.back());
  }
  return plan;
}

}  // namespace ballast::inline v0
