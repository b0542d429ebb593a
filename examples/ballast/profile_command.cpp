// SPDX-License-Identifier: Apache-2.0
#include "profile_command.hpp"

#include "cleanup.hpp"
#include "cpu_device.hpp"
#include "gpu/gpu_device.hpp"
#include "layer_device.hpp"
#include "notes.hpp"
#include "profile_check.hpp"
#include "profiled_module.hpp"
#include "profiled_modules.hpp"
#include "progress.hpp"
#include "write_file.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <system_error>

namespace cli {
namespace {

using ballast::tokens;

outcome<std::unique_ptr<layer_device>> choose_device(std::string const& name)
{
  std::string const why_not = name == "cpu" ? "" : why_no_gpu();
  if (name == "cpu" || (name == "auto" && !why_not.empty())) { return make_cpu_device(); }
  if (!why_not.empty()) {
    return usage(fmt::format("--device gpu: {}, or give --device cpu", why_not));
  }
  auto made = make_gpu_device();
  if (!made) {
    return bad_data(
        fmt::format("{}; or give --device cpu to measure on one core", made.error().message));
  }
  return std::move(*made);
}

/// The profile that the output file holds, described as what is profiled now; refused where that is
/// something else.
outcome<ballast::profile_file> begin_file(profile_options const& options,
                                          std::vector<profiled_module> const& modules,
                                          layer_device const& device)
{
  ballast::profile_file now;
  now.hardware = options.hardware.empty() ? device.hardware() : options.hardware;
  now.data = options.data;
  std::error_code ignored;
  if (!std::filesystem::exists(options.output, ignored) ||
      std::filesystem::file_size(options.output, ignored) == 0) {
    return now;
  }
  auto old = ballast::load_profile(options.output);
  if (!old) { return bad_data(old.error().message); }
  std::ranges::copy(old->notes, std::back_inserter(notes()));
  for (profiled_module const& each : modules) {
    ballast::profile_file::measured_module& module = now.find_or_add(each.grid.name);
    module.model = each.grid.model;
    module.layers = each.grid.layers;
    module.flops = each.grid.flops;
  }
  auto const again = ballast::reprofile(*old, now);
  for (std::string const& name : again.modules) {
    bool const is_new = now.hardware == old->hardware && old->find(name) == nullptr;
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
    done_ = write_file(path_, ballast::write_profile(file_), at_end.files);
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

ballast::result<ballast::model_profiler::summary> measure_and_show(ballast::profile_file& file,
                                                                   profiled_module const& module,
                                                                   layer_device& device,
                                                                   saved_profile& saved)
{
  progress shown;
  return measure_speeds(file, module, device, [&](ballast::model_profiler::progress const& now) {
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
  if (options.output == "-") {
    return usage("--output: '-' is no file; name one, or ./- for one of this name");
  }
  std::error_code ignored;
  auto const kind = std::filesystem::status(options.output, ignored).type();
  using std::filesystem::file_type;
  if (kind == file_type::character || kind == file_type::block || kind == file_type::fifo) {
    return usage(
        fmt::format("--output: {} is a device or a pipe, and points that are measured are "
                    "read back; name a file",
                    options.output));
  }
  if (options.seed && options.check == 0) {
    return usage("--seed is for the lengths of --check; give --check as well");
  }
  auto const device = choose_device(options.device);
  if (!device) { return tl::unexpected(device.error()); }
  auto const modules = read_modules(options, **device);
  if (!modules) { return tl::unexpected(modules.error()); }
  profiled_module const& llm = modules->back();
  auto const [least, most] = std::ranges::minmax(llm.grid.sizes);
  std::set<tokens> const sizes(llm.grid.sizes.begin(), llm.grid.sizes.end());
  if (options.check > 0 && most - least + 1 <= static_cast<tokens>(sizes.size())) {
    return usage("--check: all lengths from the smallest to the largest are measured; leave gaps");
  }
  auto file = begin_file(options, *modules, **device);
  if (!file) { return tl::unexpected(file.error()); }

  profile_run run{options, (*device)->name(), std::move(*file), {}, {}, 0, {}};
  saved_profile saved(options.output, run.file);
  saved.save();  // where it cannot be written, nothing is measured
  if (!saved.done()) { return bad_data(saved.done().error().message); }
  auto const start = std::chrono::steady_clock::now();
  auto const used_ns = [start] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                start)
        .count();
  };
  for (profiled_module module : *modules) {
    if (auto done = measure_memory(run.file, module, **device); !done) {
      return bad_data(done.error().message);
    }
    module.grid.warm_up = options.warm_up;
    module.grid.runs = options.runs;
    if (options.budget_seconds > 0) {
      module.grid.budget_ns = std::max<std::int64_t>(
          static_cast<std::int64_t>(options.budget_seconds * 1e9) - used_ns(), 0);
    }
    auto const summary = measure_and_show(run.file, module, **device, saved);
    saved.save();
    if (!summary) { return bad_data(summary.error().message); }
    if (!saved.done()) { return bad_data(saved.done().error().message); }
    run.summary.measured += summary->measured;
    run.summary.known += summary->known;
    run.summary.left += summary->left;
    run.summary.too_large += summary->too_large;
    // Of each part and degree the last, which is the smallest that did not fit.
    for (ballast::model_profiler::limit const& each : summary->limits) {
      auto const is_of_row = [&](module_limit const& other) {
        return other.module == module.grid.name &&
               other.limit.point.is_attention == each.point.is_attention &&
               degree_of(other.limit.point) == degree_of(each.point);
      };
      std::erase_if(run.limits, is_of_row);
      run.limits.push_back({module.grid.name, each});
    }
  }
  run.seconds = static_cast<double>(used_ns()) * 1e-9;
  if (options.check > 0 && run.summary.left == 0) {
    progress shown;
    auto const checked = check_predictions(
        run.file, llm, **device, options.check, options.seed.value_or(1), [&](std::size_t done) {
          shown.update(
              [&] { return fmt::format("predicting {} of {} lengths", done, options.check); });
        });
    if (!checked) {
      auto const& why = checked.error();
      return why.code == ballast::error_code::out_of_range && why.message.starts_with("--check")
                 ? usage(why.message)
                 : bad_data(options.output + ": " + why.message);
    }
    run.check = *checked;
  }
  return run;
}

}  // namespace cli
