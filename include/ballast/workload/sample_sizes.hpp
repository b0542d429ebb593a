// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_SAMPLE_SIZES_HPP
#define BALLAST_WORKLOAD_SAMPLE_SIZES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/workload/length_trace.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// The sizes of real samples in several modules: items of encoders, tokens of the LLM. One sample
/// per row of a CSV text, in its order; each size is a column or an expression of columns, see
/// `column_expression`.
///
/// Shapes      returns sizes[rows x expressions], those of one sample next to each other.
/// Expects     at least one expression.
/// Ensures     (1) sizes are in [0, longest_sample]
/// Errors      those of read_length_trace, of the first expression that has one.
/// Complexity  O(bytes x expressions).
[[nodiscard]] inline result<std::vector<tokens>> read_sample_sizes(
    std::string_view csv, std::span<std::string const> expressions)
{
  BALLAST_EXPECTS(!expressions.empty());
  std::vector<tokens> sizes;
  for (std::size_t module = 0; module < expressions.size(); ++module) {
    auto const column = read_length_trace(csv, expressions[module]);
    if (!column) { return tl::unexpected(column.error()); }
    sizes.resize(column->size() * expressions.size());
    for (std::size_t row = 0; row < column->size(); ++row) {
      sizes[row * expressions.size() + module] = (*column)[row];
    }
  }
  return sizes;
}

/// Some samples of all, in the order in which they are named.
///
/// Shapes      sizes[samples x modules]; returns [rows.size() x modules].
/// Expects     modules >= 1; rows are below the number of samples.
/// Complexity  O(rows x modules).
[[nodiscard]] inline std::vector<tokens> sizes_of_rows(std::span<tokens const> sizes,
                                                       std::size_t modules,
                                                       std::span<std::size_t const> rows)
{
  BALLAST_EXPECTS(modules >= 1, "samples have sizes in no module");
  std::vector<tokens> chosen;
  chosen.reserve(rows.size() * modules);
  for (std::size_t const row : rows) {
    BALLAST_EXPECTS(row < sizes.size() / modules, "sample ", row, " was asked for of ",
                    sizes.size() / modules);
    auto const own = sizes.subspan(row * modules, modules);
    chosen.insert(chosen.end(), own.begin(), own.end());
  }
  return chosen;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_SAMPLE_SIZES_HPP
