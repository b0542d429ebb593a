// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/by_name/any_policy.hpp"
#include "outcome.hpp"
#include "output_paths.hpp"
#include "pages/judged_bags.hpp"
#include "progress.hpp"
#include "table.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

namespace cli {

/// What a command line says about a file of samples. Empty where it does not.
struct row_options {
  std::string trace;              ///< the file
  std::string length;             ///< expression over its columns
  std::vector<std::string> also;  ///< further caps, EXPR:N
  std::string together;           ///< columns whose equal values keep samples together
  std::string apart;              ///< columns whose equal values keep samples apart
  std::string id;                 ///< column that names samples in files that are written
};

/// What a command line says about a job, with the defaults of what it leaves out.
struct job_options : row_options {
  std::string codes;              ///< KnapFormer data codes, or empty
  std::size_t gpus = 0;           ///< 0: as many as the nodes, the codes or the first bags describe
  std::size_t gpus_per_node = 0;  ///< 0: 8, or as the nodes say
  std::string nodes;              ///< GPUs of every node, or empty
  std::string speeds;             ///< file with the speed of every GPU, or empty
  std::vector<std::string> bags;  ///< empty: bags of one GPU; auto: chosen
  bool largest_bags_first = false;       ///< where bags in the order written do not fit
  std::string short_samples = "refuse";  ///< or admit: those with fewer tokens than bags have GPUs
  std::string cost = "tokens";
  std::string measured;  ///< CSV file of measured times to fit the cost to, or empty
  double tflops = 0;     ///< of the fastest GPU, turns FLOP into predicted time; 0: 400
  std::string policy = "refine";
  std::size_t most_per_gpu = 0;  ///< 0: no limit
  std::string samples = "any";   ///< how many each bag gets
  std::string then;              ///< what decides among the shortest plans, or empty
  std::uint32_t within_per_million = 0;
  std::string most;            ///< what each bag holds: a list or a file, or empty
  std::string starting_loads;  ///< what each bag has to do already: a list or a file, or empty
  bool no_shuffle = false;     ///< steps take the rows of the trace as they stand
  std::size_t batch = 0;       ///< samples per step; 0: eight per GPU, all rows with no_shuffle
  std::size_t steps = 0;       ///< 0: 10, and 1 where a step is all rows
  std::uint64_t seed = 1;
  bool place_by_node = false;
  std::size_t bytes_per_token = 0;  ///< 0: the cost model's hidden size in bf16
  std::optional<double>
      within_node_gb_per_s;  ///< without it, and without the next two, as in ballast::cluster
  std::optional<double> between_nodes_gb_per_s;
  std::optional<double> latency_us;
  std::string format = "table";
};

/// The files that a job reads, by their options; the paths are those in `options`.
[[nodiscard]] inline std::vector<file_option> inputs_of(job_options const& options)
{
  return {{"--trace", &options.trace}, {"--measured", &options.measured},
          {"--nodes", &options.nodes}, {"--speeds", &options.speeds},
          {"--most", &options.most},   {"--starting-loads", &options.starting_loads}};
}

/// One --bags, laid over the job's GPUs.
struct named_layout {
  std::string bags;
  ballast::bag_layout layout;
  std::vector<pages::judged_bags> judged = {};    ///< where chosen: these bags, then others
  std::vector<std::int64_t> most = {};            ///< of each bag, or empty
  std::vector<std::int64_t> starting_loads = {};  ///< of each bag, or empty
};

/// What the rows of a file of samples say; empty where the options ask for nothing.
struct trace_rows {
  struct row_cap {
    std::vector<std::int64_t> of_row;
    std::int64_t most_per_gpu;
  };

  std::vector<ballast::tokens> trace;  ///< lengths
  std::vector<row_cap> also;
  std::vector<std::int64_t> group_of_row;  ///< samples of one stay together
  std::vector<std::int64_t> apart_of_row;  ///< samples of one stay apart
  row_ids ids;
};
[[nodiscard]] outcome<trace_rows> read_rows(row_options const& options, table const& rows);

/// A job as its options describe it, with everything read that they name.
struct job : trace_rows {
  job_options options;
  std::string source;  ///< what the samples are, for people
  std::vector<ballast::data_code> codes;
  table rows;                        ///< all of --trace, which may be a pipe: read once
  ballast::placement_limits limits;  ///< those that are the same for every step
  ballast::cluster machines;
  std::vector<named_layout> layouts;  ///< one for each --bags
  by_name::any_policy policy;
  ballast::quadratic_cost cost;
  double seconds_per_unit = 0;  ///< of cost, on the fastest GPU
  bool times_known = false;     ///< whether seconds_per_unit is one of a real GPU
  std::string compute;          ///< what the cost model prices, for people
  std::optional<ballast::gamma_fit> fit;
  std::optional<ballast::step_fit> step_fit;  ///< where whole steps were measured; `fit` is of it
  std::size_t measurements = 0;
  std::vector<ballast::gamma_fit::measurement> measured;  ///< unless whole steps were
  /// What the fit misses by more than 5 %: lengths, or lines of the file where these are steps.
  std::vector<std::int64_t> misfits;
  double bytes_per_token = 0;  ///< 0 where it is unknown
  std::string array;           ///< what these bytes are, for people

  [[nodiscard]] std::size_t gpus() const noexcept { return machines.gpus(); }

  /// How many samples a step has, counted from 0, that has what is left of a pass of the trace; 0
  /// for all others.
  [[nodiscard]] std::size_t left_for_step(std::size_t step) const
  {
    if (trace.empty() || (step + 1) % ((trace.size() + options.batch - 1) / options.batch) != 0) {
      return 0;
    }
    return trace.size() % options.batch;
  }
  /// The same of the last step of a pass, where one is among the steps.
  [[nodiscard]] std::size_t left_for_last_step() const
  {
    std::size_t const last = trace.empty() ? 0 : (trace.size() - 1) / options.batch;
    return last < options.steps ? left_for_step(last) : 0;
  }
  [[nodiscard]] bool admits_short_samples() const { return options.short_samples == "admit"; }

  /// Seconds of a unit of cost on a GPU of speed 1, the unit of speeds.
  [[nodiscard]] double seconds_at_speed_one() const
  {
    auto const& speeds = machines.gpu_speeds;
    return speeds.empty() ? seconds_per_unit : seconds_per_unit * std::ranges::max(speeds);
  }
};

/// Whether bags are to be chosen.
[[nodiscard]] inline bool are_chosen(std::string_view bags)
{
  return bags == "auto";
}

/// Checks and reads all that the options name, and chooses bags where they say so.
[[nodiscard]] outcome<job> prepare_job(job_options const& options, progress& shown);

}  // namespace cli
