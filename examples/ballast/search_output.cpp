// SPDX-License-Identifier: Apache-2.0
#include "found_layouts.hpp"
#include "output.hpp"
#include "pages/layout_page.hpp"
#include "search_command.hpp"
#include "shown_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cli {
namespace {

nlohmann::ordered_json to_json(search_run const& run)
{
  nlohmann::ordered_json json;
  json["feasible"] = !run.layouts.empty();
  json["proven"] = run.found.is_proven;
  json["lower_bound_seconds"] = seconds_of(run.found.lower_bound);
  json["any_dealing_seconds"] = seconds_of(run.found.any_dealing);
  json["evaluated"] = run.found.bounded;
  json["simulated"] = run.found.simulated;
  json["milliseconds"] = run.seconds * 1e3;
  json["layouts"] = nlohmann::ordered_json::array();
  for (auto const& [layout, simulated] : run.layouts) {
    nlohmann::ordered_json each;
    each["step_seconds"] = seconds_of(layout.step);
    each["simulated_seconds"] = seconds_of(simulated);
    if (!run.sending.empty()) {
      each["sending_seconds"] = seconds_of(run.sending[json["layouts"].size()]);
    }
    each["memory_bytes"] = layout.memory_bytes;
    each["microbatches"] = layout.microbatches;
    each["virtual_stages"] = layout.virtual_stages;
    each["schedule"] = text_of(layout.schedule);
    each["modules"] = modules_json(run, layout);
    json["layouts"].push_back(each);
  }
  return json;
}

/// "512 of 5000 samples priced by mean-sample, seed 1".
std::string samples_text(search_run const& run)
{
  return fmt::format("{} of {} priced by {}, seed {}", run.sizes.size() / run.modules.size(),
                     count_of(run.rows, "sample"), run.options.estimate, run.options.seed);
}

/// How good the best layout is, for table and page.
std::string certificate_of(search_run const& run)
{
  auto const& found = run.found;
  std::string const batches =
      run.options.batches == 1 ? "1 batch" : fmt::format("{} batches", run.options.batches);
  std::string const how = fmt::format(
      "{} with a number of microbatches looked at in {}, {} simulated on {}",
      count_of(found.bounded, "layout"), duration_text(run.seconds), found.simulated, batches);
  std::string const sending =
      run.sending.empty()
          ? ""
          : fmt::format("; transfers between modules and all-reduce are {} of the best one's step",
                        duration_text(seconds_of(run.sending.front())));
  std::string const dealing =
      fmt::format("no way to deal samples makes a step of the best one shorter than {}{}",
                  duration_text(seconds_of(found.any_dealing)), sending);
  if (found.is_proven) {
    return fmt::format("{}: no other is better than the {} shown; {}", how, run.layouts.size(),
                       dealing);
  }
  std::string const ended =
      found.is_out_of_work ? ", then the budget ended (--prove has none)" : "";
  if (found.lower_bound <= 0) { return fmt::format("{}{}; {}", how, ended, dealing); }
  double const gap = seconds_of(run.layouts.front().simulated) / seconds_of(found.lower_bound) - 1;
  return fmt::format(
      "{}{}: the best one's step is at most {:.1f} % above the shortest that any "
      "layout has, which takes {} or more; {}",
      how, ended, 100 * gap, duration_text(seconds_of(found.lower_bound)), dealing);
}

std::string table_of(search_run const& run)
{
  search_options const& options = run.options;
  std::string out = fmt::format(
      "\n{}\n{}\n{}\n{}, global batch {}{}\n\n", shown_text(options.profile),
      shown_text(options.data), samples_text(run), shown_text(gpus_text(run)), options.global_batch,
      options.side_by_side ? ", all modules feed " + shown_text(run.modules.back().name) : "");
  module_columns columns{.has_kinds = run.problem.kinds.size() > 1};
  for (auto const& each : run.layouts) { columns.widen(each.layout); }
  out += columns.heading(run, 4);
  bool const is_interleaved = !options.virtual_stages.empty();
  if (is_interleaved) { out += fmt::format("{:>9}", "virtual"); }
  out += fmt::format("{:>14}{:>12}{:>12}{:>10}{}\n", "microbatches", "predicted", "simulated",
                     "memory", options.split_backwards ? "  schedule" : "");
  for (std::size_t place = 0; place < run.layouts.size(); ++place) {
    auto const& [layout, simulated] = run.layouts[place];
    out += fmt::format("{:<4}{}", place + 1, columns.row(layout));
    if (is_interleaved) { out += fmt::format("{:>9}", layout.virtual_stages); }
    out += fmt::format("{:>14}{:>12}{:>12}{:>10}\n", layout.microbatches,
                       duration_text(seconds_of(layout.step)), duration_text(seconds_of(simulated)),
                       bytes_text(static_cast<double>(layout.memory_bytes)));
    if (options.split_backwards) {
      out.back() = ' ';
      out += fmt::format(" {}\n", text_of(layout.schedule));
    }
  }
  return out + "\n" + certificate_of(run) + "\n\n";
}

std::string plan_of(search_run const& run)
{
  std::string plan =
      "layout,module,tp,pp,dp,sp,ep,gpus,microbatches,kind,virtual_stages,step_seconds,"
      "simulated_seconds,memory_bytes,sharded,schedule\n";
  for (std::size_t place = 0; place < run.layouts.size(); ++place) {
    auto const& [layout, simulated] = run.layouts[place];
    for (std::size_t module = 0; module < run.modules.size(); ++module) {
      plan += fmt::format("{},{},{},{},{},{},{:d},{}\n", place, plan_text(run, layout, module),
                          layout.virtual_stages, seconds_of(layout.step), seconds_of(simulated),
                          layout.memory_bytes, layout.modules[module].is_sharded,
                          text_of(layout.schedule));
    }
  }
  return plan;
}

outcome<std::string> page_of(search_run const& run)
{
  search_options const& options = run.options;
  ballast::model_layout const& best = run.layouts.front().layout;
  pages::layout_page_data page;
  for (ballast::module_profile const& module : run.modules) { page.modules.push_back(module.name); }
  page.title =
      fmt::format("{} on {}", pages::modules_text(page.modules), count_of(best.gpus(), "GPU"));
  page.layouts = run.layouts;
  auto places = places_of(run, best);
  if (!places) { return tl::unexpected(places.error()); }
  page.places = *std::move(places);
  page.gpus_per_node = options.gpus_per_node;
  page.memory_bytes = run.problem.kinds.front().memory_bytes;
  page.certificate = certificate_of(run);
  page.lower_bound = run.found.lower_bound;
  page.search_seconds = run.seconds;
  page.simulated = run.found.simulated;
  page.settings = {{"Profile", file_name_of(options.profile)},
                   {"Data", file_name_of(options.data)},
                   {"Samples", samples_text(run)},
                   {"GPUs", gpus_text(run)},
                   {"Memory", fmt::format("suffices for a share of {} of microbatches",
                                          options.memory_quantile)},
                   {"Global batch",
                    fmt::format("{}, simulated {} times", options.global_batch, options.batches)}};
  if (options.side_by_side) {
    page.settings.push_back({"Pipeline", "all modules feed " + run.modules.back().name});
  }
  add_settings(page.settings, options);
  return pages::layout_page(page);
}

}  // namespace

outcome<void> show_search(search_run const& run)
{
  return show_layouts(
      run, [](search_run const& of) { return to_json(of); },
      [](search_run const& of) { return plan_of(of); },
      [](search_run const& of) { return page_of(of); },
      [](search_run const& of) { return table_of(of); });
}

}  // namespace cli
