// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layer_device.hpp"
#include "profiled_module.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>

#include <cmath>
#include <iterator>

namespace cli {

/// How far predictions of lengths that were not measured are off: |predicted / measured - 1|.
struct profile_check {
  std::size_t lengths = 0;
  double lower_quartile = 0;
  double median = 0;
  double upper_quartile = 0;
  double largest = 0;
  double bias = 0;  ///< the median of predicted / measured - 1
};

/// Predicts lengths between the measured ones from the profile, and measures a whole layer on each.
/// report(done) comes after each.
///
/// Errors      out_of_range: the module has no degree 1 in the file, or no length was left out
///             between the smallest and the largest that were measured; those of the file and of
///             the device.
template <class Report>
[[nodiscard]] ballast::result<profile_check> check_predictions(
    ballast::profile_file const& file, profiled_module const& llm, layer_device& device,
    std::size_t count, std::uint64_t seed, Report const& report)
{
  auto const modules = file.profiles();
  if (!modules) { return tl::unexpected(modules.error()); }
  auto const module = std::ranges::find(*modules, llm.grid.name, &ballast::module_profile::name);
  ballast::profiled_degree const* const degree = module->find({});
  auto const refuse = [](std::string const& why) {
    return ballast::fail(ballast::error_code::out_of_range, 0, why);
  };
  if (degree == nullptr) {
    return refuse("--check computes whole layers; give --tp 1 among the degrees");
  }
  ballast::interpolated_cost const cost{degree->linear, degree->attention, module->flops};

  // What did not fit the memory is not in the file, and is not predicted.
  auto const is_measured = [&](ballast::tokens size) {
    ballast::profile_file::measured_module const* const in_file = file.find(llm.grid.name);
    auto const of_one = std::ranges::find_if(in_file->degrees, [](auto const& each) {
      return degree_of(each) == ballast::parallel_degree{};
    });
    auto const has = [size](std::vector<ballast::profile_file::speed_point> const& points) {
      return std::ranges::find(points, size, &ballast::profile_file::speed_point::size) !=
             points.end();
    };
    return has(of_one->linear) && (has(of_one->attention) || module->flops.quadratic == 0);
  };
  std::vector<ballast::tokens> sizes;
  std::ranges::copy_if(llm.grid.sizes, std::back_inserter(sizes), is_measured);
  std::ranges::sort(sizes);
  auto const [same, end] = std::ranges::unique(sizes);
  sizes.erase(same, end);
  if (sizes.empty() ||
      sizes.back() - sizes.front() + 1 == static_cast<ballast::tokens>(sizes.size())) {
    return refuse("--check: all lengths from the smallest to the largest are measured; leave gaps");
  }

  ballast::random_source random(seed);
  std::vector<double> errors;
  while (errors.size() < count) {
    ballast::tokens const length = random.between(sizes.front(), sizes.back());
    if (std::ranges::binary_search(sizes, length)) { continue; }
    auto const time = device.time_layer(llm.share(1), static_cast<std::size_t>(length));
    if (!time) { return tl::unexpected(time.error()); }
    double const predicted = static_cast<double>(cost(length)) * 1e-3 / module->layers;
    errors.push_back(predicted / static_cast<double>(*time) - 1);
    report(errors.size());
  }
  auto const at = [&errors](std::size_t quarters) {
    return errors[(errors.size() - 1) * quarters / 4];
  };
  profile_check check;
  check.lengths = errors.size();
  std::ranges::sort(errors);
  check.bias = at(2);
  for (double& error : errors) { error = std::abs(error); }
  std::ranges::sort(errors);
  check.lower_quartile = at(1);
  check.median = at(2);
  check.upper_quartile = at(3);
  check.largest = errors.back();
  return check;
}

}  // namespace cli
