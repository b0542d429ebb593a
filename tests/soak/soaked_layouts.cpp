// SPDX-License-Identifier: Apache-2.0
// Layouts of models: search_layouts and orchestrate, against all layouts of small problems.

#include "../support/all_layouts.hpp"
#include "../support/all_orchestrations.hpp"
#include "../support/random_modules.hpp"
#include "../support/random_orchestrations.hpp"
#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism.hpp>

namespace ballast_soak {
namespace {

void search(ballast::random_source& random)
{
  constexpr std::uint64_t memory_of_gpu = std::uint64_t{1} << 30;
  std::size_t const modules = 1 + random.below(2);
  auto model = ballast_test::draw_model(random, modules, 1 + random.below(8), random.below(3) == 0,
                                        memory_of_gpu);
  std::array<std::uint32_t, 5> const nodes{8, 8, 8, 4, 6};
  ballast::layout_problem problem;
  if (random.below(2) == 0) {
    problem.kinds[0].bytes_per_second = std::uint64_t{1} << (24 + random.below(16));
    for (auto& module : model.modules) { module.boundary_bytes = random.below(1 << 16); }
  }
  if (random.below(3) == 0) { ballast_test::add_groups(random, model.modules); }
  problem.modules = model.modules;
  problem.sizes = model.sizes;
  problem.global_batch = static_cast<std::uint32_t>(1 + random.below(6));
  problem.kinds[0].gpus = static_cast<std::uint32_t>(1 + random.below(8));
  problem.kinds[0].gpus_per_node = nodes[random.below(nodes.size())];
  problem.kinds[0].memory_bytes = memory_of_gpu / (1 + random.below(3));
  if (random.below(2) == 0) { problem.estimate = ballast::step_estimate::mean_step; }
  std::vector<ballast::module_role> roles(modules);
  if (random.below(2) == 0) {
    problem.may_leave_gpus = random.below(2) == 0;
    problem.state.is_optimizer_shared = random.below(2) == 0;
    for (auto& role : roles) {
      role.is_trained = random.below(2) == 0;
      role.is_input_trained = random.below(4) == 0;
    }
    if (random.below(2) == 0) {
      problem.kinds.push_back(problem.kinds[0]);
      problem.kinds[1].gpus = static_cast<std::uint32_t>(1 + random.below(4));
      problem.kinds[1].speed = {random.between(1, 4), random.between(1, 4)};
    }
    problem.roles = roles;
  }
  auto const batches = ballast_test::draw_model(
                           random, modules, problem.global_batch * (1 + random.below(2)), true, 1)
                           .sizes;
  ballast::layout_search_options options;
  if (random.below(4) == 0) { options.most_work = 1 + random.below(20'000); }
  if (random.below(3) == 0) { options.virtual_stages = {2, 3}; }
  auto all = ballast_test::all_layouts(problem, true, options.virtual_stages);
  std::erase_if(all, [&](ballast::model_layout const& layout) {
    return ballast::dealt_memory(problem, layout, batches).value() > problem.kinds[0].memory_bytes;
  });
  auto const found = ballast::search_layouts(problem, batches, options);
  if (!found) {
    require_sentence(found.error());
    require(all.empty() || says(found.error(), "ended before a layout was simulated") ||
                says(found.error(), "not all layouts were tried"),
            "a problem that has a layout is refused: ", found.error().message);
    return;
  }
  require(!all.empty(), "a layout where none fits");
  auto const ranked = ballast::rank_by_simulation(problem, all, batches).value();
  auto const best = ranked.front().simulated;
  auto const& chosen = found->layouts.front();
  require(found->lower_bound <= best && best <= chosen.simulated, "bound ", found->lower_bound,
          ", optimum ", best, ", found ", chosen.simulated);
  require(!found->is_proven || chosen.simulated == best, "proven, and the optimum is ", best);
  require(found->is_proven || found->is_out_of_work, "not proven with work left");
  auto const alone = ballast::simulate_layout(problem, chosen.layout, batches);
  require(alone && *alone == chosen.simulated, "a layout that is simulated otherwise");
}

void add_orchestration(std::vector<soaked_planner>& planners, std::string const& name,
                       bool has_one_group, bool has_one_stage)
{
  planners.push_back(
      {"orchestrate/" + name, [=](ballast::random_source& random) {
         ballast_test::random_job job(random, 10, 6, random.below(3) == 0);
         job.options.limits.has_one_group = has_one_group;
         job.options.limits.has_one_stage = has_one_stage;
         bool const is_extreme = random.below(10) == 0;
         if (is_extreme) {
           auto& module = job.model.modules[random.below(job.model.modules.size())];
           auto& degree = module.degrees[random.below(module.degrees.size())];
           auto const number =
               static_cast<std::uint64_t>(draw_number(random, number_family::extreme));
           switch (random.below(5)) {
             case 0: module.flops.linear = number; break;
             case 1: module.flops.quadratic = number; break;
             case 2: degree.memory.state_bytes[1] = number; break;
             case 3: degree.memory.activation_bytes[1][1] = number; break;
             default: module.boundary_bytes = number; break;
           }
           job.view();
         }
         auto const found = ballast::orchestrate(job.problem, {}, job.options);
         if (!found) {
           require_sentence(found.error());
           if (is_extreme) { return; }
           require(found.error().code == ballast::error_code::infeasible,
                   "refused: ", found.error().message);
         }
         if (is_extreme) { return; }
         auto const best = ballast_test::all_orchestrations(job.problem, job.options).best();
         require(best.has_value() == found.has_value(), best ? "refused: " : "found where none is",
                 found ? std::string() : found.error().message);
         if (!found) { return; }
         require(found->layout == *best, "found ", found->layout.step, ", and the optimum is ",
                 best->step);
       }});
}

}  // namespace

void add_layouts(std::vector<soaked_planner>& planners)
{
  planners.push_back({"search_layouts", search});
  add_orchestration(planners, "any", false, false);
  add_orchestration(planners, "one_group", true, false);
  add_orchestration(planners, "one_stage", true, true);
}

}  // namespace ballast_soak
