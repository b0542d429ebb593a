// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_GRID_OF_SAMPLES_HPP
#define BALLAST_RUNTIME_DETAIL_GRID_OF_SAMPLES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/padded/pad_grid.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>
#include <ballast/runtime/grid_step_options.hpp>
#include <ballast/runtime/step_options.hpp>
#include <ballast/core/contract.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What plans the cells of a step: a grid policy by costs of samples, or `pad_grid` by costs of
/// padded lengths, where cells are padded batches.
template <class Policy, class Cost, class Sample>
concept cell_planner = (grid_policy<Policy> && integer_function<Cost, Sample const&>) ||
                       (std::same_as<Policy, padded_grid_options> && padded_cost<Cost>);

/// Calls partition_grid_into, or pad_grid, with what the functions of the options say of each
/// sample.
template <class Sample>
class grid_of_samples {
 public:
  /// Shapes      home[n], or empty.
  /// Complexity  that of partition_grid_into; no allocation after a step as large.
  template <grid_policy Policy, class Cost>
  [[nodiscard]] result<void> operator()(grid_plan& plan, workspace& memory,
                                        std::span<Sample const> samples, std::size_t ranks,
                                        grid_step_options<Sample> const& options,
                                        std::span<rank_id const> home, Policy const& policy,
                                        Cost const& cost)
  {
    read_into(groups_, samples, options.together);
    read_into(kinds_, samples, options.kind_of);
    grid_options grid = options.grid;
    grid.together = groups_;
    grid.kinds = kinds_;
    grid.home = home;
    return partition_grid_into(plan, memory, samples, ranks, grid, policy, cost,
                               weight_of(options));
  }

  /// The same in padded batches: loads and what fills a cell are its number of samples times that
  /// of one of the longest lengths.
  ///
  /// Errors      those of pad_grid; out_of_range: the options ask for what it does not plan.
  template <padded_cost Cost>
  [[nodiscard]] result<void> operator()(grid_plan& plan, workspace& /*memory*/,
                                        std::span<Sample const> samples, std::size_t ranks,
                                        grid_step_options<Sample> const& options,
                                        std::span<rank_id const> home, padded_grid_options padded,
                                        Cost const& cost)
  {
    if (options.together != nullptr || options.kind_of != nullptr || !home.empty() ||
        asks_for_more(options.grid)) {
      return fail(
          error_code::out_of_range, 0,
          "padded batches know no grid, together, kind_of or homes; give "
          "padded_grid_options the number of microbatches and the cap, and leave these out");
    }
    lengths_.clear();
    for (Sample const& sample : samples) {
      lengths_.push_back(options.padded_lengths_of != nullptr
                             ? options.padded_lengths_of(sample)
                             : padded_lengths{options.length_of(sample), 0});
    }
    padded.ranks = ranks;
    auto const tokens_of = [](tokens source, tokens target) { return source + target; };
    auto found = pad_grid(lengths_, padded, cost, tokens_of);
    if (!found) { return tl::unexpected(std::move(found).error()); }
    plan = {};
    plan.makespan = found->makespan;
    plan.lower_bound = found->lower_bound;
    plan.ranks = ranks;
    plan.microbatches = padded.microbatches;
    plan.owner = std::move(found->owner);
    plan.loads = std::move(found->loads);
    plan.samples = std::move(found->samples);
    for (std::size_t sample = 0; sample < samples.size(); ++sample) {
      plan.costs.push_back(cost(lengths_[sample].source, lengths_[sample].target));
      plan.weights.push_back(weight_of(options)(samples[sample]));
    }
    for (std::size_t cell = 0; cell < plan.loads.size(); ++cell) {
      padded_lengths const longest = found->longest[cell];
      plan.filled.push_back(static_cast<tokens>(plan.samples[to_id<cell_id>(cell)].size()) *
                            tokens_of(longest.source, longest.target));
    }
    return {};
  }

  [[nodiscard]] static auto weight_of(grid_step_options<Sample> const& options)
      -> std::int64_t (*)(Sample const&)
  {
    return options.weight_of != nullptr ? options.weight_of : options.length_of;
  }

 private:
  [[nodiscard]] static bool asks_for_more(grid_options const& grid)
  {
    constexpr grid_options none;
    return grid.microbatches || grid.multiple_of != none.multiple_of ||
           grid.most_weight != none.most_weight || !grid.most_weights.empty() ||
           grid.weight_multiple != none.weight_multiple || grid.counts != none.counts ||
           grid.meet != none.meet || grid.fill_cells;
  }

  std::vector<std::int64_t> groups_;
  std::vector<std::int64_t> kinds_;
  std::vector<padded_lengths> lengths_;
};

/// Why a grid that was planned ahead is not one of these samples, if so.
template <class Sample>
[[nodiscard]] result<void> check_planned_ahead(grid_plan const& plan,
                                               std::span<Sample const> samples, std::size_t ranks,
                                               grid_step_options<Sample> const& options)
{
  if (plan.ranks != ranks || plan.owner.size() != samples.size()) {
    return fail(error_code::mismatch, 0, "the grid was planned ahead for ",
                counted(plan.owner.size(), "sample"), " on ", counted(plan.ranks, "rank"),
                ", and all ranks have read ", samples.size(), " for ", counted(ranks, "bag"),
                "; plan it for what all ranks will have read, and for a rank of each bag");
  }
  auto const weight_of = grid_of_samples<Sample>::weight_of(options);
  std::int64_t const multiple = options.grid.weight_multiple;
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    std::int64_t const weight = weight_of(samples[sample]);
    std::int64_t const planned = plan.weights[sample];
    if (weight < 0 || weight > planned || planned - weight >= multiple) {
      return fail(error_code::mismatch, sample, "the grid was planned ahead for a sample ", sample,
                  " of weight ", planned, ", and the one that was read has ", weight,
                  "; plan it for the samples of rank 0, then those of rank 1, and so on");
    }
  }
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_GRID_OF_SAMPLES_HPP
