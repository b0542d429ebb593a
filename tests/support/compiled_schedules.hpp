// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_COMPILED_SCHEDULES_HPP
#define BALLAST_TESTS_SUPPORT_COMPILED_SCHEDULES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/gpipe.hpp>
#include <ballast/pipeline/interleaved_one_forward_one_backward.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstddef>

namespace ballast_test {

/// A schedule of a chain in which each rank has `chunks` stages: 1F1B, interleaved where several.
[[nodiscard]] inline ballast::compiled_schedule chain_schedule(std::size_t ranks,
                                                               std::size_t microbatches,
                                                               std::size_t chunks = 1,
                                                               ballast::time_units transfer = 0)
{
  auto const stages = ballast::chain_of_stages(ranks * chunks, ranks, transfer);
  return ballast::compiled_schedule::make(stages, ballast::interleaved_one_forward_one_backward{},
                                          microbatches)
      .value();
}

/// GPipe on any stages.
[[nodiscard]] inline ballast::compiled_schedule gpipe_of(ballast::stage_graph const& stages,
                                                         std::size_t microbatches)
{
  return ballast::compiled_schedule::make(stages, ballast::gpipe{}, microbatches).value();
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_COMPILED_SCHEDULES_HPP
