#include "../../tests/support/cbc_judge.hpp"  // defines: ballast_test::ask_cbc
#include "../common/workloads.hpp"            // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>

#include <cstddef>
#include <functional>
#include <vector>

namespace {

using ballast::cost_units;

// Costs of a lognormal step in units that make the mean load of a bag 10^7, so that a plan is known
// to 1e-7 and the solver's floating point still tells costs apart.
std::vector<cost_units> step_costs(std::size_t samples, std::size_t bags)
{
  auto const cost = bench::transformer_cost();
  std::vector<cost_units> costs;
  double total = 0;
  for (ballast::tokens const length : bench::lognormal_lengths(samples, 1.0, /*seed=*/42)) {
    costs.push_back(cost(length));
    total += static_cast<double>(costs.back());
  }
  double const unit = total / (1e7 * static_cast<double>(bags));
  for (cost_units& each : costs) {
    each = static_cast<cost_units>(static_cast<double>(each) / unit);
  }
  return costs;
}

// Baseline: the integer program given to a solver with one second, as DFLOP's scheduler does. Its
// time is the solver's own limit, so one iteration suffices. Where it finds no plan, cbc_gap is 1.
void integer_program(benchmark::State& state)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const bags = static_cast<std::size_t>(state.range(1));
  auto const costs = step_costs(samples, bags);
  auto const layout = ballast::one_gpu_bags(bags);
  ballast::refine<> const policy{.nodes = std::uint64_t{1} << 24};
  ballast::partition_plan ours;
  ballast::workspace memory;
  auto const plan_ours = [&] {
    bool const done = ballast::partition_into(
                          ours, memory, costs, layout, std::identity{},
                          [](cost_units) { return ballast::tokens{1}; }, {}, policy)
                          .has_value();
    benchmark::DoNotOptimize(done);
  };
  plan_ours();
  double const our_seconds = bench::median_seconds(31, plan_ours);

  ballast_test::cbc_verdict verdict;
  for (auto _ : state) { verdict = ballast_test::ask_cbc(costs, bags, 1.0); }
  double const bound = ours.lower_bound.value();
  state.counters["cbc_found"] = verdict.makespan ? 1 : 0;
  state.counters["cbc_proven"] = verdict.proven ? 1 : 0;
  state.counters["cbc_gap"] = verdict.makespan ? verdict.makespan->value() / bound - 1 : 1;
  state.counters["exact_ms"] = our_seconds * 1e3;
  state.counters["exact_gap"] = ours.gap();
  state.counters["exact_proven"] = ours.proven_optimal() ? 1 : 0;
}

BENCHMARK(integer_program)
    ->ArgNames({"samples", "bags"})
    ->Args({32, 8})
    ->Args({128, 16})
    ->Args({2048, 64})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
