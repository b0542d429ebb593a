// SPDX-License-Identifier: Apache-2.0
// Orders of microbatches and the search for layouts, in a file of their own so that both compile at once.

#include "../common/by_name/parse_order_policy.hpp"
#include "../common/by_name/parse_schedule.hpp"
#include "python_arrays.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/workload/length_trace.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace {

using namespace python;

using order_plan = timed<ballast::order_plan>;

/// `forward` and `backward`: [microbatches x stages].
order_plan make_order(integers const& forward, integers const& backward,
                      std::string const& schedule_name, std::string const& policy_name,
                      std::int64_t transfer)
{
  using ballast::stage_graph;
  auto const schedule = value(by_name::parse_schedule(schedule_name));
  auto const policy = value(by_name::parse_order_policy(policy_name));
  if (forward.ndim() != 2 || backward.ndim() != 2 || forward.shape(0) != backward.shape(0) ||
      forward.shape(1) != backward.shape(1)) {
    refuse(
        "forward and backward are two arrays of [microbatches x stages]; give both in one shape");
  }
  auto const microbatches = static_cast<std::size_t>(forward.shape(0));
  std::size_t const stages = in_range("the number of stages", forward.shape(1), 1,
                                      static_cast<std::int64_t>(stage_graph::most_stages));
  if (stages % schedule.virtual_stages != 0) {
    refuse("schedule '", schedule_name, "' gives every rank ", schedule.virtual_stages,
           " virtual stages, and ", stages,
           " stages are no multiple of that; choose a v that divides");
  }
  (void)in_range("transfer", transfer, 0, stage_graph::longest_time);
  auto const ahead = numbers_of(forward);
  auto const back = numbers_of(backward);
  ballast::pipeline_times const times(microbatches, stages,
                                      [&](std::size_t microbatch, std::size_t stage) {
                                        std::size_t const at = microbatch * stages + stage;
                                        return ballast::stage_time{ahead[at], back[at]};
                                      });
  auto const chain = ballast::chain_of_stages(stages, stages / schedule.virtual_stages, transfer);
  auto const compiled =
      value(ballast::compiled_schedule::make(chain, value(schedule(chain, microbatches))));
  return planned<ballast::order_plan>([&](ballast::order_plan& plan, auto& memory) {
    return ballast::order_microbatches_into(plan, memory, compiled, times, policy);
  });
}

/// GPUs, memory_bytes, gpus_per_node, bytes_per_second, and the speed's numerator and denominator.
using kind_numbers = std::array<std::int64_t, 6>;

ballast::gpu_kind kind_of(kind_numbers const& given)
{
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  ballast::gpu_kind kind;
  kind.gpus = static_cast<std::uint32_t>(
      in_range("gpus", given[0], 1, ballast::layout_search_options::most_gpus));
  kind.memory_bytes = in_range("memory_bytes", given[1], 0, any);
  kind.gpus_per_node =
      static_cast<std::uint32_t>(in_range("gpus_per_node", given[2], 1, most_32_bits));
  kind.bytes_per_second = in_range("bytes_per_second", given[3], 0, any);
  kind.speed = {given[4], given[5]};
  return kind;
}

/// The role of a module of a name that an argument gives.
ballast::module_role& role_named(std::string const& name, char const* argument,
                                 std::vector<ballast::module_role>& roles,
                                 std::span<ballast::module_profile const> modules)
{
  for (std::size_t module = 0; module < modules.size(); ++module) {
    if (modules[module].name == name) { return roles[module]; }
  }
  std::string names;
  for (auto const& each : modules) { names += (names.empty() ? "" : ", ") + each.name; }
  refuse(argument, " has '", name, "', which is no module of the profile; choose among ", names);
}

/// What `ballast search` does with the same numbers: the same layouts.
py::dict search(std::string const& profile, integers const& sizes,
                std::vector<kind_numbers> const& kinds, std::vector<std::string> const& frozen,
                std::vector<std::string> const& trained_inputs, bool leave_gpus,
                bool share_optimizer, std::int64_t global_batch, std::int64_t best,
                std::vector<std::int64_t> const& virtual_stages, std::int64_t batches,
                std::int64_t draws, std::uint64_t seed, bool prove)
{
  constexpr std::int64_t most_simulated = std::int64_t{1} << 21;
  auto const file = value(ballast::load_profile(profile));
  auto modules_read = file.profiles();
  if (!modules_read) { modules_read.error().message.insert(0, profile + ": "); }
  auto const modules = value(std::move(modules_read));
  for (std::string const& note : file.notes) {
    if (PyErr_WarnEx(PyExc_UserWarning, note.c_str(), 1) != 0) { throw py::error_already_set(); }
  }
  if (sizes.ndim() != 2 || sizes.shape(1) != static_cast<py::ssize_t>(modules.size())) {
    refuse("sizes is an array of [samples x modules]; ", profile, " has ", modules.size(),
           " modules, so give one column for each");
  }
  auto const all = numbers_of(sizes);
  auto const samples = static_cast<std::size_t>(sizes.shape(0));
  if (samples == 0) { refuse("sizes has no sample; give at least one"); }
  auto const per_batch = static_cast<std::uint32_t>(
      in_range("global_batch", global_batch, 1, ballast::layout_problem::most_global_batch));
  std::size_t const simulated = in_range("batches", batches, 1, most_simulated / global_batch);

  ballast::random_source random(seed);
  std::vector<std::size_t> rows(samples);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  random.shuffle(std::span(rows));
  auto const priced = ballast::sizes_of_rows(
      all, modules.size(),
      std::span(rows).first(std::min(in_range("draws", draws, 1, most_simulated), samples)));
  std::vector<std::size_t> drawn(simulated * per_batch);
  for (std::size_t& row : drawn) { row = static_cast<std::size_t>(random.below(samples)); }
  auto const steps = ballast::sizes_of_rows(all, modules.size(), drawn);

  ballast::layout_problem problem;
  problem.modules = modules;
  problem.sizes = priced;
  problem.global_batch = per_batch;
  problem.kinds.clear();
  for (kind_numbers const& each : kinds) { problem.kinds.push_back(kind_of(each)); }
  std::vector<ballast::module_role> roles(modules.size());
  for (std::string const& name : frozen) {
    role_named(name, "frozen", roles, modules).is_trained = false;
  }
  for (std::string const& name : trained_inputs) {
    role_named(name, "trained_inputs", roles, modules).is_input_trained = true;
  }
  problem.roles = roles;
  problem.may_leave_gpus = leave_gpus;
  problem.state.is_optimizer_shared = share_optimizer;
  std::vector<std::uint32_t> stages;
  for (std::int64_t const each : virtual_stages) {
    stages.push_back(static_cast<std::uint32_t>(in_range("virtual_stages", each, 0, most_32_bits)));
  }
  ballast::layout_search_options options{.best = in_range("best", best, 1, 1'000'000),
                                         .virtual_stages = stages};
  if (prove) { options.most_work = ballast::layout_search_options::until_proven; }
  ballast::layout_ranking const ranking =
      value(unlocked([&] { return ballast::search_layouts(problem, steps, options); }));

  py::list layouts;
  for (ballast::simulated_layout const& each : ranking.layouts) {
    py::dict degrees;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      auto const& own = each.layout.modules[module];
      py::dict degree;
      degree["tp"] = own.tp;
      degree["sp"] = own.sp;
      degree["ep"] = own.ep;
      degree["pp"] = own.pp;
      degree["dp"] = own.dp;
      degree["kind"] = each.layout.kinds.empty() ? 0 : each.layout.kinds[module];
      degrees[py::str(modules[module].name)] = degree;
    }
    py::dict layout;
    layout["modules"] = degrees;
    layout["microbatches"] = each.layout.microbatches;
    layout["virtual_stages"] = each.layout.virtual_stages;
    layout["step_seconds"] = static_cast<double>(each.simulated) * 1e-12;
    layout["memory_bytes"] = each.layout.memory_bytes;
    layouts.append(layout);
  }
  py::dict answer;
  answer["layouts"] = layouts;
  answer["lower_bound_seconds"] = static_cast<double>(ranking.lower_bound) * 1e-12;
  answer["gap"] = ranking.gap();
  answer["proven"] = ranking.is_proven;
  return answer;
}

}  // namespace

void add_pipelines(py::module_& module);

void add_pipelines(py::module_& module)
{
  py::class_<order_plan> order(module, "Order");
  add_certificate(order);
  order.def_property_readonly("order", array_of<order_plan>(&order_plan::order))
      .def_readonly("makespan_given", &order_plan::makespan_given);
  module.def("order", &make_order);
  module.def("search", &search);
}
