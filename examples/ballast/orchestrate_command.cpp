// SPDX-License-Identifier: Apache-2.0
#include "orchestrate_command.hpp"
#include "../common/baselines/orchestrations.hpp"

#include "module_inputs.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/text/decimal.hpp>

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <set>
#include <system_error>

namespace cli {
namespace {

std::optional<std::uint32_t> whole_number(std::string_view text)
{
  std::uint32_t value = 0;
  auto const parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const good = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return good ? std::optional(value) : std::nullopt;
}

/// The module of a name that an option gives.
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

struct module_value {
  std::size_t module;
  std::string value;
};

/// MODULE=VALUE, where the value has no '='.
outcome<module_value> read_module_value(std::string_view option, std::string const& text,
                                        std::span<ballast::module_profile const> modules)
{
  std::size_t const equals = text.rfind('=');
  if (equals == text.npos) {
    return usage(
        fmt::format("{}: '{}' has no '='; write a module, '=' and its value", option, text));
  }
  auto const module = find_module(option, std::string_view(text).substr(0, equals), modules);
  if (!module) { return tl::unexpected(module.error()); }
  return module_value{*module, text.substr(equals + 1)};
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

/// What the options say of single modules.
outcome<void> read_modules(orchestrate_run& run)
{
  orchestrate_options const& options = run.options;
  auto& modules = run.modules;
  run.roles.resize(modules.size());
  run.llm = modules.size() - 1;
  if (!options.llm.empty()) {
    auto const llm = find_module("--llm", options.llm, modules);
    if (!llm) { return tl::unexpected(llm.error()); }
    run.llm = *llm;
  }
  for (std::string const& name : options.frozen) {
    auto const module = find_module("--frozen", name, modules);
    if (!module) { return tl::unexpected(module.error()); }
    run.roles[*module].is_trained = false;
  }
  for (std::string const& name : options.trained_inputs) {
    auto const module = find_module("--trained-input", name, modules);
    if (!module) { return tl::unexpected(module.error()); }
    run.roles[*module].is_input_trained = true;
  }
  std::set<std::pair<std::string_view, std::size_t>> known;
  auto const read_once = [&](std::string_view option,
                             std::string const& text) -> outcome<module_value> {
    auto given = read_module_value(option, text, modules);
    if (given && !known.emplace(option, given->module).second) {
      return usage(fmt::format("{} is given twice for {}; give it once", option,
                               modules[given->module].name));
    }
    return given;
  };
  for (std::string const& text : options.boundary_bytes) {
    auto const given = read_once("--boundary-bytes", text);
    if (!given) { return tl::unexpected(given.error()); }
    auto const bytes = read_bytes("--boundary-bytes", given->value);
    if (!bytes) { return tl::unexpected(bytes.error()); }
    // The profile has them of a token or item.
    auto const size =
        static_cast<std::uint64_t>(std::max<ballast::tokens>(run.mean_sizes[given->module], 1));
    modules[given->module].boundary_bytes = (*bytes + size - 1) / size;
  }
  if (!options.boundary_bytes.empty() && options.between_nodes_gb_per_s == 0) {
    return usage(
        "--boundary-bytes: sending takes no time without --between-nodes-bandwidth; give it too");
  }
  for (std::string const& text : options.virtual_stages) {
    auto const given = read_once("--virtual-stages", text);
    if (!given) { return tl::unexpected(given.error()); }
    auto const stages = whole_number(given->value);
    std::uint32_t const layers = modules[given->module].layers;
    if (!stages || *stages == 0 || *stages > layers) {
      return usage(
          fmt::format("--virtual-stages: '{}' is no number of virtual stages from 1 to the "
                      "{} layers of the module",
                      given->value, layers));
    }
    run.roles[given->module].virtual_stages = *stages;
  }
  std::vector<std::size_t> shared{0};
  for (std::string const& text : options.more_gpus) {
    auto const kind = read_kind("--more-gpus", text, run.problem.kinds.front());
    if (!kind) { return tl::unexpected(kind.error()); }
    shared.push_back(run.problem.kinds.size());
    run.problem.kinds.push_back(*kind);
  }
  for (ballast::module_role& each : run.roles) { each.kinds = shared; }
  for (std::string const& text : options.own_gpus) {
    auto const given = read_once("--own-gpus", text);
    if (!given) { return tl::unexpected(given.error()); }
    auto const kind = read_kind("--own-gpus", given->value, run.problem.kinds.front());
    if (!kind) { return tl::unexpected(kind.error()); }
    run.roles[given->module].kinds = {run.problem.kinds.size()};
    run.problem.kinds.push_back(*kind);
  }
  bool const is_shared = std::ranges::any_of(
      run.roles, [&shared](ballast::module_role const& each) { return each.kinds == shared; });
  if (!is_shared && !options.more_gpus.empty()) {
    return usage(
        "--more-gpus: every module has GPUs of its own; leave it out, or one of --own-gpus");
  }
  return {};
}

/// What a policy finds, among the others; nothing where none of its kind fits.
void add_baseline(orchestrate_run& run, std::string name,
                  ballast::result<ballast::orchestration> const& found)
{
  if (found) { run.layouts.push_back({std::move(name), found->layout, found->simulated}); }
}

}  // namespace

outcome<orchestrate_run> run_orchestrate(orchestrate_options const& options)
{
  if (auto const checked = check_plan(options.plan, options.format); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto const checked = check_paths({{"--profile", &options.profile}, {"--data", &options.data}},
                                       {{"--plan", &options.plan}, {"--report", &options.report}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const memory = read_memory("--memory", options.memory);
  if (!memory) { return tl::unexpected(memory.error()); }
  auto const state = read_state(options.state);
  if (!state) { return tl::unexpected(state.error()); }
  auto const profiles = read_profiles(options.profile);
  if (!profiles) { return tl::unexpected(profiles.error()); }
  auto sizes = read_module_sizes(options.data, options.sizes, *profiles);
  if (!sizes) { return tl::unexpected(sizes.error()); }

  orchestrate_run run;
  run.options = options;
  run.rows = sizes->size() / profiles->size();
  ballast::gpu_kind kind;
  kind.gpus = options.gpus;
  kind.gpus_per_node = options.gpus_per_node;
  kind.memory_bytes = *memory;
  kind.bytes_per_second = static_cast<std::uint64_t>(options.between_nodes_gb_per_s * 1e9);
  run.problem.kinds = {kind};
  run.problem.global_batch = options.global_batch;
  run.problem.may_leave_gpus = true;
  run.problem.state = *state;
  run.modules = *profiles;
  run.sizes = *std::move(sizes);
  for (std::size_t module = 0; module < profiles->size(); ++module) {
    ballast::uint128 total = 0;
    for (std::size_t at = module; at < run.sizes.size(); at += profiles->size()) {
      total += static_cast<ballast::uint128>(run.sizes[at]);
    }
    run.mean_sizes.push_back(static_cast<ballast::tokens>((total + run.rows - 1) / run.rows));
  }
  if (auto const done = read_modules(run); !done) { return tl::unexpected(done.error()); }
  run.problem.modules = run.modules;
  run.problem.roles = run.roles;
  run.problem.sizes = run.sizes;
  if (options.global_batch % options.microbatch != 0) {
    return usage(
        fmt::format("--microbatch: a batch of {} samples is no whole number of "
                    "microbatches of {}; give a divisor of the batch",
                    options.global_batch, options.microbatch));
  }

  auto const start = std::chrono::steady_clock::now();
  ballast::orchestrate_options const asked{.llm = run.llm, .microbatch = options.microbatch};
  auto const found = ballast::orchestrate(run.problem, {}, asked);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!found) {
    if (found.error().code != ballast::error_code::infeasible) {
      return bad_data(found.error().message);
    }
    run.why_none = found.error().message;
    return run;
  }
  run.evaluated = found->evaluated;
  add_baseline(run, "homogeneous",
               ballast::orchestrate(run.problem, {}, baselines::homogeneous(asked)));
  add_baseline(run, "by_flops", baselines::by_flops{}(run.problem, asked));
  add_baseline(run, "monolithic",
               ballast::orchestrate(run.problem, {}, baselines::monolithic(asked)));
  std::ranges::sort(run.layouts, {}, [](policy_layout const& each) {
    return std::pair(each.layout.step, std::string_view(each.policy));
  });
  run.layouts.insert(run.layouts.begin(), {"best", found->layout, found->simulated});
  return run;
}

}  // namespace cli
