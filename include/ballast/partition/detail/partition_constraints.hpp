// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>

namespace ballast::inline v0::detail {

/// What the planners that are older than placement_limits read of it.
///
/// Shapes      each array is empty or has one entry per sample, in sample order.
struct partition_constraints {
  /// Samples with the same key stay in one bag, as the answers to one prompt.
  sample_keys together = {};
  /// The rank that holds each sample now, for policies that avoid movement and for plan.moved.
  sample_values<rank_id> home = {};
  /// A bag of G GPUs gets at most G times this weight: what its memory holds. The plan of a policy
  /// that ignores weights is refused where it is above; `capped` makes policies that pack keep to
  /// it. Where a policy pads, each sample weighs as much as the heaviest of its bag.
  std::int64_t most_per_gpu = no_limit;
  /// What counts against most_per_gpu and bag_capacities, and only with them. Empty: the lengths.
  sample_values<std::int64_t> weights = {};
  /// Work that each bag has before the step, in the unit of the cost: counted in loads, makespan
  /// and bound, not against most_per_gpu. One for each bag, or empty; by several quantities one for
  /// each of them, bag after bag.
  std::span<std::int64_t const> starting_loads = {};
  /// The most weight that each bag as a whole gets, beside most_per_gpu. One for each bag, or empty.
  std::span<std::int64_t const> bag_capacities = {};
  /// Whether anything limits the weight of bags.
  [[nodiscard]] bool limits_bags() const noexcept
  {
    return most_per_gpu != no_limit || !bag_capacities.empty();
  }
};

/// Refuses numbers of bags that are negative, or of other bags.
[[nodiscard]] inline result<void> check_bag_numbers(char const* name,
                                                    std::span<std::int64_t const> numbers,
                                                    std::size_t bags, std::int64_t most,
                                                    std::size_t quantities = 1)
{
  if (!numbers.empty() && numbers.size() != bags * quantities) {
    return fail(error_code::out_of_range, std::min(numbers.size(), bags * quantities), "limits.",
                name, " has ", counted(numbers.size(), "entry"), " for ", counted(bags, "bag"),
                "; give ", quantities == 1 ? std::string("one") : concat(quantities),
                " for each bag, or none");
  }
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    if (numbers[at] < 0 || numbers[at] > most) {
      return fail(error_code::out_of_range, at, "limits.", name, " has ", numbers[at], " for bag ",
                  at / quantities,
                  ", which is negative or brings the sum above 62 bits; correct it");
    }
    if (most != std::numeric_limits<std::int64_t>::max()) { most -= numbers[at]; }
  }
  return {};
}

/// Refuses constraints with values out of range.
[[nodiscard]] inline result<void> check_constraints(partition_constraints const& given,
                                                    std::size_t samples, std::size_t gpus)
{
  auto const check_count = [samples](char const* name, std::size_t count) -> result<void> {
    if (count == 0 || count == samples) { return {}; }
    return fail(error_code::out_of_range, std::min(count, samples), "limits.", name, " has ",
                counted(count, "entry"), " for ", counted(samples, "sample"),
                "; give one for each sample, or none");
  };
  if (auto checked = check_count("together", given.together.size()); !checked) { return checked; }
  if (auto checked = check_count("home", given.home.size()); !checked) { return checked; }
  if (auto checked = check_count("also.of", given.weights.size()); !checked) { return checked; }
  for (std::size_t sample = 0; sample < given.home.size(); ++sample) {
    if (to_index(given.home[sample]) >= gpus) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " lies on rank ",
                  to_index(given.home[sample]), " of a job of ", counted(gpus, "GPU"),
                  "; correct its home");
    }
  }
  if (given.most_per_gpu < 0) {
    return fail(error_code::out_of_range, 0, "a GPU cannot hold ", given.most_per_gpu,
                "; give the most that it holds, or no limit");
  }
  std::int64_t total = 0;
  for (std::size_t sample = 0; sample < given.weights.size(); ++sample) {
    std::int64_t const weight = given.weights[sample];
    if (weight < 0 || weight > std::numeric_limits<std::int64_t>::max() - 1 - total) {
      return fail(error_code::out_of_range, sample, "the weight ", weight, " of sample ", sample,
                  " is negative or brings the sum above 63 bits; correct it");
    }
    total += weight;
  }
  return {};
}

}  // namespace ballast::inline v0::detail
