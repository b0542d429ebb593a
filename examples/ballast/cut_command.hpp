// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"
#include "table.hpp"

#include <ballast/parallelism/cut_chain.hpp>

namespace cli {

/// What the command line of `ballast cut` says, with the defaults of what it leaves out.
struct cut_options {
  std::string layers;            ///< file of layers
  std::string load;              ///< expression over its columns: what a layer costs
  std::string state_bytes;       ///< expression, or empty
  std::string activation_bytes;  ///< expression, of one microbatch, or empty
  std::string id;                ///< column that names layers in what is written, or empty
  std::size_t ranks = 0;
  std::size_t virtual_stages = 1;  ///< of each rank
  std::string memory;              ///< of a GPU, or empty
  std::string format = "table";
  std::string plan;  ///< path of the CSV file of who computes which layer, or empty
};

/// Everything that `ballast cut` found out.
struct cut_run {
  cut_options options;
  std::vector<ballast::chain_layer> layers;
  row_ids ids;
  ballast::chain_cut cut;
};

/// Reads layers and cuts them into the stages of a pipeline.
[[nodiscard]] outcome<cut_run> run_cut(cut_options const& options);

/// Writes the plan where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_cut(cut_run const& run);

}  // namespace cli
