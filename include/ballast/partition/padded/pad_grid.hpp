// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Why padded batches do not keep to what is asked for, if so.
[[nodiscard]] BALLAST_ONCE result<void> check_padded_limits(bag_layout const& bags,
                                                            microbatches const& slots,
                                                            placement_limits const& limits,
                                                            std::size_t samples);

/// A padded cost of any type, by reference.
class padded_ref {
 public:
  template <class F>
    requires(!std::is_function_v<F>)
  explicit padded_ref(F const& cost_of)
      : cost_of_(&cost_of), call_([](void const* self, tokens source, tokens target) {
          return static_cast<cost_units>((*static_cast<F const*>(self))(source, target));
        })
  {}
  template <class F>
    requires std::is_function_v<F>
  explicit padded_ref(F& cost_of)
      : cost_of_(reinterpret_cast<void const*>(&cost_of)),
        call_([](void const* self, tokens source, tokens target) {
          return static_cast<cost_units>(
              reinterpret_cast<F*>(const_cast<void*>(self))(source, target));
        })
  {}
  [[nodiscard]] cost_units operator()(tokens source, tokens target) const
  {
    return call_(cost_of_, source, target);
  }

 private:
  void const* cost_of_;
  cost_units (*call_)(void const*, tokens, tokens);
};

/// What plans by a padded cost: the cost itself, or with ballast::compiled a padded_ref, for which it
/// is compiled once.
template <class F>
[[nodiscard]] decltype(auto) padded_by(F const& cost_of)
{
#ifdef BALLAST_COMPILED
  return padded_ref(cost_of);
#else
  return (cost_of);
#endif
}

template <class CostOf, class WeightOf>
[[nodiscard]] result<grid_plan> pad_cells(std::span<padded_lengths const> lengths,
                                          bag_layout const& bags, microbatches const& slots,
                                          CostOf const& cost_of, WeightOf const& weight_of,
                                          placement_limits const& limits);

template <class WeightOf>
[[nodiscard]] result<packing_plan> pad_bins(std::span<padded_lengths const> lengths,
                                            std::int64_t cap, WeightOf const& weight_of,
                                            std::uint64_t work_per_sample);

}  // namespace detail

/// Splits a step into padded batches, so many for each bag (without a number one), so that the bag
/// with the most work has least: for encoders and decoders that pad two lengths, and for padded cells of one.
///
///     pad_grid(sentences, one_gpu_bags(8), {.number = 4}, cost)
///
/// The samples are put in orders, by cost and in strips by one length and then the other; batches
/// are runs of an order, as even as bisection makes them. With one batch a rank, and up to 64 kinds
/// of pairs, all sets of the batches' longest lengths are searched, `detail::corner_search`, as far
/// as 400 n looks go, 2^17 at most, for each makespan. Of the best of these plans samples are then
/// moved and swapped at random, with a fixed seed. Steps of up to 16 samples are searched whole, as
/// far as 200,000 cells go.
///
/// Expects     cost_of and weight_of (without it, the cost) are no less where a length is longer.
/// Ensures     (1) those of grid_plan, but loads and filled are the number of samples of a cell times
///                 the cost and the weight of one with its `longest` lengths; costs and weights
///                 those of samples alone
///             (2) no batch weighs more than the cap: its number of samples times the weight of one
///                 with the longest source and target
///             (3) the bound is the mean of the least sum that so many batches have, or the least
///                 largest batch, of samples of one length, the cost of each alone; or the mean of
///                 a sum that sees both lengths, `detail::two_length_sum`; or the least makespan
///                 that a search of all plans, or of all sets of longest lengths, did not refute
///             (4) with one length and one batch a rank the plan is an optimum, and proven, unless a
///                 cap is set that is not a cap of the cost
///             (5) the plan depends on nothing but the arguments, so every rank finds the same one
/// Errors      infeasible: sample `position` is above the cap by itself; or no plan within the cap
///             exists or was found, and the sentence says which. out_of_range: sample `position` has
///             a length below 0 or above longest_sample, costs or weights are negative or too large,
///             or something other than a number and limits.most_per_gpu is asked for.
/// Complexity  O(n log n log C) for each of at most 23 orders and for the bound, where C is what all
///             samples cost in one batch; 400 n changes, slots.work at most; and 2^24 looks at most for the
///             bound that sees both lengths.
/// Source      the search is late acceptance: E. K. Burke, Y. Bykov, European Journal of Operational
///             Research 258(1), 2017; orders and bound are ours.
template <padded_cost CostOf, padded_cost WeightOf>
[[nodiscard]] result<grid_plan> pad_grid(std::span<padded_lengths const> lengths,
                                         bag_layout const& bags, microbatches const& slots,
                                         CostOf const& cost_of, WeightOf const& weight_of,
                                         placement_limits const& limits = {})
{
  return detail::pad_cells(lengths, bags, slots, detail::padded_by(cost_of),
                           detail::padded_by(weight_of), limits);
}

/// The same, with costs as weights.
template <padded_cost CostOf>
[[nodiscard]] result<grid_plan> pad_grid(std::span<padded_lengths const> lengths,
                                         bag_layout const& bags, microbatches const& slots,
                                         CostOf const& cost_of, placement_limits const& limits = {})
{
  return ballast::pad_grid(lengths, bags, slots, cost_of, cost_of, limits);
}

/// Packs samples of two lengths into as few padded batches as it finds within a cap: a batch weighs
/// its number of samples times what one weighs with the longest source and target of them.
///
///     pad_to_cap(sentences, [](tokens source, tokens target) { return source + target; }, 4096)
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
                                              WeightOf const& weight_of, std::int64_t cap,
                                              std::uint64_t work_per_sample = 400)
{
  return detail::pad_bins(lengths, cap, detail::padded_by(weight_of), work_per_sample);
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

#include <ballast/partition/detail/placement/limits.hpp>
#include <ballast/partition/padded/detail/plan_padded.hpp>

namespace ballast::inline v0::detail {

[[nodiscard]] BALLAST_ONCE result<void> check_padded_limits(bag_layout const& bags,
                                                            microbatches const& slots,
                                                            placement_limits const& limits,
                                                            std::size_t samples)
{
  if (auto checked = check_limits(limits, samples, bags.size(), bags.gpus()); !checked) {
    return checked;
  }
  auto const is_first = [](auto const& values) {
    return std::all_of(values.begin(), values.end(),
                       [&](auto value) { return value == values.front(); });
  };
  bool const others = !limits.together.empty() || !limits.home.empty() || limits.also.size() > 0 ||
                      !limits.starting_loads.empty() || limits.samples != counts{} ||
                      !limits.apart.empty() || !limits.fits.empty() || !limits.mixes.empty() ||
                      limits.then.what() != second_objective::kind::none;
  if (others || slots.multiple_of != 1 || !slots.kinds.empty() ||
      slots.meet != grid_meeting::step || slots.number == 0U || bags.size() == 0 ||
      !is_first(bags.sizes()) || !is_first(bags.speeds())) {
    return fail(
        error_code::out_of_range, 0,
        "padded batches are planned for equal bags, for a number of microbatches of at least "
        "1, and within limits.most_per_gpu; leave out the other limits");
  }
  return {};
}

template <class CostOf, class WeightOf>
[[nodiscard]] result<grid_plan> pad_cells(std::span<padded_lengths const> lengths,
                                          bag_layout const& bags, microbatches const& slots,
                                          CostOf const& cost_of, WeightOf const& weight_of,
                                          placement_limits const& limits)
{
  if (auto checked = check_padded_limits(bags, slots, limits, lengths.size()); !checked) {
    return tl::unexpected(checked.error());
  }
  std::int64_t const most = room_of_bag(bags, 0, {.most_per_gpu = limits.most_per_gpu});
  std::size_t const number = slots.number.value_or(1);
  padded_problem<CostOf, WeightOf> const problem{lengths, bags.size(), number,
                                                 most,    cost_of,     weight_of};
  if (auto checked = check_padded(problem); !checked) { return tl::unexpected(checked.error()); }
  std::uint64_t const work = slots.work / std::max<std::size_t>(lengths.size(), 1);
  found_padded found = plan_padded_within(problem, std::min<std::uint64_t>(work, 400));
  if (found.makespan == no_cost) {
    bool const proven = found.lower_bound == no_cost;
    return fail(error_code::infeasible, 0, "no plan of ", counted(lengths.size(), "sample"), " in ",
                bags.size(), " x ", counted(number, "padded batch"), " within a cap of ", most,
                " each ", proven ? "exists" : "was found in a search that gave up",
                "; use more microbatches or raise the cap");
  }
  grid_plan plan;
  plan.makespan = {found.makespan, bags.speeds()[0]};
  plan.lower_bound = {found.lower_bound, bags.speeds()[0]};
  plan.ranks = bags.size();
  plan.microbatches = number;
  plan.fewest_microbatches = 1;
  plan.owner = std::move(found.owner);
  plan.samples.collect(span_of(plan.owner), problem.cells());
  for (padded_lengths const each : lengths) {
    plan.costs.push_back(cost_of(each.source, each.target));
    plan.weights.push_back(weight_of(each.source, each.target));
  }
  for (auto const batch : plan.samples) {
    padded_lengths longest;
    for (sample_id const sample : batch) { longest = longest.with(lengths[to_index(sample)]); }
    plan.longest.push_back(longest);
    plan.loads.push_back(problem.cost(batch.size(), longest));
    plan.filled.push_back(static_cast<std::int64_t>(batch.size()) *
                          weight_of(longest.source, longest.target));
  }
  return plan;
}

template <class WeightOf>
[[nodiscard]] result<packing_plan> pad_bins(std::span<padded_lengths const> lengths,
                                            std::int64_t cap, WeightOf const& weight_of,
                                            std::uint64_t work_per_sample)
{
  using problem_of = padded_problem<WeightOf, WeightOf>;
  std::size_t const count = lengths.size();
  problem_of const each_alone{lengths,  std::max<std::size_t>(count, 1), 1, cap, weight_of,
                              weight_of};
  if (auto checked = check_padded(each_alone); !checked) { return tl::unexpected(checked.error()); }
  packing_plan plan;
  plan.most_per_gpu = cap;
  for (std::size_t sample = 0; sample < count; ++sample) {
    plan.weights.push_back(each_alone.alone(sample));
    plan.owner.push_back(to_id<bag_id>(sample));
  }
  std::vector<cost_units> descending = plan.weights;
  std::sort(descending.begin(), descending.end(), std::greater<>{});
  plan.lower_bound = fewest_padded(descending, cap);
  std::size_t batches = count;
  auto const keep = [&](auto const& batch_of) {
    for (std::size_t sample = 0; sample < count; ++sample) {
      plan.owner[sample] = to_id<bag_id>(static_cast<std::size_t>(batch_of[sample]));
    }
  };
  std::vector<std::uint32_t> batch_of(count);
  padded_orders_of(each_alone, [&](std::vector<std::uint32_t> const& order) {
    if (batches == plan.lower_bound) { return; }
    std::size_t const filled = fill_runs(each_alone, order, cap, batches - 1, batch_of);
    if (filled >= batches) { return; }
    batches = filled;
    keep(batch_of);
  });
  while (batches > plan.lower_bound) {
    problem_of const one_less{lengths,   batches - 1, 1, std::numeric_limits<std::int64_t>::max(),
                              weight_of, weight_of};
    auto const found = plan_padded(one_less, work_per_sample, cap);
    if (found.makespan > cap) {
      if (found.lower_bound > cap) { plan.lower_bound = batches; }
      break;
    }
    --batches;
    keep(found.owner);
  }
  plan.samples.collect(span_of(plan.owner), batches);
  for (auto const batch : plan.samples) {
    padded_lengths longest;
    for (sample_id const sample : batch) { longest = longest.with(lengths[to_index(sample)]); }
    plan.loads.push_back(each_alone.cost(batch.size(), longest));
  }
  return plan;
}

}  // namespace ballast::inline v0::detail

#endif
