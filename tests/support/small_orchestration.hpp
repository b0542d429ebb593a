// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/parallelism/orchestration_problem.hpp>

namespace ballast_test {

/// An encoder of 2 layers and an LLM of 4 on 16 GPUs of 1,000 bytes, with round numbers: at tp 1
/// the encoder takes 30 ps for a sample, a third of it forward, and the LLM 240; at tp 2 half.
inline ballast::orchestration_problem small_orchestration()
{
  ballast::orchestration_problem problem{
      .modules = {{.name = "vision",
                   .layers = 2,
                   .degrees = {{1, 10, 20, 10, 20, 20, 120, 8}, {2, 5, 10, 5, 10, 10, 60, 4}},
                   .forward_flops = 1},
                  {.name = "llm",
                   .layers = 4,
                   .degrees = {{1, 80, 160, 80, 80, 80, 480, 40}, {2, 40, 80, 40, 40, 40, 240, 20}},
                   .forward_flops = 8}},
      .llm = 1,
      .global_batch = 12,
      .kinds = {{.gpus = 16, .memory_bytes = 1000}}};
  return problem;
}

}  // namespace ballast_test
