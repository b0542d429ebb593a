// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_PLAN_LINES_HPP
#define BALLAST_EXAMPLES_PLAN_LINES_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace cli {

/// What --plan writes: a line for each sample and rank that computes it.
inline constexpr std::string_view plan_columns = "step,sample,rank,slot,tokens,cost\n";

/// Adds the lines of a sample of step `step`, counted from 0: one for every GPU of its bag that has
/// tokens of it, or the first where it has none, each with its share of the cost. A sample is the row
/// of the trace, counted from 0 below the header; with data codes, its place in the step.
inline void add_plan_lines(std::string& lines, std::size_t step, ballast::sample_batch const& batch,
                           std::size_t sample, ballast::bag const& bag, std::size_t slot,
                           ballast::cost_units cost)
{
  std::size_t const row = batch.rows.empty() ? sample : batch.rows[sample];
  ballast::tokens const length = batch.lengths[sample];
  auto const holders = std::clamp<ballast::tokens>(length, 1, bag.gpus);
  for (std::uint32_t gpu = 0; gpu < holders; ++gpu) {
    fmt::format_to(std::back_inserter(lines), "{},{},{},{},{},{}\n", step, row,
                   ballast::to_index(bag.first) + gpu, slot,
                   ballast::chunk_of(length, bag.gpus, gpu).count, cost / bag.gpus);
  }
}

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PLAN_LINES_HPP
