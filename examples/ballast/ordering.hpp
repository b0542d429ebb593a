// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/by_name/any_order_policy.hpp"
#include "../common/by_name/any_schedule.hpp"
#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace cli {

/// What a command line says about pipelines, with the defaults of what it leaves out.
struct ordering_options {
  std::string schedule = "1f1b";
  std::string order = "search";
};

/// A schedule and an order policy, by name.
struct ordering {
  by_name::any_schedule schedule;
  by_name::any_order_policy policy;
};

[[nodiscard]] outcome<ordering> read_ordering(ordering_options const& options);

/// A chain of stages, dealt in turn to as many ranks as the schedule needs. Where the stages are no
/// multiple of those of a rank, the message says that their number comes from `source`.
[[nodiscard]] outcome<ballast::stage_graph> chain_for(ordering_options const& options,
                                                      by_name::any_schedule const& schedule,
                                                      std::size_t stages,
                                                      ballast::time_units transfer,
                                                      std::string_view source);

/// The schedule of so many microbatches.
[[nodiscard]] outcome<ballast::compiled_schedule> compile(by_name::any_schedule const& schedule,
                                                          ballast::stage_graph const& stages,
                                                          std::size_t microbatches);

}  // namespace cli
