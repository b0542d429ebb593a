// SPDX-License-Identifier: Apache-2.0
// The layer that `ballast profile` measures on a GPU, profiled, and 200 lengths of it predicted
// that were not measured. The status is 1 where half of the predictions are off by more than 5 %.
#include "../../examples/ballast/gpu/gpu_device.hpp"
#include "../../examples/ballast/profile_check.hpp"
#include "../../examples/ballast/profiled_module.hpp"
#include "gpu_timing.cuh"

#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace {

/// Ends the benchmark at an error; where cuBLAS is missing, as skipped.
template <class T>
T& value_of(ballast::result<T>& result)
{
  if (result) { return *result; }
  bool const is_missing = result.error().code == ballast::error_code::unreadable;
  std::printf("%s%s\n", is_missing ? "skipped: " : "", result.error().message.c_str());
  std::exit(is_missing ? 77 : EXIT_FAILURE);
}

cli::profiled_module llm_of(cli::profile_defaults const& defaults)
{
  auto spec = ballast::parse_cost_spec(defaults.llm);
  auto flops = ballast::step_flops(value_of(spec).forward, spec->passes);
  cli::profiled_module llm;
  llm.shape = spec->shape;
  llm.grid = {
      .name = "llm", .model = defaults.llm, .layers = spec->shape.layers, .flops = value_of(flops)};
  std::istringstream lengths(defaults.lengths);
  for (std::string each; std::getline(lengths, each, ',');) {
    llm.grid.sizes.push_back(std::stoll(each));
  }
  return llm;
}

void print_speeds(ballast::profile_file::measured_degree const& degree)
{
  std::printf(
      "\n| tokens | all but attention, TFLOP/s | forward, ms | attention, TFLOP/s | forward, "
      "ms |\n|---:|---:|---:|---:|---:|\n");
  for (std::size_t at = 0; at < degree.linear.size(); ++at) {
    ballast::profile_file::speed_point const& linear = degree.linear[at];
    ballast::profile_file::speed_point const& attention = degree.attention[at];
    std::printf("| %lld | %.1f | %.3f | %.1f | %.3f |\n", static_cast<long long>(linear.size),
                static_cast<double>(linear.flop_per_second) * 1e-12,
                static_cast<double>(linear.forward_ns) * 1e-6,
                static_cast<double>(attention.flop_per_second) * 1e-12,
                static_cast<double>(attention.forward_ns) * 1e-6);
  }
}

}  // namespace

int main()
{
  bench::print_device();
  auto made = cli::make_gpu_device();
  cli::layer_device& device = *value_of(made);
  cli::profiled_module const llm = llm_of(device.defaults());
  ballast::profile_file file;
  auto const start = std::chrono::steady_clock::now();
  auto memory = cli::measure_memory(file, llm, device);
  if (!memory) {
    std::printf("%s\n", memory.error().message.c_str());
    return EXIT_FAILURE;
  }
  auto measured =
      cli::measure_speeds(file, llm, device, [](ballast::model_profiler::progress const&) {});
  ballast::model_profiler::summary const& summary = value_of(measured);
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - start;
  std::printf("a layer of %s on %s: %zu points in %.1f s\n", llm.grid.model.c_str(),
              device.hardware().c_str(), summary.measured, seconds.count());
  for (ballast::model_profiler::limit const& each : summary.limits) {
    std::printf("not measured from size %lld on: %s\n", static_cast<long long>(each.point.size),
                each.why.c_str());
  }
  if (summary.limits.empty()) { print_speeds(file.modules[0].degrees[0]); }

  constexpr std::size_t lengths = 200;
  auto checked = cli::check_predictions(file, llm, device, lengths, 1, [](std::size_t) {});
  cli::profile_check const& check = value_of(checked);
  std::printf(
      "\n%zu lengths predicted that the profile does not have: off by %.2f %% (median), "
      "%.2f to %.2f %% (quartiles), %.2f %% at most, bias %+.2f %%\n",
      check.lengths, 100 * check.median, 100 * check.lower_quartile, 100 * check.upper_quartile,
      100 * check.largest, 100 * check.bias);
  return check.median <= 0.05 ? EXIT_SUCCESS : EXIT_FAILURE;
}
