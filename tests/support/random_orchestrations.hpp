// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

namespace ballast_test {

/// A module whose numbers are small where `is_coarse`, so that many orchestrations are equally
/// good.
inline ballast::orchestrated_module random_orchestrated(ballast::random_source& random, bool is_llm,
                                                        bool is_coarse, std::uint32_t most_layers)
{
  auto const draw = [&random](std::uint64_t least, std::uint64_t most) {
    return least + random.below(most - least + 1);
  };
  ballast::orchestrated_module module;
  module.name = is_llm ? "llm" : "other";
  module.layers = static_cast<std::uint32_t>(draw(1, most_layers));
  module.virtual_stages =
      random.below(3) == 0 ? static_cast<std::uint32_t>(draw(1, module.layers < 3 ? 1 : 3)) : 1;
  module.is_trained = random.below(4) != 0;
  module.is_input_trained = random.below(4) == 0;
  module.boundary_bytes = random.below(2) == 0 ? 0 : draw(1, is_coarse ? 4 : 100'000'000);
  module.forward_flops = draw(1, 1000);
  std::uint64_t const forward = is_coarse ? draw(1, 4) * (is_llm ? 24 : 6)
                                          : draw(1'000'000, is_llm ? 900'000'000 : 90'000'000);
  std::uint64_t const state = is_coarse ? draw(1, 8) * 24 : draw(1'000'000, 400'000'000);
  std::uint64_t const held = is_coarse ? draw(0, 2) * 24 : draw(0, 50'000'000);
  for (std::uint32_t const tp : {1U, 2U, 4U, 8U}) {
    if (tp > 1 && random.below(4) == 0) { continue; }
    ballast::orchestrated_degree degree;
    degree.tp = tp;
    // Twice as many GPUs are not twice as fast.
    std::uint64_t const time = is_coarse ? forward / tp : forward * (10 + tp) / (11 * tp);
    degree.forward = static_cast<ballast::time_units>(time);
    degree.backward = 2 * degree.forward;
    degree.backward_of_input = degree.forward;
    degree.weight_bytes = state / 6 / tp;
    degree.gradient_bytes = state / 6 / tp;
    degree.optimizer_bytes = state / tp;
    degree.activation_bytes = held / tp;
    if (random.below(4) == 0) { degree.copies = tp; }
    module.degrees.push_back(degree);
  }
  return module;
}

/// Has modules measured on groups of sp and ep GPUs too, as many as with tp alone: faster or
/// slower, and with other memory.
inline void add_groups(ballast::random_source& random,
                       std::vector<ballast::orchestrated_module>& modules)
{
  for (ballast::orchestrated_module& module : modules) {
    auto const measured = module.degrees;
    for (ballast::orchestrated_degree degree : measured) {
      if (degree.tp == 1 || random.below(3) == 0) { continue; }
      (random.below(2) == 0 ? degree.sp : degree.ep) = 2;
      degree.tp /= 2;
      degree.copies = degree.sp;
      degree.forward = degree.forward * random.between(7, 13) / 10;
      degree.weight_bytes = degree.weight_bytes * 2 / (1 + random.below(3));
      degree.activation_bytes = degree.activation_bytes / (1 + random.below(3));
      module.degrees.push_back(degree);
    }
    std::sort(module.degrees.begin(), module.degrees.end(), [](auto const& a, auto const& b) {
      return ballast::degree_of(a) < ballast::degree_of(b);
    });
  }
}

/// One to three modules on GPUs of one kind, or of two, of which some modules may get one only.
inline ballast::orchestration_problem random_orchestration(ballast::random_source& random,
                                                           std::uint32_t most_gpus,
                                                           std::uint32_t most_batch,
                                                           std::uint32_t most_layers = 9)
{
  ballast::orchestration_problem problem;
  std::size_t const modules = 1 + random.below(3);
  bool const is_coarse = random.below(3) == 0;
  problem.llm = random.below(modules);
  for (std::size_t module = 0; module < modules; ++module) {
    problem.modules.push_back(
        random_orchestrated(random, module == problem.llm, is_coarse, most_layers));
  }
  std::size_t const kinds = random.below(3) == 0 ? 2 : 1;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    ballast::gpu_kind of;
    of.gpus = static_cast<std::uint32_t>(1 + random.below(most_gpus));
    of.gpus_per_node = random.below(5) == 0 ? 4 : 8;
    of.memory_bytes = is_coarse ? 24 + random.below(300) : 20'000'000 + random.below(500'000'000);
    of.bytes_per_second =
        random.below(2) == 0 ? 0 : 1 + random.below(is_coarse ? 8 : 40'000'000'000'000);
    if (is_coarse && of.bytes_per_second > 0) { of.bytes_per_second *= 1'000'000'000'000; }
    if (random.below(3) == 0) { of.speed = {random.between(1, 5), random.between(1, 5)}; }
    problem.kinds.push_back(of);
  }
  for (auto& module : problem.modules) {
    if (random.below(3) != 0) { module.kinds = {random.below(kinds)}; }
  }
  problem.microbatch = static_cast<std::uint32_t>(1 + random.below(3));
  problem.global_batch =
      problem.microbatch * static_cast<std::uint32_t>(1 + random.below(most_batch));
  return problem;
}

}  // namespace ballast_test
