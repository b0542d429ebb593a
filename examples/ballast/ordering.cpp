// SPDX-License-Identifier: Apache-2.0
#include "ordering.hpp"
#include "../common/by_name/any_schedule.hpp"
#include "../common/by_name/parse_order_policy.hpp"
#include "../common/by_name/parse_schedule.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <fmt/format.h>

namespace cli {

outcome<ordering> read_ordering(ordering_options const& options)
{
  auto const schedule = by_name::parse_schedule(options.schedule);
  if (!schedule) { return usage("--schedule", schedule.error()); }
  auto const policy = by_name::parse_order_policy(options.order);
  if (!policy) { return usage("--order", policy.error()); }
  return ordering{*schedule, *policy};
}

outcome<ballast::stage_graph> chain_for(ordering_options const& options,
                                        by_name::any_schedule const& schedule, std::size_t stages,
                                        ballast::time_units transfer, std::string_view source)
{
  std::size_t const of_rank = schedule.virtual_stages;
  if (stages % of_rank != 0) {
    return usage(fmt::format(
        "--schedule {}: every rank has {} virtual stages, and the {} of {} are no multiple of "
        "that; choose a v that divides them",
        options.schedule, of_rank, stages, source));
  }
  return ballast::chain_of_stages(stages, stages / of_rank, transfer);
}

outcome<ballast::compiled_schedule> compile(by_name::any_schedule const& schedule,
                                            ballast::stage_graph const& stages,
                                            std::size_t microbatches)
{
  auto compiled = schedule(stages, microbatches).and_then([&](auto const& written) {
    return ballast::compiled_schedule::make(stages, written);
  });
  if (!compiled) { return bad_data(compiled.error().message); }
  return std::move(*compiled);
}

}  // namespace cli
