// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_RANDOM_TIMES_HPP
#define BALLAST_TESTS_SUPPORT_RANDOM_TIMES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_times.hpp>

#include <cstddef>

namespace ballast_test {

/// Every time drawn for itself from 0 to `longest`.
[[nodiscard]] inline ballast::pipeline_times random_times(ballast::random_source& random,
                                                          std::size_t microbatches,
                                                          std::size_t stages,
                                                          ballast::time_units longest)
{
  ballast::pipeline_times times(microbatches, stages);
  for (auto& time : times.rows) { time = {random.between(0, longest), random.between(0, longest)}; }
  return times;
}

/// The same for the microbatches and stages of a schedule.
[[nodiscard]] inline ballast::pipeline_times random_times(
    ballast::random_source& random, ballast::compiled_schedule const& schedule,
    ballast::time_units longest)
{
  return random_times(random, schedule.microbatches(), schedule.stages().stages(), longest);
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_RANDOM_TIMES_HPP
