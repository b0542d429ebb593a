// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/pipeline_files.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void expect(bool holds)
{
  if (!holds) { std::abort(); }
}

}  // namespace

// Whatever times a text holds, they are read back from what they are written as; an error names a
// line of the text.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const read = ballast::read_pipeline_times(text);
  if (!read) {
    auto const lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
    expect(read.error().position >= 1 && read.error().position <= lines);
    return 0;
  }
  std::string written = "microbatch,stage,forward,backward,weights,held,held_for_weights\n";
  for (std::size_t row = 0; row < read->times.rows.size(); ++row) {
    auto const& [forward, backward] = read->times.rows[row];
    auto const weights = read->times.of(row, ballast::pass::weights);
    auto const& [held, for_weights] = read->held[row];
    expect(std::min({forward, backward, weights}) >= 0 && for_weights <= held);
    expect(std::max({forward, backward, weights}) <= ballast::stage_graph::longest_time);
    written += std::to_string(row / read->times.stages) + ',' +
               std::to_string(row % read->times.stages) + ',' +
               ballast::decimal::make(forward, read->decimals).text() + ',' +
               ballast::decimal::make(backward, read->decimals).text() + ',' +
               ballast::decimal::make(weights, read->decimals).text() + ',' + std::to_string(held) +
               ',' + std::to_string(for_weights) + '\n';
  }
  auto const again = ballast::read_pipeline_times(written);
  expect(again.has_value() && again->times == read->times && again->decimals == read->decimals &&
         again->held == read->held);
  return 0;
}
