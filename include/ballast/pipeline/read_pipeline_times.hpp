// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_READ_PIPELINE_TIMES_HPP
#define BALLAST_PIPELINE_READ_PIPELINE_TIMES_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/pipeline/detail/written_time_rows.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/decimal.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// The times of a step as a file has them, in whole units without rounding.
struct written_times {
  pipeline_times times;
  unsigned decimals = 0;    ///< a unit of times is 10^-decimals of the unit of the file
  time_units transfer = 0;  ///< what read_pipeline_times was given, in the unit of times
};

namespace detail {

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

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_READ_PIPELINE_TIMES_HPP
