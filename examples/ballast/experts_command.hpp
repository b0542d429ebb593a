// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"
#include "table.hpp"

#include <ballast/parallelism/place_experts.hpp>

namespace cli {

/// What the command line of `ballast experts` says, with the defaults of what it leaves out.
struct experts_options {
  std::string experts;  ///< file of experts
  std::string load;     ///< expression over its columns: tokens of an expert
  std::string id;       ///< column that names experts in what is written, or empty
  std::size_t gpus = 0;
  std::string slots;              ///< replicas that fit each GPU: a list or a file
  std::size_t gpus_per_node = 8;  ///< the last node may have fewer
  std::size_t most_nodes = 0;     ///< for the replicas of an expert; 0: no limit
  bool is_uneven = false;         ///< whether the shares of an expert may differ
  std::string format = "table";
  std::string plan;  ///< path of the CSV file of where replicas are, or empty
};

/// Everything that `ballast experts` found out.
struct experts_run {
  experts_options options;
  std::vector<std::int64_t> loads;
  row_ids ids;
  ballast::expert_placement placed;
  ballast::jagged<ballast::expert_id, double> shares;  ///< of placed.gpus: the load of each replica
  std::vector<double> load_of_gpu;
};

/// Reads loads and places replicas of experts.
[[nodiscard]] outcome<experts_run> run_experts(experts_options const& options);

/// Writes the plan where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_experts(experts_run const& run);

}  // namespace cli
