// SPDX-License-Identifier: Apache-2.0
#include "profile_check.hpp"

#include "../common/transformer_block.hpp"
#include "core_clock.hpp"
#include "progress.hpp"

#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/units.hpp>
#include <ballast/cost/interpolated_cost.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/route/ulysses.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cli {
namespace {

using ballast::tokens;

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
  std::array<std::int64_t, 4> times{};
  for (std::int64_t& time : times) {
    time = core_clock{}
               .time([&] {
                 (void)layer.forward(heads, x, y);
                 (void)layer.backward(y, dx, gradients);
               })
               .value_or(0);
  }
  std::sort(times.begin() + 1, times.end());  // the first one warms up
  return static_cast<double>(times[2]) * 1e-9;
}

}  // namespace

outcome<profile_check> check_predictions(profile_run const& run, cpu_module const& llm)
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

}  // namespace cli
