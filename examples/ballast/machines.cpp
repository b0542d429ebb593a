// SPDX-License-Identifier: Apache-2.0
#include "machines.hpp"

#include "out_of_memory.hpp"
#include "output.hpp"

#include <ballast/text/csv.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cli {
namespace {

/// A whole number from 1 to `most`, or 0 where the text is not one.
std::uint32_t number_in(std::string_view text, std::uint32_t most)
{
  std::uint32_t number = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const good = problem == std::errc{} && end == text.data() + text.size() && number <= most;
  return good ? number : 0;
}

}  // namespace

outcome<std::vector<std::uint32_t>> read_nodes(std::string const& text)
{
  constexpr std::uint32_t most_gpus = 1U << 24;
  std::vector<std::uint32_t> nodes;
  for (std::size_t first = 0; first <= text.size();) {
    std::size_t const comma = std::min(text.find(',', first), text.size());
    std::string_view const size = std::string_view(text).substr(first, comma - first);
    nodes.push_back(number_in(size, most_gpus));
    if (nodes.back() == 0) {
      return usage(
          fmt::format("--nodes: '{}' is no number of GPUs from 1 to {}; list the GPUs of "
                      "every node, as in 8,8,8,8,5",
                      size, most_gpus));
    }
    first = comma + 1;
  }
  return nodes;
}

outcome<std::vector<std::uint32_t>> read_speeds(std::string const& path, std::size_t gpus)
{
  constexpr std::uint32_t most_speed = 1'000'000;
  auto const text = read_text(path);
  if (!text) { return tl::unexpected(text.error()); }
  ballast::csv_reader lines(*text);
  std::vector<std::uint32_t> speeds;
  while (true) {
    auto const row = lines.next();
    if (!row) { return bad_data(fmt::format("{}: {}", path, row.error().message)); }
    auto const fields = row->fields;
    if (fields.empty()) { break; }
    speeds.push_back(fields.size() == 1 ? number_in(fields.front(), most_speed) : 0);
    if (speeds.back() == 0) {
      return bad_data(fmt::format(
          "{}: line {}: expected the speed of one GPU, a whole number from 1 to {}; write a line "
          "for each GPU in rank order",
          path, row->line, most_speed));
    }
  }
  if (speeds.size() != gpus) {
    return bad_data(
        fmt::format("{}: the file has {}, and the job has {}; write a line for each GPU in rank "
                    "order",
                    path, count_of(speeds.size(), "speed"), count_of(gpus, "GPU")));
  }
  std::uint32_t const unit =
      std::accumulate(speeds.begin(), speeds.end(), 0U,
                      [](std::uint32_t a, std::uint32_t b) { return std::gcd(a, b); });
  for (std::uint32_t& speed : speeds) { speed /= unit; }
  if (std::ranges::max(speeds) == 1) { speeds.clear(); }
  return speeds;
}

}  // namespace cli
