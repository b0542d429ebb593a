// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <variant>

namespace by_name {

/// A schedule policy chosen at run time, for command lines and benchmarks.
///
/// Ensures     (1) its schedules are those of the policy that it holds
struct any_schedule {
  std::variant<ballast::gpipe, ballast::one_forward_one_backward,
               ballast::interleaved_one_forward_one_backward>
      policy;
  std::size_t virtual_stages = 1;  ///< how many stages each rank has

  [[nodiscard]] ballast::result<ballast::pipeline_schedule> operator()(
      ballast::stage_graph const& stages, std::size_t microbatches) const
  {
    return std::visit([&](auto const& held) { return held(stages, microbatches); }, policy);
  }
  friend bool operator==(any_schedule const&, any_schedule const&) = default;
};

}  // namespace by_name
