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
outcome<std::vector<std::int64_t>> read_numbers(number_list const& list, std::string const& given)
{
  std::vector<std::int64_t> numbers;
  auto const take = [&](std::string_view text) {
    auto const [end, problem] =
        std::from_chars(text.data(), text.data() + text.size(), numbers.emplace_back());
    return problem == std::errc{} && end == text.data() + text.size() &&
           numbers.back() >= list.least && numbers.back() <= list.most;
  };
  std::string const expected =
      fmt::format("expected {}, a whole number from {} to {}", list.thing, list.least, list.most);
  if (given.find_first_not_of("0123456789,") == given.npos) {
    for (std::size_t first = 0; first <= given.size();) {
      std::size_t const comma = std::min(given.find(',', first), given.size());
      if (!take(std::string_view(given).substr(first, comma - first))) {
        return usage(fmt::format("{}: '{}': {}; write a list such as 8,12,8, or name a file",
                                 list.option, given.substr(first, comma - first), expected));
      }
      first = comma + 1;
    }
    return numbers;
  }
  auto const text = read_text(given);
  if (!text) { return tl::unexpected(text.error()); }
  ballast::csv_reader lines(*text);
  while (true) {
    auto const row = lines.next();
    if (!row) { return bad_data(fmt::format("{}: {}", given, row.error().message)); }
    auto const fields = row->fields;
    if (fields.empty()) { return numbers; }
    if (fields.size() != 1 || !take(fields.front())) {
      return bad_data(
          fmt::format("{}: line {}: {}; write one on each line", given, row->line, expected));
    }
  }
}

outcome<std::vector<std::int64_t>> read_of_each(number_list const& list, std::string const& given,
                                                std::size_t count, std::string_view thing)
{
  if (given.empty()) { return {}; }
  auto numbers = read_numbers(list, given);
  if (!numbers) { return numbers; }
  if (numbers->size() == 1) { numbers->resize(count, numbers->front()); }
  if (numbers->size() == count) { return numbers; }
  return usage(fmt::format("{} has {}, and there are {}; give one for each, or one for all",
                           list.option, count_of(numbers->size(), "number"),
                           count_of(count, thing)));
}

outcome<std::vector<std::uint32_t>> read_nodes(std::string const& given)
{
  auto const read = read_numbers({"--nodes", "the GPUs of a node", 1, 1 << 24}, given);
  if (!read) { return tl::unexpected(read.error()); }
  return std::vector<std::uint32_t>(read->begin(), read->end());
}

outcome<std::vector<std::uint32_t>> read_speeds(std::string const& given, std::size_t gpus)
{
  auto const read = read_numbers({"--speeds", "the speed of one GPU", 1, 1'000'000}, given);
  if (!read) { return tl::unexpected(read.error()); }
  if (read->size() != gpus) {
    return bad_data(
        fmt::format("{}: there are {}, and the job has {}; give one for each GPU in "
                    "rank order",
                    given, count_of(read->size(), "speed"), count_of(gpus, "GPU")));
  }
  std::vector<std::uint32_t> speeds(read->begin(), read->end());
  std::uint32_t const unit =
      std::accumulate(speeds.begin(), speeds.end(), 0U,
                      [](std::uint32_t a, std::uint32_t b) { return std::gcd(a, b); });
  for (std::uint32_t& speed : speeds) { speed /= unit; }
  if (std::ranges::max(speeds) == 1) { speeds.clear(); }
  return speeds;
}

}  // namespace cli
