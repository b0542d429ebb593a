// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "table.hpp"

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iterator>

namespace cli {

/// What --plan writes: a line for each sample and rank that computes it.
inline constexpr std::string_view plan_columns = "step,sample,rank,slot,tokens,cost,bag";

/// The row of the trace, counted from 0 below the header; with data codes, the place in the step.
[[nodiscard]] inline std::size_t trace_row(ballast::sample_batch const& batch, std::size_t sample)
{
  return batch.rows.empty() ? sample : batch.rows[sample];
}

/// Adds the lines of a sample of step `step`, counted from 0: one for every GPU of its bag that has
/// tokens of it, or the first where it has none, each with its share of the cost, and with `more` at
/// its end.
inline void add_plan_lines(std::string& lines, std::size_t step, ballast::sample_batch const& batch,
                           std::size_t sample, ballast::bag_layout const& bags,
                           ballast::bag_id owner, std::size_t slot, ballast::cost_units cost,
                           std::string_view more = "")
{
  ballast::bag const bag = bags[owner];
  std::size_t const row = trace_row(batch, sample);
  ballast::tokens const length = batch.lengths[sample];
  auto const holders = std::clamp<ballast::tokens>(length, 1, bag.gpus);
  for (std::uint32_t gpu = 0; gpu < holders; ++gpu) {
    fmt::format_to(std::back_inserter(lines), "{},{},{},{},{},{},{}{}\n", step, row,
                   ballast::to_index(bag.first) + gpu, slot,
                   ballast::chunk_of(length, bag.gpus, gpu).count, cost / bag.gpus,
                   ballast::to_index(owner), more);
  }
}

/// The same for programs: of each step the rows of its samples, and their bags and slots.
struct step_owners {
  std::vector<std::size_t> samples;
  std::vector<std::size_t> bags;
  std::vector<std::size_t> slots = {};  ///< empty where a step is computed at once
};

[[nodiscard]] inline nlohmann::ordered_json owners_json(std::vector<step_owners> const& steps,
                                                        row_ids const& ids)
{
  auto json = nlohmann::ordered_json::array();
  for (step_owners const& step : steps) {
    json.push_back({{"samples", step.samples}, {"bags", step.bags}});
    if (!step.slots.empty()) { json.back()["slots"] = step.slots; }
    if (ids.of_row.empty()) { continue; }
    auto& own = json.back()["ids"] = nlohmann::ordered_json::array();
    for (std::size_t const row : step.samples) { own.push_back(ids.json(row)); }
  }
  return json;
}

}  // namespace cli
