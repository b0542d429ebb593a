// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/detail/column_rows.hpp>

namespace ballast::inline v0 {

namespace detail {

inline constexpr std::int64_t last_written_stage = stage_graph::most_stages - 1;
inline constexpr std::int64_t last_written_microbatch = (std::int64_t{1} << 30) - 1;

/// Reads the header and the rows of a file, and shows `visit` each of them.
///
/// Errors      those of the rows and of `visit`; bad_row: there is no row, and `add` says what to
///             add.
template <class Rows, class Visit>
[[nodiscard]] result<void> read_rows(Rows& rows, std::string_view add, Visit const& visit)
{
  if (auto found = rows.read_header(); !found) { return found; }
  bool any = false;
  while (true) {
    typename Rows::row row{};
    auto const more = rows.next_into(row);
    if (!more) { return tl::unexpected(more.error()); }
    if (!*more) { break; }
    any = true;
    if (auto taken = visit(row); !taken) { return taken; }
  }
  if (!any) { return rows.refuse(concat("no row follows the header; add one ", add)); }
  return {};
}

/// A row of a file of times: how long one microbatch takes on one stage.
struct written_time {
  std::uint32_t microbatch = 0;
  std::uint32_t stage = 0;
  decimal forward;
  decimal backward;
  std::size_t line = 0;
};

/// All rows of a CSV text with the columns microbatch, stage, forward and backward among others, in
/// its order: at least one.
///
/// Errors      bad_row with the line of the first row that is wrong by itself.
/// Complexity  O(bytes).
[[nodiscard]] inline result<std::vector<written_time>> read_time_rows(std::string_view csv)
{
  constexpr std::array<std::string_view, 4> names = {"microbatch", "stage", "forward", "backward"};
  column_rows<4> rows(csv, names);
  std::vector<written_time> all;
  auto const read = read_rows(
      rows, "per microbatch and stage", [&](column_rows<4>::row const& fields) -> result<void> {
        auto const microbatch = rows.number(fields, 0, last_written_microbatch);
        if (!microbatch) { return tl::unexpected(microbatch.error()); }
        auto const stage = rows.number(fields, 1, last_written_stage);
        if (!stage) { return tl::unexpected(stage.error()); }
        all.push_back({static_cast<std::uint32_t>(*microbatch),
                       static_cast<std::uint32_t>(*stage),
                       {},
                       {},
                       rows.line()});
        for (std::size_t const column : {2U, 3U}) {
          auto const time = parse_decimal(fields[column]);
          if (!time) {
            return rows.refuse(concat("column '", names[column], "': ", time.error().message));
          }
          (column == 2 ? all.back().forward : all.back().backward) = *time;
        }
        return {};
      });
  if (!read) { return tl::unexpected(read.error()); }
  return all;
}

/// Whether the sorted rows hold every microbatch on each of the `stages` once.
[[nodiscard]] inline result<void> check_complete(std::span<written_time const> rows,
                                                 std::size_t stages)
{
  auto const named = [](std::size_t microbatch, std::size_t stage) {
    return concat("microbatch ", microbatch, " on stage ", stage);
  };
  written_time const* twice = nullptr;  // of the rows that repeat one above them, the first
  for (std::size_t at = 1; at < rows.size(); ++at) {
    bool const again =
        rows[at].microbatch == rows[at - 1].microbatch && rows[at].stage == rows[at - 1].stage;
    if (again && (twice == nullptr || rows[at].line < twice->line)) { twice = &rows[at]; }
  }
  if (twice != nullptr) {
    return fail(error_code::bad_row, twice->line, "line ", twice->line, ": ",
                named(twice->microbatch, twice->stage), " has a row already; remove one");
  }
  for (std::size_t at = 0; at < rows.size() || at % stages != 0; ++at) {
    if (at < rows.size() && rows[at].microbatch == at / stages && rows[at].stage == at % stages) {
      continue;
    }
    std::size_t line = 0;
    for (written_time const& row : rows) { line = std::max(line, row.line); }
    return fail(error_code::bad_row, line, "there is no row for ", named(at / stages, at % stages),
                " up to line ", line,
                ", the last; number microbatches and stages from 0 without gaps and write a ",
                "row for each pair");
  }
  return {};
}

}  // namespace detail

/// The times of a step as a file has them, in whole units without rounding.
struct written_times {
  pipeline_times times;
  unsigned decimals = 0;    ///< a unit of times is 10^-decimals of the unit of the file
  time_units transfer = 0;  ///< what read_pipeline_times was given, in the unit of times
};

/// Reads how long every microbatch takes on every stage: a CSV text with the columns `microbatch`,
/// `stage`, `forward` and `backward` among others, rows and columns in any order. Microbatches and
/// stages are numbered from 0; times are decimal numbers of any unit, see `parse_decimal`.
///
/// In          transfer is a time of that unit too, for the links between the stages.
/// Ensures     (1) all times are exact to the ninth decimal of what is written
///             (2) the unit is the coarsest power of ten, of at most one, in which that is so
///             (3) of rows that are wrong by themselves, the first is reported
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, a field that is not a number or not a time, bad
///             quoting; a pair of microbatch and stage that has two rows or none. out_of_range: a
///             time, or the transfer, is above stage_graph::longest_time in the unit of all.
/// Complexity  O(bytes + rows log rows).
[[nodiscard]] inline result<written_times> read_pipeline_times(std::string_view csv,
                                                               decimal transfer = {})
{
  auto rows = detail::read_time_rows(csv);
  if (!rows) { return tl::unexpected(rows.error()); }
  unsigned decimals = transfer.decimals();
  std::size_t stages = 0;
  for (detail::written_time const& row : *rows) {
    decimals = std::max({decimals, row.forward.decimals(), row.backward.decimals()});
    stages = std::max<std::size_t>(stages, row.stage + 1);
  }
  auto const in_units = [decimals](decimal const& time) { return time.in_units(decimals); };
  auto const refuse = [decimals](std::size_t line, std::string const& where, decimal const& time) {
    return fail(error_code::out_of_range, line, where, " ", time.text(), " is longer than ",
                decimal::make(stage_graph::longest_time, decimals).text(),
                ", the longest where one time has ", decimals,
                " decimals; use a coarser unit or fewer decimals");
  };
  constexpr auto most = static_cast<uint128>(stage_graph::longest_time);
  if (in_units(transfer) > most) { return refuse(0, "a transfer of", transfer); }
  for (detail::written_time const& row : *rows) {
    for (decimal const& time : {row.forward, row.backward}) {
      if (in_units(time) > most) {
        return refuse(row.line, detail::concat("line ", row.line, ": a time of"), time);
      }
    }
  }
  auto const above = [](detail::written_time const& a, detail::written_time const& b) {
    return detail::precedes(a.microbatch, b.microbatch, a.stage, b.stage, a.line, b.line);
  };
  std::sort(rows->begin(), rows->end(), above);
  if (auto done = detail::check_complete(detail::span_of(*rows), stages); !done) {
    return tl::unexpected(done.error());
  }
  written_times written{pipeline_times(rows->size() / stages, stages), decimals,
                        static_cast<time_units>(in_units(transfer))};
  for (std::size_t at = 0; at < rows->size(); ++at) {
    written.times.rows[at] = {static_cast<time_units>(in_units((*rows)[at].forward)),
                              static_cast<time_units>(in_units((*rows)[at].backward))};
  }
  return written;
}

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
  using detail::integer_column;
  detail::integer_rows<4> rows(csv,
                               {integer_column{"rank", detail::last_written_stage},
                                integer_column{"stage", detail::last_written_stage},
                                integer_column{"microbatch", detail::last_written_microbatch},
                                integer_column{.name = "pass", .names = {"forward", "backward"}}});
  pipeline_schedule schedule;
  std::vector<pipeline_stage> stages;
  std::vector<bool> is_placed;  // of each stage
  auto const read = detail::read_rows(
      rows, "for each task", [&](detail::integer_rows<4>::row const& row) -> result<void> {
        auto const rank = static_cast<std::size_t>(row[0]);
        auto const stage = static_cast<std::size_t>(row[1]);
        auto const position = static_cast<std::size_t>(row[2]);
        bool const is_backward = row[3] == 1;
        if (stage >= stages.size()) {
          stages.resize(stage + 1, {.backward = false});
          is_placed.resize(stage + 1, false);
        }
        if (is_placed[stage] && to_index(stages[stage].rank) != rank) {
          return rows.refuse(detail::concat(
              "column 'rank' puts stage ", stage, " on rank ", rank, ", and a row above on rank ",
              to_index(stages[stage].rank), "; give a stage one rank"));
        }
        is_placed[stage] = true;
        stages[stage].rank = to_id<pipeline_rank>(rank);
        stages[stage].backward = stages[stage].backward || is_backward;
        schedule.microbatches = std::max(schedule.microbatches, position + 1);
        schedule.ranks.resize(std::max(schedule.ranks.size(), rank + 1));
        schedule.ranks[rank].push_back({static_cast<std::uint32_t>(position),
                                        to_id<stage_id>(stage),
                                        is_backward ? pass::backward : pass::forward});
        return {};
      });
  if (!read) { return tl::unexpected(read.error()); }
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
