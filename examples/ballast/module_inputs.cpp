// SPDX-License-Identifier: Apache-2.0
#include "module_inputs.hpp"

#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/workload/sample_sizes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace cli {

outcome<std::uint64_t> read_bytes(std::string_view option, std::string const& text)
{
  constexpr std::pair<std::string_view, std::uint64_t> units[] = {{"KiB", std::uint64_t{1} << 10},
                                                                  {"MiB", std::uint64_t{1} << 20},
                                                                  {"GiB", std::uint64_t{1} << 30},
                                                                  {"TiB", std::uint64_t{1} << 40},
                                                                  {"kB", 1'000},
                                                                  {"MB", 1'000'000},
                                                                  {"GB", 1'000'000'000},
                                                                  {"TB", 1'000'000'000'000},
                                                                  {"B", 1}};
  std::string_view number = text;
  std::uint64_t unit = 1;
  for (auto const& [name, bytes] : units) {
    if (!number.ends_with(name)) { continue; }
    number.remove_suffix(name.size());
    unit = bytes;
    break;
  }
  constexpr std::uint64_t billion = 1'000'000'000;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  auto const parsed = ballast::parse_decimal(number);
  ballast::uint128 const billionths =
      parsed ? parsed->in_units(ballast::decimal::most_decimals) : ballast::uint128{0};
  bool const good = parsed && billionths <= static_cast<ballast::uint128>(most) * billion / unit &&
                    billionths * unit >= billion;
  if (!good) {
    return usage(fmt::format("{}: '{}' is no size of at least one byte; write 80GB, 80GiB or 80e9",
                             option, text));
  }
  return static_cast<std::uint64_t>(billionths * unit / billion);
}

namespace {

/// For each module the expression of its sizes: that of a --size, or the column that has its name.
outcome<std::vector<std::string>> expressions_of(std::vector<std::string> const& given,
                                                 std::span<ballast::module_profile const> modules)
{
  std::vector<std::string> expressions(modules.size());
  for (std::string const& size : given) {
    std::size_t const equals = size.find('=');
    std::string_view const name = std::string_view(size).substr(0, equals);
    auto const module =
        std::ranges::find_if(modules, [name](auto const& each) { return each.name == name; });
    if (equals == size.npos || module == modules.end()) {
      std::string names;
      for (auto const& each : modules) { names += (names.empty() ? "" : ", ") + each.name; }
      return usage(fmt::format(
          "--size: '{}' gives no module of the profile a size; write MODULE=EXPR for one of {}",
          size, names));
    }
    std::string& expression = expressions[static_cast<std::size_t>(module - modules.begin())];
    if (!expression.empty()) {
      return usage(fmt::format("--size: module {} has two sizes; give one", name));
    }
    expression = size.substr(equals + 1);
    if (expression.empty()) {
      return usage(fmt::format("--size: '{}' has no expression; name a column", size));
    }
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    if (expressions[module].empty()) { expressions[module] = "`" + modules[module].name + "`"; }
  }
  return expressions;
}

}  // namespace

outcome<std::vector<ballast::tokens>> read_module_sizes(
    std::string const& data, std::vector<std::string> const& given,
    std::span<ballast::module_profile const> modules)
{
  using ballast::error_code;
  auto const expressions = expressions_of(given, modules);
  if (!expressions) { return tl::unexpected(expressions.error()); }
  auto sizes = ballast::load_sample_sizes(data, *expressions);
  if (sizes) { return std::move(*sizes); }
  bool const wrong_expression = !given.empty() && (sizes.error().code == error_code::syntax ||
                                                   sizes.error().code == error_code::out_of_range);
  if (wrong_expression) { return usage("--size", sizes.error()); }
  return bad_data(sizes.error().message + (sizes.error().code == error_code::unknown_name
                                               ? "; add it, or give --size MODULE=EXPR"
                                               : ""));
}

}  // namespace cli
