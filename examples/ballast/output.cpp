// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/topology/cluster.hpp>

#include <fmt/format.h>

#include <cstdio>

namespace cli {

std::string count_of(std::size_t things, std::string_view name)
{
  return fmt::format("{} {}{}", things, name, things == 1 ? "" : "s");
}

std::string file_name_of(std::string const& path)
{
  return path.substr(path.find_last_of('/') + 1);
}

std::string duration_text(double seconds)
{
  // The bounds are what would round to a thousand of the smaller unit.
  if (seconds < 999.95e-6) { return fmt::format("{:.1f} us", seconds * 1e6); }
  if (seconds < 999.995e-3) { return fmt::format("{:.2f} ms", seconds * 1e3); }
  return seconds < 1e5 ? fmt::format("{:.2f} s", seconds) : fmt::format("{:.3g} s", seconds);
}

std::string bytes_text(double bytes)
{
  constexpr std::array<std::string_view, 7> units = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < units.size()) {  // what would be written as 1e+03
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string gap_text(double gap, bool is_proven)
{
  return is_proven ? "no plan is better"
                   : fmt::format("at most {:.1f} % above the best", 100 * gap);
}

std::string array_text(job const& work)
{
  return fmt::format("{} bytes per token: {}", work.bytes_per_token, work.array);
}

std::string network_text(ballast::cluster const& machines)
{
  return fmt::format("{:g} GB/s within a node, {:g} GB/s between nodes, latency {:g} us",
                     machines.within_node_bytes_per_second / 1e9,
                     machines.between_nodes_bytes_per_second / 1e9, machines.latency_seconds * 1e6);
}

std::string machines_text(job const& work)
{
  job_options const& options = work.options;
  std::string text =
      "nodes of " + (options.nodes.empty() ? std::to_string(options.gpus_per_node) : options.nodes);
  if (!options.speeds.empty()) { text += ", speeds of " + options.speeds; }
  return text;
}

std::string policy_text(job_options const& options)
{
  std::string text = options.policy;
  if (options.most_per_gpu != 0) {
    text += fmt::format(", at most {} per GPU", count_of(options.most_per_gpu, "token"));
  }
  for (std::string const& each : options.also) { text += ", at most " + each + " per GPU"; }
  if (options.samples != "any") { text += ", samples " + options.samples; }
  if (!options.then.empty()) { text += ", then " + options.then; }
  if (options.within_per_million != 0) {
    text += fmt::format(" within {} per million", options.within_per_million);
  }
  for (auto const& [what, given] :
       {std::pair{"together by", &options.together}, std::pair{"apart by", &options.apart},
        std::pair{"at most per bag", &options.most},
        std::pair{"starting loads", &options.starting_loads}}) {
    if (!given->empty()) { text += fmt::format(", {} {}", what, *given); }
  }
  return text;
}

std::string misfits_text(job const& work)
{
  if (work.misfits.empty()) { return ""; }
  constexpr std::size_t most = 8;
  std::string lengths;
  for (std::size_t index = 0; index < std::min(most, work.misfits.size()); ++index) {
    lengths += (index == 0 ? "" : ", ") + std::to_string(work.misfits[index]);
  }
  return fmt::format("; more than 5 % off {} of them, {} {}{}{}", work.misfits.size(),
                     work.step_fit ? "in lines" : "at", lengths,
                     work.misfits.size() > most ? ", ..." : "", work.step_fit ? "" : " tokens");
}

std::string fit_text(job const& work)
{
  std::string const text = fmt::format("gamma {:.4f}", work.fit->gamma);
  if (!work.step_fit) {
    return fmt::format("{} and {} per call", text, duration_text(work.fit->seconds_per_call));
  }
  auto const& [compute, per_token, per_sequence] = *work.step_fit;
  return fmt::format("{}, {} per exchanged token, {} per sequence and {} per step", text,
                     duration_text(per_token), duration_text(per_sequence),
                     duration_text(compute.seconds_per_call));
}

std::string short_step_text(job const& work)
{
  std::size_t const left = work.left_for_last_step();
  return left == 0 ? "" : fmt::format(" ({} in the last of a pass)", left);
}

std::string heading_of(job const& work, std::int64_t samples)
{
  job_options const& options = work.options;
  std::string out = fmt::format(
      "cost {}{}, policy {}, seed {}\n{}\n", options.cost, work.fit ? " with times fitted" : "",
      shown_text(policy_text(options)), options.seed, shown_text(work.source));
  if (!work.trace.empty()) { out += count_of(work.trace.size(), "row") + ", "; }
  out += fmt::format("{} per step{}, {}, {}\n",
                     count_of(static_cast<std::size_t>(samples), "sample"), short_step_text(work),
                     count_of(options.steps, "step"), count_of(work.gpus(), "GPU"));
  if (!options.nodes.empty() || !options.speeds.empty()) {
    out += shown_text(machines_text(work)) + "\n";
  }
  if (work.fit) {
    out += fmt::format("{} from {}, R^2 {:.5f}, error {:.2f} %{}\n", fit_text(work),
                       count_of(work.measurements, "measurement"), work.fit->r_squared,
                       100 * work.fit->median_relative_error, misfits_text(work));
  }
  return out;
}

std::string short_samples_text(std::string const& bags, std::size_t short_samples,
                               std::size_t samples)
{
  return fmt::format("{}: {} of {} with fewer tokens than their bag has GPUs", bags, short_samples,
                     count_of(samples, "sample"));
}

nlohmann::ordered_json settings_json(job const& work, std::string const& bags, std::int64_t samples)
{
  job_options const& options = work.options;
  nlohmann::ordered_json json;
  if (options.codes.empty()) {
    json["trace"] = options.trace;
    json["length"] = options.length;
  } else {
    json["codes"] = options.codes;
  }
  json["bags"] = bags;
  if (options.nodes.empty()) {
    json["gpus_per_node"] = options.gpus_per_node;
  } else {
    auto& nodes = json["nodes"];
    for (std::size_t node = 0; node < work.machines.nodes.size(); ++node) {
      nodes.push_back(work.machines.nodes[ballast::to_id<ballast::node_id>(node)]);
    }
  }
  if (!options.speeds.empty()) { json["speeds"] = options.speeds; }
  json["largest_bags_first"] = options.largest_bags_first;
  json["policy"] = options.policy;
  if (options.most_per_gpu != 0) { json["most_per_gpu"] = options.most_per_gpu; }
  if (!options.also.empty()) { json["also"] = options.also; }
  if (options.samples != "any") { json["counts"] = options.samples; }
  if (!options.then.empty()) { json["then"] = options.then; }
  if (options.within_per_million != 0) { json["within_per_million"] = options.within_per_million; }
  for (auto const& [key, given] :
       {std::pair{"together", &options.together}, std::pair{"apart", &options.apart},
        std::pair{"most", &options.most}, std::pair{"starting_loads", &options.starting_loads},
        std::pair{"id", &options.id}}) {
    if (!given->empty()) { json[key] = *given; }
  }
  json["cost"] = options.cost;
  json["seed"] = options.seed;
  json["steps"] = options.steps;
  json["gpus"] = work.gpus();
  json["samples"] = samples;
  return json;
}

nlohmann::ordered_json fit_json(job const& work)
{
  nlohmann::ordered_json json = {{"gamma", work.fit->gamma},
                                 {"seconds_per_flop", work.fit->seconds_per_flop},
                                 {"seconds_per_call", work.fit->seconds_per_call},
                                 {"r_squared", work.fit->r_squared},
                                 {"median_relative_error", work.fit->median_relative_error},
                                 {"rms_relative_error", work.fit->rms_relative_error},
                                 {"misfits", work.misfits}};
  if (work.step_fit) {
    json["seconds_per_exchanged_token"] = work.step_fit->seconds_per_exchanged_token;
    json["seconds_per_sequence"] = work.step_fit->seconds_per_sequence;
  }
  return json;
}

std::string json_lines_of(std::string_view csv, bool are_ids_numbers)
{
  ballast::csv_reader rows(csv);
  auto const header = rows.next();
  std::vector<std::string> const names(header->fields.begin(), header->fields.end());
  std::string lines;
  while (true) {
    auto const row = rows.next();
    if (!row || row->fields.empty()) { return lines; }
    for (std::size_t column = 0; column < names.size(); ++column) {
      std::string_view const field = row->fields[column];
      // As it is written, so that no digit of a number is lost.
      bool const is_number = (are_ids_numbers || names[column] != "id") &&
                             nlohmann::json::parse(field, nullptr, false).is_number();
      lines += fmt::format("{}{}:{}", column == 0 ? '{' : ',', nlohmann::json(names[column]).dump(),
                           is_number ? std::string(field) : nlohmann::json(field).dump());
    }
    lines += "}\n";
  }
}

outcome<void> print(std::string const& text)
{
  bool const written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) { return {}; }
  return bad_data(
      "the result could not be written to standard output; free some space, or read the pipe to "
      "its "
      "end");
}

outcome<void> print_json(nlohmann::ordered_json const& layouts)
{
  // Names of files need not be UTF-8, and characters outside ASCII may control a terminal.
  return print((layouts.size() == 1 ? layouts.front() : layouts)
                   .dump(2, ' ', true, nlohmann::json::error_handler_t::replace) +
               "\n");
}

}  // namespace cli
