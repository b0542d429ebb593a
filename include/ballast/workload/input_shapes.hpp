// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_INPUT_SHAPES_HPP
#define BALLAST_WORKLOAD_INPUT_SHAPES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/sample_sizes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// What a sample is for the modules of a model. The two are drawn together, never apart: a document
/// with many images is a long one for the LLM as well.
struct input_shape {
  std::int64_t items = 0;  ///< that the encoder computes: tiles, frames, chunks of audio
  tokens length = 0;       ///< that the LLM reads: text, and what becomes of the items

  friend constexpr input_shape operator+(input_shape a, input_shape b)
  {
    return {a.items + b.items, a.length + b.length};
  }
  friend bool operator==(input_shape const&, input_shape const&) = default;
};

/// The shapes of real samples: one per row of a CSV text, in its order. Either number is a column or
/// an expression of columns, see `column_expression`.
///
/// Ensures     (1) one shape per row below the header, both numbers in [0, longest_sample]
/// Errors      those of read_sample_sizes.
/// Complexity  O(bytes), in two passes.
[[nodiscard]] inline result<std::vector<input_shape>> read_input_shapes(
    std::string_view csv, std::string_view items = "items", std::string_view length = "tokens")
{
  std::array<std::string, 2> const expressions = {std::string(items), std::string(length)};
  auto const sizes = read_sample_sizes(csv, expressions);
  if (!sizes) { return tl::unexpected(sizes.error()); }
  std::vector<input_shape> shapes(sizes->size() / 2);
  for (std::size_t row = 0; row < shapes.size(); ++row) {
    shapes[row] = {(*sizes)[2 * row], (*sizes)[2 * row + 1]};
  }
  return shapes;
}

/// Reads the file at `path`; as `read_input_shapes`, with the path in front of every message.
///
/// Errors      also unreadable: the file cannot be opened or read, or it is a directory.
[[nodiscard]] inline result<std::vector<input_shape>> load_input_shapes(
    std::string const& path, std::string_view items = "items", std::string_view length = "tokens")
{
  auto const csv = read_file(path);
  if (!csv) { return tl::unexpected(csv.error()); }
  auto shapes = read_input_shapes(*csv, items, length);
  if (!shapes) { shapes.error().message.insert(0, path + ": "); }
  return shapes;
}

/// Rows of a trace, each draw independent of the others and every row equally likely.
///
/// Expects     at least one row.
/// Ensures     (1) equal arguments give equal draws on every machine
/// Complexity  O(draws).
template <class Row>
[[nodiscard]] std::vector<Row> draw_rows(std::span<Row const> rows, std::size_t draws,
                                         std::uint64_t seed)
{
  BALLAST_EXPECTS(!rows.empty());
  random_source random(seed);
  std::vector<Row> drawn;
  drawn.reserve(draws);
  for (std::size_t draw = 0; draw < draws; ++draw) {
    drawn.push_back(rows[static_cast<std::size_t>(random.below(rows.size()))]);
  }
  return drawn;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_INPUT_SHAPES_HPP
