// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_READ_PLAN_HPP
#define BALLAST_REPORT_READ_PLAN_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/detail/column_rows.hpp>
#include <ballast/text/read_file.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::report {

/// A sample of a step on one of the GPUs that compute it, as `ballast plan --plan` writes it.
struct plan_row {
  std::size_t step = 0;
  std::size_t sample = 0;  ///< row of the trace, from 0
  rank_id rank{};
  std::size_t slot = 0;  ///< the rank's microbatch, or 0
  tokens length = 0;     ///< of the sample, on this GPU
  cost_units cost = 0;   ///< of this GPU
  bag_id bag{};

  friend bool operator==(plan_row const&, plan_row const&) = default;
};

/// Reads what `ballast plan --plan` wrote: a CSV text with the columns `step`, `sample`, `rank`,
/// `slot`, `tokens`, `cost` and `bag` among others, in any order.
///
/// Ensures     (1) rows as they stand in the text
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, a field that is no whole number or too large, bad
///             quoting.
/// Complexity  O(bytes).
[[nodiscard]] inline result<std::vector<plan_row>> read_plan(std::string_view csv)
{
  constexpr std::int64_t most_id = std::numeric_limits<std::uint32_t>::max();
  using detail::integer_column;
  detail::integer_rows<7> rows(
      csv, {integer_column{"step"}, integer_column{"sample"}, integer_column{"rank", most_id},
            integer_column{"slot"}, integer_column{"tokens", longest_sample},
            integer_column{"cost"}, integer_column{"bag", most_id}});
  if (auto found = rows.read_header(); !found) { return tl::unexpected(found.error()); }
  std::vector<plan_row> plan;
  detail::integer_rows<7>::row row{};
  while (true) {
    auto const more = rows.next_into(row);
    if (!more) { return tl::unexpected(more.error()); }
    if (!*more) { return plan; }
    auto const [step, sample, rank, slot, length, cost, bag] = row;
    plan.push_back({static_cast<std::size_t>(step), static_cast<std::size_t>(sample),
                    to_id<rank_id>(static_cast<std::size_t>(rank)), static_cast<std::size_t>(slot),
                    length, cost, to_id<bag_id>(static_cast<std::size_t>(bag))});
  }
}

/// Reads the file at `path`; as `read_plan`, with the path in front of every message.
///
///     auto const rows = report::load_plan("plan.csv").value();
///
/// Errors      also unreadable: the file cannot be opened or read, or it is a directory.
[[nodiscard]] inline result<std::vector<plan_row>> load_plan(std::string const& path)
{
  auto const csv = read_file(path);
  if (!csv) { return tl::unexpected(csv.error()); }
  auto plan = read_plan(*csv);
  if (!plan) { plan.error().message.insert(0, path + ": "); }
  return plan;
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_READ_PLAN_HPP
