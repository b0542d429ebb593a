// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_PIPELINE_TASKS_HPP
#define BALLAST_TESTS_SUPPORT_PIPELINE_TASKS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <cstdint>

namespace ballast_test {

/// The pass of a microbatch, by its position in the order, through a stage.
[[nodiscard]] constexpr ballast::pipeline_task forward(std::uint32_t position, std::uint32_t stage)
{
  return {position, ballast::stage_id{stage}, ballast::pass::forward};
}
[[nodiscard]] constexpr ballast::pipeline_task backward(std::uint32_t position, std::uint32_t stage)
{
  return {position, ballast::stage_id{stage}, ballast::pass::backward};
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_PIPELINE_TASKS_HPP
