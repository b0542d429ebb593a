// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

#include <span>
#include <vector>

namespace split_backwards {

using namespace ballast;

/// What steps take, and gigabytes of the GPU that holds most.
struct cost {
  double step = 0;
  double gigabytes = 0;
};

/// On batches whose samples are dealt longest first.
inline cost cost_of(layout_problem const& problem, model_layout const& layout,
                    std::span<tokens const> batches)
{
  return {static_cast<double>(simulate_layout(problem, layout, batches).value()) * 1e-12,
          static_cast<double>(dealt_memory(problem, layout, batches).value()) * 1e-9};
}

/// A layout with split backwards, planned for each step.
inline model_layout planned(model_layout layout)
{
  layout.schedule = layout_schedule::planned;
  return layout;
}

/// The layout of the shortest step with split backwards that is found on some batches.
inline model_layout search(layout_problem const& problem, std::span<tokens const> batches,
                           layout_limits const& limits = {})
{
  using all = layout_schedule;
  layout_search_options const asked{
      .limits = limits,
      .schedules = {all::zero_bubble, all::twice_zero_bubble, all::planned},
      .most_work = std::uint64_t{1} << 28};
  return planned(search_layouts(problem, batches, asked).value().layouts.front().layout);
}

}  // namespace split_backwards
