// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"
#include "profile_command.hpp"

#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace cli {
namespace {

nlohmann::ordered_json points_json(std::vector<ballast::profile_file::speed_point> const& points)
{
  auto json = nlohmann::ordered_json::array();
  for (ballast::profile_file::speed_point const& each : points) {
    json.push_back({{"size", each.size},
                    {"flop_per_second", each.flop_per_second},
                    {"lower_quartile", each.lower_quartile},
                    {"upper_quartile", each.upper_quartile},
                    {"forward_ns", each.forward_ns},
                    {"backward_ns", each.backward_ns}});
  }
  return json;
}

std::string part_name(ballast::model_profiler::point const& point)
{
  return point.is_attention ? "attention" : "linear";
}

nlohmann::ordered_json to_json(profile_run const& run)
{
  nlohmann::ordered_json json;
  json["output"] = run.options.output;
  json["device"] = run.device;
  json["hardware"] = run.file.hardware;
  json["measured"] = run.summary.measured;
  json["known"] = run.summary.known;
  json["left"] = run.summary.left;
  json["too_large"] = run.summary.too_large;
  json["seconds"] = run.seconds;
  json["modules"] = nlohmann::ordered_json::array();
  for (ballast::profile_file::measured_module const& module : run.file.modules) {
    nlohmann::ordered_json each;
    each["name"] = module.name;
    each["model"] = module.model;
    each["layers"] = module.layers;
    each["linear_flop"] = module.flops.linear;
    each["quadratic_flop"] = module.flops.quadratic;
    each["degrees"] = nlohmann::ordered_json::array();
    for (ballast::profile_file::measured_degree const& degree : module.degrees) {
      each["degrees"].push_back({{"tp", degree.tp},
                                 {"sp", degree.sp},
                                 {"ep", degree.ep},
                                 {"linear", points_json(degree.linear)},
                                 {"attention", points_json(degree.attention)}});
    }
    json["modules"].push_back(each);
  }
  json["limits"] = nlohmann::ordered_json::array();
  for (module_limit const& each : run.limits) {
    json["limits"].push_back({{"module", each.module},
                              {"part", part_name(each.limit.point)},
                              {"tp", each.limit.point.tp},
                              {"size", each.limit.point.size},
                              {"why", each.limit.why}});
  }
  if (run.check) {
    json["check"] = {{"lengths", run.check->lengths}, {"lower_quartile", run.check->lower_quartile},
                     {"median", run.check->median},   {"upper_quartile", run.check->upper_quartile},
                     {"largest", run.check->largest}, {"bias", run.check->bias}};
  }
  return json;
}

/// "1.20 to 2.31" in units of `unit` FLOP/s, or nothing.
std::string speeds_text(std::vector<ballast::profile_file::speed_point> const& points, double unit)
{
  if (points.empty()) { return ""; }
  auto const [least, most] =
      std::ranges::minmax(points, {}, &ballast::profile_file::speed_point::flop_per_second);
  return fmt::format("{:.2f} to {:.2f}", static_cast<double>(least.flop_per_second) / unit,
                     static_cast<double>(most.flop_per_second) / unit);
}

std::string table_of(profile_run const& run)
{
  std::string out =
      fmt::format("\n{}\n{}\n{} measured in {}, {} known before, {} left\n\n", run.options.output,
                  run.file.hardware, count_of(run.summary.measured, "point"),
                  duration_text(run.seconds), run.summary.known, run.summary.left);
  bool const is_gpu = run.device == "gpu";
  std::string const unit = is_gpu ? "TFLOP/s" : "GFLOP/s";
  double const flops = is_gpu ? 1e12 : 1e9;
  out += fmt::format("{:<12}{:>4}{:>16}{:>20}{:>20}\n", "module", "tp", "sizes", "linear " + unit,
                     "attention " + unit);
  for (ballast::profile_file::measured_module const& module : run.file.modules) {
    for (ballast::profile_file::measured_degree const& degree : module.degrees) {
      std::string const sizes =
          degree.linear.empty()
              ? "none"
              : fmt::format("{} to {}", degree.linear.front().size, degree.linear.back().size);
      out += fmt::format("{:<12}{:>4}{:>16}{:>20}{:>20}\n", module.name,
                         text_of(degree_of(degree)).substr(3), sizes,
                         speeds_text(degree.linear, flops), speeds_text(degree.attention, flops));
    }
  }
  for (module_limit const& each : run.limits) {
    ballast::model_profiler::point const& point = each.limit.point;
    out += fmt::format("\nnot measured: {} of {} at tp {} from size {} on: {}\n", part_name(point),
                       each.module, point.tp, point.size, each.limit.why);
  }
  if (run.summary.left > 0) { out += "\nrun the same command again to measure what is left\n"; }
  if (run.check) {
    profile_check const& check = *run.check;
    out += fmt::format(
        "\n{} predicted that the profile does not have: off by {:.2f} % (median), {:.2f} to {:.2f} "
        "% (quartiles),\n{:.2f} % at most, bias {:+.2f} %\n",
        count_of(check.lengths, "length"), 100 * check.median, 100 * check.lower_quartile,
        100 * check.upper_quartile, 100 * check.largest, 100 * check.bias);
  }
  return out + "\n";
}

}  // namespace

outcome<void> show_profile(profile_run const& run)
{
  if (run.options.format != "json") { return print(table_of(run)); }
  return print_json(nlohmann::ordered_json::array({to_json(run)}));
}

}  // namespace cli
