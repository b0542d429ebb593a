// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

namespace ballast_test {

/// Which stages of a pipeline take longer for some microbatches than for others, and with which.
enum class time_family : std::uint8_t {
  first_stage,       ///< only the first stage varies
  first_quarter,     ///< the first p / 4 stages vary together, as an encoder's do
  proportional,      ///< all stages vary together
  both_ends,         ///< the first and the last vary, independently: an encoder and a generator
  encoder_and_llm,   ///< the first p / 4 vary together, and independently of them all others
  every_stage_alone  ///< every time is drawn for itself
};

inline constexpr std::array named_families = {
    std::pair{time_family::first_stage, std::string_view("first_stage")},
    std::pair{time_family::first_quarter, std::string_view("first_quarter")},
    std::pair{time_family::proportional, std::string_view("proportional")},
    std::pair{time_family::both_ends, std::string_view("both_ends")},
    std::pair{time_family::encoder_and_llm, std::string_view("encoder_and_llm")},
    std::pair{time_family::every_stage_alone, std::string_view("every_stage_alone")},
};

/// Times with mean 10,000 forward and 20,000 backward; what varies is lognormal with a coefficient
/// of variation of 0.6. Stages that do not vary take the mean.
[[nodiscard]] inline ballast::pipeline_times times_of(time_family family, std::size_t microbatches,
                                                      std::size_t stages, std::uint64_t seed)
{
  // A lognormal of coefficient of variation c has sigma^2 = ln(1 + c^2), and its median is the mean
  // times exp(-sigma^2 / 2).
  ballast::lognormal_lengths const draw{8575, 0.5545};
  ballast::random_source random(seed * 6 + static_cast<std::uint64_t>(family));
  ballast::pipeline_times times(microbatches, stages);
  for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    auto const row = times[ballast::to_id<ballast::microbatch_id>(microbatch)];
    ballast::time_units const first = draw(random);
    ballast::time_units const second = draw(random);
    std::size_t const quarter = std::max<std::size_t>(1, stages / 4);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      ballast::time_units time = 10'000;
      switch (family) {
        case time_family::first_stage: time = stage == 0 ? first : time; break;
        case time_family::first_quarter: time = stage < quarter ? first : time; break;
        case time_family::proportional: time = first; break;
        case time_family::both_ends:
          time = stage == 0 ? first : stage + 1 == stages ? second : time;
          break;
        case time_family::encoder_and_llm: time = stage < quarter ? first : second; break;
        case time_family::every_stage_alone: time = draw(random); break;
      }
      row[stage] = {time, 2 * time};
    }
  }
  return times;
}

}  // namespace ballast_test
