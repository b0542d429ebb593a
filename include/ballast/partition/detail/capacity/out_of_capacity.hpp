// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_OUT_OF_CAPACITY_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_OUT_OF_CAPACITY_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/joint_samples.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/detail/best_fit.hpp>
#include <ballast/partition/packing/detail/room_tree.hpp>
#include <ballast/partition/packing/packing_lower_bound.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace ballast::inline v0::detail {

/// How many bags of one capacity all weights take.
struct bags_needed {
  std::size_t least;   ///< no packing gets below it
  std::size_t enough;  ///< for best fit decreasing
};

[[nodiscard]] inline bags_needed count_bags_needed(std::span<std::int64_t const> weights,
                                                   std::int64_t capacity)
{
  workspace memory;
  auto scratch = memory.open();
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(weights.size());
  descending_order_into(heaviest_first, weights, memory);
  packing_problem const problem{weights, heaviest_first, capacity};
  return {packing_lower_bound(problem), best_fit_into(scratch.take<bin_id>(weights.size()), problem,
                                                      room_tree(weights.size(), scratch))};
}

/// The most that any bag holds that item `item` fits.
[[nodiscard]] inline std::int64_t largest_capacity(partition_problem const& problem,
                                                   std::size_t item)
{
  std::int64_t most = 0;
  for (std::size_t bag = 0; bag < problem.capacities.size(); ++bag) {
    if (partition_problem::fits(problem.lengths[item], problem.gpus[bag])) {
      most = std::max(most, problem.capacities[bag]);
    }
  }
  return most;
}

/// The error for a step without a plan that keeps to the capacities. It says how many bags the step
/// needs at least, and how many are enough.
///
/// Expects     capacities; `item` found no bag, or made one overrun its capacity.
/// Complexity  O(n log n); it allocates.
[[nodiscard]] inline tl::unexpected<error> out_of_capacity(partition_problem const& problem,
                                                           planned_items const& items,
                                                           std::size_t item)
{
  BALLAST_EXPECTS(!problem.capacities.empty() && item < problem.weights.size());
  auto const named = [&](std::size_t which) {
    return std::string("sample ")
        .append(std::to_string(items.sample_of(which)))
        .append(items.first_sample.empty() ? " weighs " : " and what stays with it weigh ")
        .append(std::to_string(problem.weights[which]));
  };
  for (std::size_t each = 0; each < problem.weights.size(); ++each) {
    std::int64_t const most = largest_capacity(problem, each);
    if (problem.weights[each] > most) {
      return fail(error_code::infeasible, items.sample_of(each),
                  named(each)
                      .append(", more than any bag that it fits holds, which is ")
                      .append(std::to_string(most))
                      .append("; raise the limit, lay out larger bags or leave it out"));
    }
  }

  std::size_t const bags = problem.capacities.size();
  std::int64_t const most = *std::max_element(problem.capacities.begin(), problem.capacities.end());
  bags_needed const needed = count_bags_needed(problem.weights, most);
  std::string why = named(item).append(" and found no bag with room: all samples weigh ");
  why.append(std::to_string(std::reduce(problem.weights.begin(), problem.weights.end())))
      .append(" and ")
      .append(std::to_string(bags))
      .append(" bags hold at most ")
      .append(std::to_string(most))
      .append(" each; ");
  if (needed.enough <= bags) {
    why.append(std::to_string(needed.enough))
        .append(
            " such bags are enough, so use a policy that looks at weights, as capped, "
            "or lay out bags that are more alike");
  } else {
    if (needed.enough == needed.least) {
      why.append(std::to_string(needed.enough)).append(" such bags are needed and enough");
    } else {
      why.append("at least ")
          .append(std::to_string(needed.least))
          .append(" such bags are needed and ")
          .append(std::to_string(needed.enough))
          .append(" are enough");
    }
    why.append("; add bags, raise the limit or plan fewer samples at once");
  }
  return fail(error_code::infeasible, items.sample_of(item), std::move(why));
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_OUT_OF_CAPACITY_HPP
