// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random_modules.hpp"

#include <ballast/parallelism/orchestrate.hpp>

namespace ballast_test {

/// One to three modules on GPUs of one kind, or of two, of which some modules may get one only;
/// frozen or not, with virtual stages and traffic. Where it is coarse numbers are small, so that many
/// layouts are equally good.
struct random_job {
  random_model model;
  std::vector<ballast::module_role> roles;
  ballast::layout_problem problem;
  ballast::orchestrate_options options;

  random_job(ballast::random_source& random, std::uint32_t most_gpus, std::uint32_t most_batch,
             bool has_groups = false)
  {
    constexpr std::uint64_t memory = std::uint64_t{1} << 30;
    std::size_t const modules = 1 + random.below(3);
    bool const is_coarse = random.below(3) == 0;
    model = draw_model(random, modules, 1 + random.below(8), false, memory);
    if (has_groups) { add_groups(random, model.modules); }
    options.llm = random.below(modules);
    roles.resize(modules);
    for (std::size_t module = 0; module < modules; ++module) {
      auto& profile = model.modules[module];
      profile.boundary_bytes = random.below(2) == 0 ? 0 : random.below(is_coarse ? 4 : 1 << 16);
      if (is_coarse) { make_coarse(random, profile, module == options.llm); }
      roles[module].is_trained = random.below(4) != 0;
      roles[module].is_input_trained = random.below(4) == 0;
      if (random.below(3) == 0) {
        roles[module].virtual_stages =
            1 + static_cast<std::uint32_t>(random.below(std::min(profile.layers, 3U)));
      }
    }
    if (is_coarse) {
      for (ballast::tokens& size : model.sizes) { size = 1; }
    }
    std::size_t const kinds = random.below(3) == 0 ? 2 : 1;
    problem.kinds.clear();
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      ballast::gpu_kind of;
      of.gpus = static_cast<std::uint32_t>(1 + random.below(most_gpus));
      of.gpus_per_node = random.below(5) == 0 ? 4 : 8;
      of.memory_bytes = is_coarse ? 24 + random.below(300) : memory / (1 + random.below(3));
      if (random.below(2) == 0) {
        of.bytes_per_second = is_coarse ? (1 + random.below(8)) * 1'000'000'000'000
                                        : std::uint64_t{1} << (24 + random.below(16));
      }
      if (random.below(3) == 0) { of.speed = {random.between(1, 5), random.between(1, 5)}; }
      problem.kinds.push_back(of);
    }
    for (auto& role : roles) {
      if (random.below(3) != 0) { role.kinds = {random.below(kinds)}; }
    }
    options.microbatch = static_cast<std::uint32_t>(1 + random.below(3));
    problem.global_batch =
        options.microbatch * static_cast<std::uint32_t>(1 + random.below(most_batch));
    problem.may_leave_gpus = true;
    problem.state.is_optimizer_shared = random.below(4) != 0;
    if (random.below(4) == 0) { problem.state.weights = 4; }
    view();
  }
  random_job(random_job const&) = delete;
  random_job& operator=(random_job const&) = delete;

  /// Has the problem see modules, roles and sizes as they are now.
  void view()
  {
    problem.modules = model.modules;
    problem.roles = roles;
    problem.sizes = model.sizes;
  }

 private:
  /// A FLOP takes a picosecond.
  static void make_coarse(ballast::random_source& random, ballast::module_profile& profile,
                          bool is_llm)
  {
    profile.flops = {.linear = (1 + random.below(4)) * (is_llm ? 72 : 18), .quadratic = 0};
    std::uint64_t const state = (1 + random.below(8)) * 48 / profile.layers;
    std::uint64_t const held = random.below(3) * 8;
    for (auto& degree : profile.degrees) {
      std::uint64_t const gpus = degree_of(degree).gpus();
      degree.linear = degree.attention = {};
      degree.memory = {.layers = {1, 2},
                       .state_bytes = {state / gpus, 2 * state / gpus},
                       .sizes = {0, 1},
                       .activation_bytes = {{{0, held / gpus}, {0, 2 * held / gpus}}}};
    }
  }
};

}  // namespace ballast_test
