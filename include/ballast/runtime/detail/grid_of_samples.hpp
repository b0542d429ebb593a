// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_GRID_OF_SAMPLES_HPP
#define BALLAST_RUNTIME_DETAIL_GRID_OF_SAMPLES_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/grid_options.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/runtime/grid_step_options.hpp>
#include <ballast/runtime/step_options.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Calls partition_grid_into with what the functions of the options say of each sample.
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

  [[nodiscard]] static auto weight_of(grid_step_options<Sample> const& options)
      -> std::int64_t (*)(Sample const&)
  {
    return options.weight_of != nullptr ? options.weight_of : options.length_of;
  }

 private:
  std::vector<std::int64_t> groups_;
  std::vector<std::int64_t> kinds_;
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
