// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_PACK_TO_RULES_HPP
#define BALLAST_PARTITION_PACKING_PACK_TO_RULES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/detail/rules/even_bins.hpp>
#include <ballast/partition/packing/detail/rules/padded_bins.hpp>
#include <ballast/partition/packing/detail/rules/ruled_bins.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/packing/packing_rules.hpp>
#include <ballast/partition/packing/refine_bins.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <ranges>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

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

#endif  // BALLAST_PARTITION_PACKING_PACK_TO_RULES_HPP
