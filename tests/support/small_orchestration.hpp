// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/parallelism/layout_problem.hpp>

namespace ballast_test {

/// An encoder of 2 layers and an LLM of 4 on 16 GPUs of 1,000 bytes, with round numbers: at tp 1
/// the encoder takes 30 ps for a sample, a third of it forward, and the LLM 240; at tp 2 half.
struct small_job {
  std::vector<ballast::module_profile> modules;
  std::vector<ballast::module_role> roles;
  std::vector<ballast::tokens> sizes{1, 1};
  ballast::layout_problem problem;

  small_job()
      : modules{module_of("vision", 2, 30, 80, 4), module_of("llm", 4, 240, 160, 10)}, roles(2)
  {
    problem.global_batch = 12;
    problem.kinds = {{.gpus = 16, .memory_bytes = 1000}};
    problem.state.is_optimizer_shared = true;
    view();
  }
  small_job(small_job const& other)
      : modules(other.modules), roles(other.roles), sizes(other.sizes), problem(other.problem)
  {
    view();
  }
  small_job& operator=(small_job const&) = delete;
  ~small_job() = default;

  /// Has the problem see modules, roles and sizes as they are now.
  ballast::layout_problem const& view()
  {
    problem.modules = modules;
    problem.roles = roles;
    problem.sizes = sizes;
    return problem;
  }

 private:
  /// State and activations are those of a layer at tp 1.
  static ballast::module_profile module_of(char const* name, std::uint32_t layers,
                                           std::uint64_t flops, std::uint64_t state,
                                           std::uint64_t held)
  {
    ballast::module_profile module;
    module.name = name;
    module.layers = layers;
    module.flops.linear = flops;
    for (std::uint32_t const tp : {1U, 2U}) {
      module.degrees.push_back(
          {.tp = tp,
           .linear = {},
           .attention = {},
           .memory = {.layers = {1, 2},
                      .state_bytes = {state / tp, 2 * state / tp},
                      .sizes = {0, 1},
                      .activation_bytes = {{{0, held / tp}, {0, 2 * held / tp}}}}});
    }
    return module;
  }
};

}  // namespace ballast_test
