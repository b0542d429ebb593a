// SPDX-License-Identifier: Apache-2.0
#include "module_inputs.hpp"

#include "notes.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

#include <fmt/format.h>

#include <iterator>

namespace cli {

outcome<std::uint64_t> read_bytes(std::string_view option, std::string const& text)
{
  constexpr std::pair<std::string_view, std::uint64_t> units[] = {{"", 1},
                                                                  {"B", 1},
                                                                  {"kB", 1'000},
                                                                  {"MB", 1'000'000},
                                                                  {"GB", 1'000'000'000},
                                                                  {"TB", 1'000'000'000'000},
                                                                  {"KiB", std::uint64_t{1} << 10},
                                                                  {"MiB", std::uint64_t{1} << 20},
                                                                  {"GiB", std::uint64_t{1} << 30},
                                                                  {"TiB", std::uint64_t{1} << 40}};
  auto const refuse = [&](std::string_view why) {
    return usage(fmt::format("{}: '{}' {}; write 80GB, 80GiB or 80e9", option, text, why));
  };
  std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::size_t const power = digits + 1;  // of ten: e9, e+9
  if (digits > 0 && digits < text.size() && (text[digits] == 'e' || text[digits] == 'E')) {
    std::size_t const sign = text.find_first_of("+-", power) == power ? 1 : 0;
    std::size_t const end =
        std::min(text.find_first_not_of("0123456789", power + sign), text.size());
    if (end > power + sign) { digits = end; }
  }
  if (digits == 0) { return refuse("is no size"); }
  std::string_view const name = std::string_view(text).substr(digits);
  auto const* const unit =
      std::ranges::find(units, name, &std::pair<std::string_view, std::uint64_t>::first);
  if (unit == std::end(units)) {
    return refuse(
        fmt::format("has the unit '{}', and there are B, kB, MB, GB, TB, KiB, MiB, GiB "
                    "and TiB, without a space",
                    name));
  }
  constexpr std::uint64_t billion = 1'000'000'000;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  auto const parsed = ballast::parse_decimal(std::string_view(text).substr(0, digits));
  if (!parsed && parsed.error().code == ballast::error_code::syntax) {
    return refuse("is no size");
  }
  auto const billionths = parsed ? parsed->in_units(ballast::decimal::most_decimals)
                                 : static_cast<ballast::uint128>(most) * billion;
  bool const is_tiny =
      !parsed && (text.find("e-") != text.npos || text.front() == '0' || text.front() == '.');
  if (is_tiny || (parsed && billionths * unit->second < billion)) {
    return refuse("is less than one byte");
  }
  if (!parsed || billionths > static_cast<ballast::uint128>(most) * billion / unit->second) {
    return refuse("is too large: 2^63 bytes or more");
  }
  return static_cast<std::uint64_t>(billionths * unit->second / billion);
}

outcome<std::uint64_t> read_memory(std::string_view option, std::string const& text)
{
  constexpr std::uint64_t least = 1'000'000;
  auto const bytes = read_bytes(option, text);
  if (!bytes || *bytes >= least) { return bytes; }
  return usage(fmt::format("{}: '{}' is a GPU of {} bytes; did you mean {}GB?", option, text,
                           *bytes, text.substr(0, text.find_first_not_of("0123456789."))));
}

namespace {

/// A column's name as an expression.
std::string quoted_name(std::string_view name)
{
  bool const is_plain = std::ranges::all_of(name, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') || each == '_';
  });
  if (is_plain && !name.empty()) { return std::string(name); }
  std::string text = "`";
  for (char const each : name) { text.append(each == '`' ? 2 : 1, each); }
  return text + "`";
}

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
    if (expressions[module].empty()) { expressions[module] = quoted_name(modules[module].name); }
  }
  return expressions;
}

}  // namespace

outcome<std::vector<ballast::module_profile>> read_profiles(std::string const& path)
{
  auto const file = ballast::load_profile(path);
  if (!file) { return bad_data(file.error().message); }
  auto modules = ballast::modules_of(*file);
  if (!modules) { return bad_data(path + ": " + modules.error().message); }
  std::ranges::copy(file->notes, std::back_inserter(notes()));
  return std::move(*modules);
}

outcome<std::vector<ballast::tokens>> read_module_sizes(
    std::string const& data, std::vector<std::string> const& given,
    std::span<ballast::module_profile const> modules)
{
  using ballast::error_code;
  auto const expressions = expressions_of(given, modules);
  if (!expressions) { return tl::unexpected(expressions.error()); }
  auto sizes = ballast::read_file(data, ballast::read_sample_sizes, *expressions);
  if (sizes && !sizes->empty() &&
      std::ranges::all_of(*sizes, [](auto size) { return size == 0; })) {
    return bad_data(
        fmt::format("{}: all sizes are 0, so that there is nothing to plan; correct "
                    "the columns, or give --size MODULE=EXPR",
                    data));
  }
  if (sizes) { return std::move(*sizes); }
  bool const wrong_expression = !given.empty() && (sizes.error().code == error_code::syntax ||
                                                   sizes.error().code == error_code::out_of_range);
  if (wrong_expression) { return usage("--size", sizes.error()); }
  return bad_data(sizes.error().message + (sizes.error().code == error_code::unknown_name
                                               ? "; add it, or give --size MODULE=EXPR"
                                               : ""));
}

}  // namespace cli
