// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/layout_problem.hpp>

namespace cli {

/// What the command line of `ballast search` or `orchestrate` says of a model, its data, its GPUs and
/// of what is written, with the defaults of what it leaves out.
struct model_options {
  std::string profile;             ///< CSV file of module profiles
  std::string data;                ///< CSV file of the sizes of samples
  std::vector<std::string> sizes;  ///< MODULE=EXPR, of modules that are no column of the data
  std::uint32_t gpus = 0;
  std::uint32_t gpus_per_node = 8;
  std::string memory;                  ///< of a GPU: 80GB
  std::vector<std::string> more_gpus;  ///< N:SIZE or N:SIZE:SPEED, of other kinds
  std::vector<std::string> own_gpus;   ///< MODULE=N:SIZE or MODULE=N:SIZE:SPEED
  double between_nodes_gb_per_s = 0;   ///< of a GPU; 0: transfers and all-reduce take no time
  std::uint32_t global_batch = 0;
  std::vector<std::string> frozen;          ///< modules
  std::vector<std::string> trained_inputs;  ///< modules
  std::vector<std::string> may_shard;       ///< modules whose replicas may shard their weights
  std::string state;  ///< bytes of weight, gradient and optimiser, which replicas share; or empty
  std::string format = "table";
  std::string plan;    ///< path of the CSV file of layouts, or empty
  std::string report;  ///< path of the HTML page, or empty
};

/// What was read of them.
struct model_job {
  std::vector<ballast::module_profile> modules;
  std::vector<ballast::module_role> roles;  ///< of modules
  std::vector<ballast::tokens> sizes;       ///< of samples, in each module
  ballast::layout_problem problem;          ///< which sees these
  std::size_t rows = 0;                     ///< of the data
};

/// Checks the paths and reads; what is to be noted of the profile is among notes().
[[nodiscard]] outcome<void> read_model(model_job& job, model_options const& options);

/// A whole number of 32 bits, or none.
[[nodiscard]] std::optional<std::uint32_t> whole_number(std::string_view text);

/// "80GB", "80GiB" or a number of bytes.
[[nodiscard]] outcome<std::uint64_t> read_bytes(std::string_view option, std::string const& text);

/// The module of a name that an option gives.
[[nodiscard]] outcome<std::size_t> find_module(std::string_view option, std::string_view name,
                                               std::span<ballast::module_profile const> modules);

struct module_value {
  std::size_t module;
  std::string value;
};

/// MODULE=VALUE, where the value has no '=', of each module at most once.
[[nodiscard]] outcome<std::vector<module_value>> read_module_values(
    std::string_view option, std::span<std::string const> given,
    std::span<ballast::module_profile const> modules);

}  // namespace cli
