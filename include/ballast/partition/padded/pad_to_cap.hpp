// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/padded/detail/plan_padded.hpp>

#include <functional>

namespace ballast::inline v0 {

/// Packs samples of two lengths into as few padded batches as it finds within a cap: a batch weighs
/// its number of samples times what one weighs with the longest source and target of them.
///
///     pad_to_cap(sentences, 4096, [](tokens source, tokens target) { return source + target; })
///
/// Batches are filled in the orders of pad_grid. Then one batch less is tried, as long as pad_grid's
/// search brings the heaviest within the cap.
///
/// Expects     weight_of is no less where a length is longer.
/// Ensures     (1) those of packing_plan, but loads are the padded weights, and weights those of
///                 samples alone
///             (2) lower_bound is what samples of one length need, the weight of each alone; with
///                 one length it is reached. Of up to 16 samples it is the least, where the search
///                 of all plans ends within 200,000 cells
///             (3) the same on every machine
/// Errors      those of pad_grid, for one batch a sample.
/// Complexity  O(n log n) for each of at most 23 orders, and pad_grid for each batch less and one.
template <padded_cost WeightOf>
[[nodiscard]] result<packing_plan> pad_to_cap(std::span<padded_lengths const> lengths,
                                              std::int64_t cap, WeightOf const& weight_of,
                                              std::uint64_t work_per_sample = 400)
{
  using problem_of = detail::padded_problem<WeightOf, WeightOf>;
  std::size_t const count = lengths.size();
  problem_of const each_alone{lengths,  std::max<std::size_t>(count, 1), 1, cap, weight_of,
                              weight_of};
  if (auto checked = detail::check_padded(each_alone); !checked) {
    return tl::unexpected(checked.error());
  }
  packing_plan plan;
  plan.capacity = cap;
  for (std::size_t sample = 0; sample < count; ++sample) {
    plan.weights.push_back(each_alone.alone(sample));
    plan.owner.push_back(to_id<bag_id>(sample));
  }
  std::vector<cost_units> descending = plan.weights;
  std::sort(descending.begin(), descending.end(), std::greater<>{});
  plan.lower_bound = detail::fewest_padded(descending, cap);
  std::size_t batches = count;
  auto const keep = [&](auto const& batch_of) {
    for (std::size_t sample = 0; sample < count; ++sample) {
      plan.owner[sample] = to_id<bag_id>(static_cast<std::size_t>(batch_of[sample]));
    }
  };
  std::vector<std::uint32_t> batch_of(count);
  detail::padded_orders_of(each_alone, [&](std::vector<std::uint32_t> const& order) {
    if (batches == plan.lower_bound) { return; }
    std::size_t const filled = detail::fill_runs(each_alone, order, cap, batches - 1, batch_of);
    if (filled >= batches) { return; }
    batches = filled;
    keep(batch_of);
  });
  while (batches > plan.lower_bound) {
    problem_of const one_less{lengths,   batches - 1, 1, std::numeric_limits<std::int64_t>::max(),
                              weight_of, weight_of};
    auto const found = detail::plan_padded(one_less, work_per_sample, cap);
    if (found.makespan > cap) {
      if (found.lower_bound > cap) { plan.lower_bound = batches; }
      break;
    }
    --batches;
    keep(found.owner);
  }
  plan.samples.collect(detail::span_of(plan.owner), batches);
  for (auto const batch : plan.samples) {
    padded_lengths longest;
    for (sample_id const sample : batch) { longest = longest.with(lengths[to_index(sample)]); }
    plan.loads.push_back(each_alone.cost(batch.size(), longest));
  }
  return plan;
}

}  // namespace ballast::inline v0
