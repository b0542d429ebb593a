// SPDX-License-Identifier: Apache-2.0
#include "profile_command.hpp"

#include "../common/transformer_block.hpp"
#include "cpu_layer.hpp"
#include "progress.hpp"

#include <ballast/comm/run_ranks.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/interpolated_cost.hpp>
#include <ballast/cost/read_profile.hpp>
#include <ballast/cost/training_passes.hpp>
#include <ballast/cost/write_profile.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/memory_profiler.hpp>
#include <ballast/runtime/profiler_clock.hpp>
#include <ballast/runtime/reprofile.hpp>
#include <ballast/text/write_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace cli {
namespace {

using ballast::profiler_point;
using ballast::tokens;

/// A module of the command line: what is profiled, and what computes it.
struct cpu_module {
  ballast::profiler_grid grid;
  ballast::transformer_shape shape;
  std::size_t tokens_per_item = 0;  // 0: sizes are tokens

  /// What one GPU of a tensor-parallel group has of a layer.
  [[nodiscard]] block::shape share(std::uint32_t tp) const
  {
    return {shape.hidden, shape.heads / tp, shape.kv_heads / tp, shape.head_dim,
            shape.ffn_hidden / tp};
  }
};

template <class Number>
outcome<std::vector<Number>> read_list(std::string_view option, std::string_view text,
                                       std::uint64_t most)
{
  std::vector<Number> numbers;
  for (std::string_view rest = text;;) {
    std::string_view const one = rest.substr(0, rest.find(','));
    std::uint64_t value = 0;
    auto const [end, problem] = std::from_chars(one.data(), one.data() + one.size(), value);
    if (problem != std::errc{} || end != one.data() + one.size() || value < 1 || value > most) {
      return usage(fmt::format("{}: '{}' is no list of whole numbers from 1 to {}; write 1,2,4",
                               option, text, most));
    }
    numbers.push_back(static_cast<Number>(value));
    if (one.size() == rest.size()) { return numbers; }
    rest.remove_prefix(one.size() + 1);
  }
}

/// The transformer of an option, which the built-in kernels have to be able to compute.
outcome<cpu_module> read_module(std::string const& option, std::string const& spec,
                                std::string const& name, std::vector<std::uint32_t> degrees)
{
  auto const parsed = ballast::parse_cost_spec(spec);
  if (!parsed) { return usage(option, parsed.error()); }
  cpu_module module;
  module.shape = parsed->shape;
  if (module.shape.hidden == 0 || module.shape.hidden > 1024 || module.shape.ffn_hidden > 8192) {
    return usage(option +
                 ": the built-in kernels compute on one core; give a transformer of d at "
                 "most 1024 and ffn at most 8192");
  }
  if (module.shape.gated_ffn || module.shape.vocabulary != 0 || parsed->passes.recompute != 0 ||
      module.shape.mask != ballast::attention_mask::causal) {
    return usage(option +
                 ": the built-in kernels have a causal mask, and no gate, output head or "
                 "recomputation; write causal=1, and leave out gated, vocab and recompute");
  }
  for (std::uint32_t const tp : degrees) {
    if (module.shape.kv_heads % tp != 0 || module.shape.ffn_hidden % tp != 0) {
      return usage(
          fmt::format("{}: {} kv_heads and ffn {} are no multiples of --tp {}; choose "
                      "other degrees",
                      option, module.shape.kv_heads, module.shape.ffn_hidden, tp));
    }
  }
  auto const flops = ballast::step_flops(parsed->forward, parsed->passes);
  if (!flops) { return usage(option, flops.error()); }
  module.grid = {.name = name,
                 .model = spec,
                 .layers = module.shape.layers,
                 .flops = *flops,
                 .degrees = std::move(degrees)};
  return module;
}

outcome<std::vector<cpu_module>> read_modules(profile_options const& options)
{
  constexpr std::uint64_t most_rows = 1 << 20;
  auto const degrees = read_list<std::uint32_t>("--tp", options.degrees, 1024);
  if (!degrees) { return tl::unexpected(degrees.error()); }
  std::vector<cpu_module> modules;
  if (!options.encoder.empty()) {
    auto module = read_module("--encoder", options.encoder, "encoder", *degrees);
    if (!module) { return tl::unexpected(module.error()); }
    auto const items =
        read_list<tokens>("--items", options.items, most_rows / options.tokens_per_item);
    if (!items) { return tl::unexpected(items.error()); }
    module->grid.sizes = *items;
    module->tokens_per_item = options.tokens_per_item;
    module->grid.model += fmt::format(" with {} tokens per item", options.tokens_per_item);
    // An item attends to itself alone, so all of its work is per item.
    auto const per_item =
        ballast::exact_flops(module->grid.flops, static_cast<tokens>(options.tokens_per_item));
    module->grid.flops = {.linear = static_cast<std::uint64_t>(per_item)};
    modules.push_back(std::move(*module));
  }
  auto module = read_module("--llm", options.llm, "llm", *degrees);
  if (!module) { return tl::unexpected(module.error()); }
  auto const lengths = read_list<tokens>("--lengths", options.lengths, most_rows);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  module->grid.sizes = *lengths;
  modules.push_back(std::move(*module));
  for (cpu_module const& each : modules) {
    std::set<tokens> const different(each.grid.sizes.begin(), each.grid.sizes.end());
    if (different.size() < 2) {
      return usage(
          fmt::format("the {} is measured at one size; give two at least", each.grid.name));
    }
  }
  return modules;
}

/// "16 threads, AMD EPYC 9004", as far as the system says so.
std::string this_hardware()
{
  std::string hardware = fmt::format("{} threads", std::thread::hardware_concurrency());
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    std::size_t const colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) {
      return hardware + ", " + line.substr(colon + 2);
    }
  }
  return hardware;
}

/// The profile that the output file holds, described as what is profiled now; refused where that is
/// something else.
outcome<ballast::profile_file> begin_file(profile_options const& options,
                                          std::vector<cpu_module> const& modules)
{
  ballast::profile_file now;
  now.hardware = options.hardware.empty() ? this_hardware() : options.hardware;
  now.data = options.data;
  std::error_code ignored;
  if (!std::filesystem::exists(options.output, ignored) ||
      std::filesystem::file_size(options.output, ignored) == 0) {
    return now;
  }
  auto old = ballast::load_profile(options.output);
  if (!old) { return bad_data(old.error().message); }
  for (cpu_module const& each : modules) {
    ballast::measured_module& module = ballast::module_of(now, each.grid.name);
    module.model = each.grid.model;
    module.layers = each.grid.layers;
    module.flops = each.grid.flops;
  }
  auto const again = ballast::reprofile(*old, now);
  for (std::string const& name : again.modules) {
    bool const is_new = now.hardware == old->hardware && find_module(*old, name) == nullptr;
    if (!is_new) {
      return bad_data(
          fmt::format("{}: {}; write another file", options.output, again.reasons.front()));
    }
  }
  old->data = now.data.empty() ? old->data : now.data;
  return std::move(*old);
}

/// Saves the file while it is measured, at most once a second.
class saved_profile {
 public:
  saved_profile(std::string path, ballast::profile_file const& file)
      : path_(std::move(path)), file_(file)
  {}

  void save()
  {
    done_ = ballast::write_file(path_, ballast::write_profile(file_));
    next_ = clock::now() + std::chrono::seconds(1);
  }
  void save_if_due()
  {
    if (clock::now() >= next_) { save(); }
  }

  [[nodiscard]] ballast::result<void> const& done() const { return done_; }

 private:
  using clock = std::chrono::steady_clock;

  std::string path_;
  ballast::profile_file const& file_;
  ballast::result<void> done_;
  clock::time_point next_;
};

ballast::result<void> measure_memory(ballast::profile_file& file, cpu_module const& module)
{
  auto const [least, most] = std::ranges::minmax(module.grid.sizes);
  return ballast::profile_memory(
      file, module.grid.name, module.grid.degrees, {1, module.grid.layers + 1}, {least, most},
      [&module](ballast::memory_probe const& probe) {
        block::shape const shape = module.share(probe.tp);
        auto const rows =
            static_cast<std::size_t>(probe.size) * std::max<std::size_t>(module.tokens_per_item, 1);
        return ballast::held_bytes{probe.layers * cpu_layer::state_bytes(shape),
                                   probe.layers * rows * cpu_layer::activation_bytes(shape)};
      });
}

ballast::result<ballast::profiler_summary> measure_speeds(ballast::profile_file& file,
                                                          cpu_module const& module,
                                                          ballast::profiler_settings settings,
                                                          saved_profile& saved)
{
  progress shown;
  auto const prepare = [&module](profiler_point const& point) {
    auto const size = static_cast<std::size_t>(point.size);
    block::shape const shape = module.share(point.tp);
    bool const of_items = module.tokens_per_item > 0;
    layer_part const part = of_items                                       ? layer_part::both
                            : point.part == ballast::profiled_part::linear ? layer_part::weights
                                                                           : layer_part::attention;
    return cpu_layer(shape, of_items ? size : 1, of_items ? module.tokens_per_item : size, part);
  };
  ballast::host_clock clock;
  return ballast::profile_module(
      file, module.grid, prepare, clock, settings, [&](ballast::profiler_progress const& now) {
        saved.save_if_due();
        shown.update([&] {
          return fmt::format("measuring {} at size {}, tp {}: {} of {} points done, {:.0f} s left",
                             module.grid.name, now.point.size, now.point.tp, now.done,
                             now.done + now.left, static_cast<double>(now.left_ns) * 1e-9);
        });
      });
}

/// The seconds of forward and backward of one whole layer on a sample, the median of three runs.
double time_block(block::shape const& shape, std::size_t length, block::parameters const& weights,
                  ballast::thread_communicator& comm)
{
  ballast::ulysses_plan heads;
  std::array<tokens, 1> const lengths = {static_cast<tokens>(length)};
  heads.assign(lengths, 1, shape.query_heads);
  block::transformer_block layer(shape, weights, comm);
  block::parameters gradients(shape);
  ballast::random_source random(length);
  block::values x(length * shape.width), y(x.size()), dx(x.size());
  for (double& value : x) { value = static_cast<double>(random.between(-1000, 1000)) / 1000; }
  std::array<double, 4> times{};
  for (double& time : times) {
    auto const start = std::chrono::steady_clock::now();
    (void)layer.forward(heads, x, y);
    (void)layer.backward(y, dx, gradients);
    time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::sort(times.begin() + 1, times.end());  // the first one warms up
  return times[2];
}

/// Predicts lengths between the measured ones from the profile, and measures them.
outcome<profile_check> check_profile(profile_run const& run, cpu_module const& llm)
{
  auto const modules = ballast::modules_of(run.file);
  if (!modules) { return bad_data(run.options.output + ": " + modules.error().message); }
  auto const module = std::ranges::find(*modules, "llm", &ballast::module_profile::name);
  auto const degree = std::ranges::find(module->degrees, 1U, &ballast::profiled_degree::tp);
  if (degree == module->degrees.end()) {
    return usage("--check computes on one core; give --tp 1 among the degrees");
  }
  ballast::interpolated_cost const cost{degree->linear, degree->attention, module->flops};

  auto const [least, most] = std::ranges::minmax(llm.grid.sizes);
  block::shape const shape = llm.share(1);
  block::parameters const weights = block::random_parameters(shape, 1);
  ballast::random_source random(run.options.seed);
  std::vector<double> errors;
  progress shown;
  ballast::run_ranks(1, [&](ballast::thread_communicator& comm) {
    while (errors.size() < run.options.check) {
      tokens const length = random.between(least, most);
      if (std::ranges::find(llm.grid.sizes, length) != llm.grid.sizes.end()) { continue; }
      double const predicted = static_cast<double>(cost(length)) * 1e-12 / module->layers;
      double const measured = time_block(shape, static_cast<std::size_t>(length), weights, comm);
      errors.push_back(predicted / measured - 1);
      shown.update([&] {
        return fmt::format("predicting {} of {} lengths", errors.size(), run.options.check);
      });
    }
  });
  auto const at = [](std::vector<double> const& sorted, std::size_t quarters) {
    return sorted[(sorted.size() - 1) * quarters / 4];
  };
  profile_check check;
  check.lengths = errors.size();
  std::ranges::sort(errors);
  check.bias = at(errors, 2);
  for (double& error : errors) { error = std::abs(error); }
  std::ranges::sort(errors);
  check.lower_quartile = at(errors, 1);
  check.median = at(errors, 2);
  check.upper_quartile = at(errors, 3);
  check.largest = errors.back();
  return check;
}

}  // namespace

outcome<profile_run> run_profile(profile_options const& options)
{
  auto const modules = read_modules(options);
  if (!modules) { return tl::unexpected(modules.error()); }
  cpu_module const& llm = modules->back();
  auto const [least, most] = std::ranges::minmax(llm.grid.sizes);
  std::set<tokens> const sizes(llm.grid.sizes.begin(), llm.grid.sizes.end());
  if (options.check > 0 && most - least + 1 <= static_cast<tokens>(sizes.size())) {
    return usage("--check: all lengths from the smallest to the largest are measured; leave gaps");
  }
  auto file = begin_file(options, *modules);
  if (!file) { return tl::unexpected(file.error()); }

  profile_run run{options, std::move(*file), {}, 0, {}};
  saved_profile saved(options.output, run.file);
  saved.save();  // where it cannot be written, nothing is measured
  if (!saved.done()) { return bad_data(saved.done().error().message); }
  auto const start = std::chrono::steady_clock::now();
  auto const used_ns = [start] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                start)
        .count();
  };
  for (cpu_module const& module : *modules) {
    if (auto done = measure_memory(run.file, module); !done) {
      return bad_data(done.error().message);
    }
    ballast::profiler_settings settings{.warm_up = options.warm_up, .runs = options.runs};
    if (options.budget_seconds > 0) {
      settings.budget_ns = std::max<std::int64_t>(
          static_cast<std::int64_t>(options.budget_seconds * 1e9) - used_ns(), 0);
    }
    auto const summary = measure_speeds(run.file, module, settings, saved);
    saved.save();
    if (!summary) { return bad_data(summary.error().message); }
    if (!saved.done()) { return bad_data(saved.done().error().message); }
    run.summary.measured += summary->measured;
    run.summary.known += summary->known;
    run.summary.left += summary->left;
  }
  run.seconds = static_cast<double>(used_ns()) * 1e-9;
  if (options.check > 0 && run.summary.left == 0) {
    auto const checked = check_profile(run, llm);
    if (!checked) { return tl::unexpected(checked.error()); }
    run.check = *checked;
  }
  return run;
}

}  // namespace cli
