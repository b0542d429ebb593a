#include "../../tests/support/pipeline_families.hpp"  // defines: ballast_test::times_of
#include "../../tests/support/simulate_by_graph.hpp"  // the baseline

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace {

using ballast::microbatch_id;
using ballast::time_units;

// Every iteration simulates another order, as a search does.
std::vector<std::vector<microbatch_id>> sixteen_orders(std::size_t microbatches)
{
  ballast::random_source random(42);
  std::vector<std::vector<microbatch_id>> orders(16);
  for (auto& order : orders) {
    for (std::size_t at = 0; at < microbatches; ++at) {
      order.push_back(ballast::to_id<microbatch_id>(at));
    }
    random.shuffle(std::span(order));
  }
  return orders;
}

// A schedule of l microbatches for a chain of `chunks` stages on each of p ranks.
struct workload {
  template <ballast::schedule_policy Policy>
  workload(benchmark::State const& state, Policy const& policy, std::size_t chunks)
      : microbatches(static_cast<std::size_t>(state.range(0))),
        ranks(static_cast<std::size_t>(state.range(1))),
        stages(ballast::chain_of_stages(chunks * ranks, ranks, 100)),
        listed(policy(stages, microbatches).value()),
        times(ballast_test::times_of(ballast_test::time_family::encoder_and_llm, microbatches,
                                     chunks * ranks, 42)),
        orders(sixteen_orders(microbatches))
  {}
  std::size_t microbatches;
  std::size_t ranks;
  ballast::stage_graph stages;
  ballast::pipeline_schedule listed;
  ballast::pipeline_times times;
  std::vector<std::vector<microbatch_id>> orders;
};

// Runs `simulated(order)`, which returns the makespan, for one order after the other. idle is the
// share of the paid time in which nothing is computed; off_oracle must be 0, since all are exact.
template <class Simulated>
void run(benchmark::State& state, workload const& work, Simulated const& simulated)
{
  std::size_t next = 0;
  for (auto _ : state) {
    time_units makespan = simulated(work.orders[next++ % work.orders.size()]);
    benchmark::DoNotOptimize(makespan);
  }
  time_units busy = 0;
  for (auto const& [forward, backward] : work.times.rows) { busy += forward + backward; }
  time_units const makespan = simulated(work.orders.front());
  auto const graph = ballast_test::make_task_graph(work.stages, work.listed);
  time_units const oracle =
      ballast_test::simulate_by_graph(graph, work.times, work.orders.front()).makespan;
  state.counters["idle"] = 1 - static_cast<double>(busy) / (static_cast<double>(work.ranks) *
                                                            static_cast<double>(makespan));
  state.counters["off_oracle"] = static_cast<double>(makespan - oracle);
  std::size_t const tasks = 2 * work.times.rows.size();
  state.SetComplexityN(static_cast<benchmark::IterationCount>(work.microbatches * work.ranks));
  state.counters["tasks/s"] =
      benchmark::Counter(static_cast<double>(tasks), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["per_task"] =
      benchmark::Counter(static_cast<double>(tasks), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
}

// Baseline: longest paths in a Boost graph, which is built once, or with every order.
template <class Policy>
void graph_of_boost(benchmark::State& state, Policy const& policy, std::size_t chunks)
{
  workload const work(state, policy, chunks);
  auto const graph = ballast_test::make_task_graph(work.stages, work.listed);
  run(state, work, [&](std::span<microbatch_id const> order) {
    return ballast_test::simulate_by_graph(graph, work.times, order).makespan;
  });
}

template <class Policy>
void graph_of_boost_anew(benchmark::State& state, Policy const& policy, std::size_t chunks)
{
  workload const work(state, policy, chunks);
  run(state, work, [&](std::span<microbatch_id const> order) {
    auto const graph = ballast_test::make_task_graph(work.stages, work.listed);
    return ballast_test::simulate_by_graph(graph, work.times, order).makespan;
  });
}

template <class Policy>
void simulate_into(benchmark::State& state, Policy const& policy, std::size_t chunks)
{
  workload const work(state, policy, chunks);
  auto const schedule = ballast::compiled_schedule::make(work.stages, work.listed).value();
  ballast::pipeline_timeline timeline;
  run(state, work, [&](std::span<microbatch_id const> order) {
    ballast::simulate_into(timeline, schedule, work.times, order);
    return timeline.makespan;
  });
}

template <class Policy>
void makespan_of(benchmark::State& state, Policy const& policy, std::size_t chunks)
{
  workload const work(state, policy, chunks);
  auto const schedule = ballast::compiled_schedule::make(work.stages, work.listed).value();
  ballast::workspace memory;
  run(state, work, [&](std::span<microbatch_id const> order) {
    return ballast::makespan_of(schedule, work.times, order, memory);
  });
}

constexpr ballast::one_forward_one_backward one_f_one_b{};
constexpr ballast::interleaved_one_forward_one_backward interleaved_1f1b{};

void one_size(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"microbatches", "ranks"})->Args({64, 8})->Unit(benchmark::kMicrosecond);
}

void growing(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"microbatches", "ranks"})
      ->ArgsProduct({{64, 512, 4096}, {4, 16, 64}})
      ->Unit(benchmark::kMicrosecond)
      ->Complexity(benchmark::oN);
}

BENCHMARK_CAPTURE(graph_of_boost_anew, 1f1b, one_f_one_b, 1)->Apply(one_size);
BENCHMARK_CAPTURE(graph_of_boost, 1f1b, one_f_one_b, 1)->Apply(one_size);
BENCHMARK_CAPTURE(simulate_into, 1f1b, one_f_one_b, 1)->Apply(one_size);
BENCHMARK_CAPTURE(makespan_of, 1f1b, one_f_one_b, 1)->Apply(one_size);
BENCHMARK_CAPTURE(graph_of_boost, interleaved, interleaved_1f1b, 2)->Apply(one_size);
BENCHMARK_CAPTURE(makespan_of, interleaved, interleaved_1f1b, 2)->Apply(one_size);
BENCHMARK_CAPTURE(makespan_of, growing, one_f_one_b, 1)->Apply(growing);

}  // namespace
