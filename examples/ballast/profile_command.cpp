// SPDX-License-Identifier: Apache-2.0
#include "profile_command.hpp"

#include "core_clock.hpp"
#include "cpu_layer.hpp"
#include "cpu_modules.hpp"
#include "profile_check.hpp"
#include "progress.hpp"

#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/cost/read_profile.hpp>
#include <ballast/cost/write_profile.hpp>
#include <ballast/runtime/memory_profiler.hpp>
#include <ballast/runtime/reprofile.hpp>
#include <ballast/text/write_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
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
  core_clock clock;
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
    auto const checked = check_predictions(run, llm);
    if (!checked) { return tl::unexpected(checked.error()); }
    run.check = *checked;
  }
  return run;
}

}  // namespace cli
