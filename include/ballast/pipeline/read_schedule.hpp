// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_READ_SCHEDULE_HPP
#define BALLAST_PIPELINE_READ_SCHEDULE_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/column_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Reads a schedule of your own: a CSV text with the columns `rank`, `stage`, `microbatch` and
/// `pass` (`forward` or `backward`) among others, the tasks of each rank in their order. The stages
/// are a chain, each on the rank of its rows, such as 0, 1, 1, 0; one without a backward row has no
/// backward. Between stages of one rank nothing is transferred.
///
/// Expects     0 <= transfer <= stage_graph::longest_time.
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, a field that is no number or pass, bad quoting, a
///             stage on two ranks, no row; those of stage_graph::make and compiled_schedule::make: a
///             schedule that deadlocks is refused with the tasks that need each other.
/// Complexity  O(bytes + tasks + waits).
[[nodiscard]] inline result<compiled_schedule> read_schedule(std::string_view csv,
                                                             time_units transfer = 0)
{
  constexpr std::int64_t most_stage = stage_graph::most_stages - 1;
  constexpr std::int64_t most_position = (std::int64_t{1} << 30) - 1;
  using detail::integer_column;
  detail::integer_rows<4> rows(
      csv, {integer_column{"rank", most_stage}, integer_column{"stage", most_stage},
            integer_column{"microbatch", most_position},
            integer_column{.name = "pass", .names = {"forward", "backward"}}});
  if (auto found = rows.read_header(); !found) { return tl::unexpected(found.error()); }

  pipeline_schedule schedule;
  std::vector<pipeline_stage> stages;
  std::vector<bool> is_placed;  // of each stage
  detail::integer_rows<4>::row row{};
  while (true) {
    auto const more = rows.next_into(row);
    if (!more) { return tl::unexpected(more.error()); }
    if (!*more) { break; }
    auto const rank = static_cast<std::size_t>(row[0]);
    auto const stage = static_cast<std::size_t>(row[1]);
    auto const position = static_cast<std::size_t>(row[2]);
    bool const is_backward = row[3] == 1;
    if (stage >= stages.size()) {
      stages.resize(stage + 1, {.backward = false});
      is_placed.resize(stage + 1, false);
    }
    if (is_placed[stage] && to_index(stages[stage].rank) != rank) {
      return rows.refuse(detail::concat("column 'rank' puts stage ", stage, " on rank ", rank,
                                        ", and a row above on rank ", to_index(stages[stage].rank),
                                        "; give a stage one rank"));
    }
    is_placed[stage] = true;
    stages[stage].rank = to_id<pipeline_rank>(rank);
    stages[stage].backward = stages[stage].backward || is_backward;
    schedule.microbatches = std::max(schedule.microbatches, position + 1);
    schedule.ranks.resize(std::max(schedule.ranks.size(), rank + 1));
    schedule.ranks[rank].push_back({static_cast<std::uint32_t>(position), to_id<stage_id>(stage),
                                    is_backward ? pass::backward : pass::forward});
  }
  if (stages.empty()) { return rows.refuse("no row follows the header; add one for each task"); }
  std::vector<stage_link> links;
  for (std::size_t stage = 1; stage < stages.size(); ++stage) {
    bool const stays = stages[stage - 1].rank == stages[stage].rank;
    links.push_back({to_id<stage_id>(stage - 1), to_id<stage_id>(stage), stays ? 0 : transfer});
  }
  auto const graph = stage_graph::make(std::move(stages), links);
  if (!graph) { return tl::unexpected(graph.error()); }
  return compiled_schedule::make(*graph, schedule);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_READ_SCHEDULE_HPP
