// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast_test {

/// What the kinds of microbatches differ in.
enum class kind_times : std::uint8_t {
  first_quarter,  ///< kind k takes 4^k as long on the first p / 4 stages, but 2^k of three kinds
  proportional,   ///< each kind takes equally long on all stages, 5,000 to 35,000
  every_stage     ///< every time of a kind is drawn for itself, 5,000 to 25,000
};

/// Microbatches of one kind in 70 %, drawn one by one, and in 30 % of the others; backwards take
/// twice the forward.
[[nodiscard]] inline ballast::pipeline_times times_of_kinds(kind_times differ, std::size_t kinds,
                                                            std::size_t microbatches,
                                                            std::size_t stages, std::uint64_t seed)
{
  ballast::random_source random(seed * 12 + kinds * 3 + static_cast<std::uint64_t>(differ));
  std::vector<ballast::time_units> of_kind(kinds * stages);
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    ballast::time_units const together = random.between(5'000, 35'000);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      ballast::time_units const alone = random.between(5'000, 25'000);
      bool const varies = stage < std::max<std::size_t>(1, stages / 4);
      of_kind[kind * stages + stage] = differ == kind_times::proportional  ? together
                                       : differ == kind_times::every_stage ? alone
                                       : varies ? ballast::time_units{10'000}
                                                      << kind * (kinds > 2 ? 1 : 2)
                                                : 10'000;
    }
  }
  ballast::pipeline_times times(microbatches, stages);
  for (std::size_t at = 0; at < microbatches; ++at) {
    std::size_t const kind = kinds > 1 && random.below(10) < 3 ? 1 + random.below(kinds - 1) : 0;
    auto const row = times[ballast::to_id<ballast::microbatch_id>(at)];
    for (std::size_t stage = 0; stage < stages; ++stage) {
      ballast::time_units const time = of_kind[kind * stages + stage];
      row[stage] = {time, 2 * time};
    }
  }
  return times;
}

/// Every time drawn for itself within 2 % of 10,000 forward and 20,000 backward.
[[nodiscard]] inline ballast::pipeline_times near_equal_times(std::size_t microbatches,
                                                              std::size_t stages,
                                                              std::uint64_t seed)
{
  ballast::random_source random(seed);
  ballast::pipeline_times times(microbatches, stages);
  for (auto& [forward, backward] : times.rows) {
    forward = random.between(9'800, 10'200);
    backward = random.between(19'600, 20'400);
  }
  return times;
}

}  // namespace ballast_test
