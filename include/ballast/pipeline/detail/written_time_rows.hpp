// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_WRITTEN_TIME_ROWS_HPP
#define BALLAST_PIPELINE_DETAIL_WRITTEN_TIME_ROWS_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/detail/column_rows.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ballast::inline v0::detail {

/// A row of the file: how long one microbatch takes on one stage.
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
  constexpr std::int64_t last_microbatch = (std::int64_t{1} << 30) - 1;
  constexpr std::int64_t last_stage = stage_graph::most_stages - 1;
  column_rows<4> rows(csv, names);
  if (auto found = rows.read_header(); !found) { return tl::unexpected(found.error()); }
  std::vector<written_time> all;
  column_rows<4>::row fields;
  auto const time_of = [&](std::size_t column) -> result<decimal> {
    auto read = parse_decimal(fields[column]);
    if (read) { return read; }
    return rows.refuse(concat("column '", names[column], "': ", read.error().message));
  };
  while (true) {
    auto const more = rows.next_into(fields);
    if (!more) { return tl::unexpected(more.error()); }
    if (!*more) { break; }
    auto const microbatch = rows.number(fields, 0, last_microbatch);
    if (!microbatch) { return tl::unexpected(microbatch.error()); }
    auto const stage = rows.number(fields, 1, last_stage);
    if (!stage) { return tl::unexpected(stage.error()); }
    auto const forward = time_of(2);
    if (!forward) { return tl::unexpected(forward.error()); }
    auto const backward = time_of(3);
    if (!backward) { return tl::unexpected(backward.error()); }
    all.push_back({static_cast<std::uint32_t>(*microbatch), static_cast<std::uint32_t>(*stage),
                   *forward, *backward, rows.line()});
  }
  if (all.empty()) {
    return rows.refuse("no row follows the header; add one per microbatch and stage");
  }
  return all;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_WRITTEN_TIME_ROWS_HPP
