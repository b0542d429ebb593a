// SPDX-License-Identifier: Apache-2.0
#include "module_inputs.hpp"

#include "notes.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "table.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <system_error>

namespace cli {

std::optional<std::uint32_t> whole_number(std::string_view text)
{
  std::uint32_t value = 0;
  auto const parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const good = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return good ? std::optional(value) : std::nullopt;
}

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

outcome<std::size_t> find_module(std::string_view option, std::string_view name,
                                 std::span<ballast::module_profile const> modules)
{
  auto const found =
      std::ranges::find_if(modules, [name](auto const& each) { return each.name == name; });
  if (found != modules.end()) { return static_cast<std::size_t>(found - modules.begin()); }
  std::string names;
  for (auto const& each : modules) { names += (names.empty() ? "" : ", ") + each.name; }
  return usage(
      fmt::format("{}: '{}' is no module of the profile; choose one of {}", option, name, names));
}

outcome<std::vector<module_value>> read_module_values(
    std::string_view option, std::span<std::string const> given,
    std::span<ballast::module_profile const> modules)
{
  std::vector<module_value> values;
  for (std::string const& text : given) {
    std::size_t const equals = text.rfind('=');
    if (equals == text.npos) {
      return usage(
          fmt::format("{}: '{}' has no '='; write a module, '=' and its value", option, text));
    }
    auto const module = find_module(option, std::string_view(text).substr(0, equals), modules);
    if (!module) { return tl::unexpected(module.error()); }
    if (std::ranges::count(values, *module, &module_value::module) > 0) {
      return usage(
          fmt::format("{} is given twice for {}; give it once", option, modules[*module].name));
    }
    values.push_back({*module, text.substr(equals + 1)});
  }
  return values;
}

namespace {

/// The bytes of a GPU, a million at least: `80` lacks its unit.
outcome<std::uint64_t> read_memory(std::string_view option, std::string const& text)
{
  constexpr std::uint64_t least = 1'000'000;
  auto const bytes = read_bytes(option, text);
  if (!bytes || *bytes >= least) { return bytes; }
  return usage(fmt::format("{}: '{}' is a GPU of {} bytes; did you mean {}GB?", option, text,
                           *bytes, text.substr(0, text.find_first_not_of("0123456789."))));
}

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

/// The profiles that a file holds; what is to be noted of it is among notes().
outcome<std::vector<ballast::module_profile>> read_profiles(std::string const& path)
{
  auto const file = ballast::load_profile(path);
  if (!file) { return bad_data(file.error().message); }
  auto modules = file->profiles();
  if (!modules) { return bad_data(path + ": " + modules.error().message); }
  std::ranges::copy(file->notes, std::back_inserter(notes()));
  return std::move(*modules);
}

/// The sizes of all samples of a file in each module: of the column that is named as it, or of an
/// expression that a --size gives, MODULE=EXPR.
outcome<std::vector<ballast::tokens>> read_module_sizes(
    std::string const& data, std::vector<std::string> const& given,
    std::span<ballast::module_profile const> modules)
{
  using ballast::error_code;
  auto const expressions = expressions_of(given, modules);
  if (!expressions) { return tl::unexpected(expressions.error()); }
  auto const rows = read_table(data);
  if (!rows) { return tl::unexpected(rows.error()); }
  auto sizes = ballast::read_sample_sizes(rows->csv, *expressions);
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
  return bad_data(told(*rows, sizes.error()) + (sizes.error().code == error_code::unknown_name
                                                    ? "; add it, or give --size MODULE=EXPR"
                                                    : ""));
}

outcome<ballast::state_parts> read_state(std::string const& text)
{
  std::vector<std::uint32_t> parts;
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t const comma = std::min(text.find(',', at), text.size());
    auto const part = whole_number(std::string_view(text).substr(at, comma - at));
    if (!part || *part > 1000) {
      parts.clear();
      break;
    }
    parts.push_back(*part);
    at = comma + 1;
  }
  if (parts.size() != 3 || parts[0] + parts[1] + parts[2] == 0) {
    return usage(fmt::format(
        "--state: '{}' is no list of bytes for weight, gradient and optimiser; write 2,2,12",
        text));
  }
  return ballast::state_parts{parts[0], parts[1], parts[2], true};
}

/// N:SIZE or N:SIZE:SPEED.
outcome<ballast::gpu_kind> read_kind(std::string_view option, std::string const& text,
                                     ballast::gpu_kind kind)
{
  std::size_t const first = text.find(':');
  std::size_t const second = first == text.npos ? text.npos : text.find(':', first + 1);
  auto const gpus = whole_number(std::string_view(text).substr(0, first));
  if (first == text.npos || !gpus || *gpus == 0) {
    return usage(
        fmt::format("{}: '{}' is no number of GPUs and their memory; write 32:40GB, or "
                    "32:40GB:0.5 for GPUs of half the speed",
                    option, text));
  }
  kind.gpus = *gpus;
  auto const memory = read_memory(option, text.substr(first + 1, second - first - 1));
  if (!memory) { return tl::unexpected(memory.error()); }
  kind.memory_bytes = *memory;
  if (second == text.npos) { return kind; }
  constexpr std::int64_t whole = 1'000;
  auto const speed = ballast::parse_decimal(std::string_view(text).substr(second + 1));
  bool const is_exact = speed && speed->decimals() <= 3;
  auto const thousandths = is_exact ? speed->in_units(3) : ballast::uint128{0};
  if (thousandths == 0 || thousandths > static_cast<ballast::uint128>(1'000 * whole)) {
    return usage(fmt::format(
        "{}: '{}' is no speed from 0.001 to 1000, of three decimals at most, beside the "
        "profile's GPUs; write 0.5",
        option, text.substr(second + 1)));
  }
  kind.speed = {static_cast<std::int64_t>(thousandths), whole};
  return kind;
}

/// The roles of modules, and the kinds of GPUs behind the first one.
outcome<void> read_roles(model_job& job, model_options const& options)
{
  auto const& modules = job.modules;
  auto& kinds = job.problem.kinds;
  job.roles.resize(modules.size());
  for (std::string const& name : options.frozen) {
    auto const module = find_module("--frozen", name, modules);
    if (!module) { return tl::unexpected(module.error()); }
    job.roles[*module].is_trained = false;
  }
  for (std::string const& name : options.trained_inputs) {
    auto const module = find_module("--trained-input", name, modules);
    if (!module) { return tl::unexpected(module.error()); }
    job.roles[*module].is_input_trained = true;
  }
  for (std::string const& name : options.may_shard) {
    auto const module = find_module("--may-shard", name, modules);
    if (!module) { return tl::unexpected(module.error()); }
    job.roles[*module].weights = ballast::weight_sharding::either;
  }
  std::vector<std::size_t> shared{0};
  for (std::string const& text : options.more_gpus) {
    auto const kind = read_kind("--more-gpus", text, kinds.front());
    if (!kind) { return tl::unexpected(kind.error()); }
    shared.push_back(kinds.size());
    kinds.push_back(*kind);
  }
  for (ballast::module_role& each : job.roles) { each.kinds = shared; }
  auto const own = read_module_values("--own-gpus", options.own_gpus, modules);
  if (!own) { return tl::unexpected(own.error()); }
  for (auto const& [module, text] : *own) {
    auto const kind = read_kind("--own-gpus", text, kinds.front());
    if (!kind) { return tl::unexpected(kind.error()); }
    job.roles[module].kinds = {kinds.size()};
    kinds.push_back(*kind);
  }
  if (own->size() == modules.size() && !options.more_gpus.empty()) {
    return usage(
        "--more-gpus: every module has GPUs of its own; leave it out, or one of --own-gpus");
  }
  return {};
}

}  // namespace

outcome<void> read_model(model_job& job, model_options const& options)
{
  if (auto const checked = check_plan(options.plan, options.format); !checked) { return checked; }
  if (auto const checked = check_paths({{"--profile", &options.profile}, {"--data", &options.data}},
                                       {{"--plan", &options.plan}, {"--report", &options.report}});
      !checked) {
    return checked;
  }
  auto const memory = read_memory("--memory", options.memory);
  if (!memory) { return tl::unexpected(memory.error()); }
  if (!options.state.empty()) {
    auto const state = read_state(options.state);
    if (!state) { return tl::unexpected(state.error()); }
    job.problem.state = *state;
  }
  auto modules = read_profiles(options.profile);
  if (!modules) { return tl::unexpected(modules.error()); }
  job.modules = *std::move(modules);
  ballast::gpu_kind& kind = job.problem.kinds.front();
  kind.gpus = options.gpus;
  kind.gpus_per_node = options.gpus_per_node;
  kind.memory_bytes = *memory;
  kind.bytes_per_second = static_cast<std::uint64_t>(options.between_nodes_gb_per_s * 1e9);
  if (auto const done = read_roles(job, options); !done) { return done; }
  auto sizes = read_module_sizes(options.data, options.sizes, job.modules);
  if (!sizes) { return tl::unexpected(sizes.error()); }
  job.sizes = *std::move(sizes);
  job.rows = job.sizes.size() / job.modules.size();
  job.problem.global_batch = options.global_batch;
  job.problem.modules = job.modules;
  job.problem.roles = job.roles;
  job.problem.sizes = job.sizes;
  return {};
}

}  // namespace cli
