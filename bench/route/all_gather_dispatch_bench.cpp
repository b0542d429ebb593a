#include "../../examples/common/baselines/all_gather_dispatch.hpp"
#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>

#include <chrono>
#include <cstddef>
#include <vector>

namespace {

using ballast::placement;
using ballast::rank_id;
using ballast::thread_communicator;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t dispatched_row_bytes = 2048;  // bf16, width 1024

// One step over a node: where its tokens are read, and where a balanced plan wants them.
struct balanced_step {
  ballast::cluster machines;
  placement read;
  placement computed;

  explicit balanced_step(std::size_t ranks) : machines(ballast::cluster_of(ranks, ranks).value())
  {
    std::size_t const samples = 8 * ranks;
    auto const lengths = bench::lognormal_lengths(samples, 1.0, /*seed=*/42);
    std::vector<rank_id> source;
    for (std::size_t sample = 0; sample < samples; ++sample) {
      source.push_back(ballast::to_id<rank_id>(sample * ranks / samples));
    }
    auto const bags = ballast::one_gpu_bags(ranks);
    auto const plan = ballast::partition(lengths, bags, bench::transformer_cost(), {},
                                         ballast::longest_processing_time{})
                          .value();
    ballast::place(read, lengths, source, ranks);
    ballast::place(computed, lengths, plan.owner, bags);
  }
};

// Seconds of one exchange in the steady state, from all ranks ready to all ranks done.
template <class Exchange>
double exchange_seconds(balanced_step const& step, Exchange const& exchange)
{
  constexpr int exchanges = 8;
  auto const seconds = ballast::run_ranks(step.machines.gpus(), [&](thread_communicator& comm) {
    std::vector<std::byte> const before(
        static_cast<std::size_t>(step.read.rows(comm.rank())) * dispatched_row_bytes, std::byte{1});
    std::vector<std::byte> after(static_cast<std::size_t>(step.computed.rows(comm.rank())) *
                                 dispatched_row_bytes);
    auto const plan = ballast::plan_route(step.read, step.computed, comm.rank());
    ballast::workspace memory;
    auto const once = [&] {
      return exchange(comm, plan, memory, ballast::rows_of(before, after, dispatched_row_bytes))
          .and_then([&] { return comm.barrier(); })
          .has_value();
    };
    bool done = once();  // touches the memory
    auto const start = clock_type::now();
    for (int repeat = 0; repeat < exchanges; ++repeat) { done = once() && done; }
    benchmark::DoNotOptimize(done);
    benchmark::DoNotOptimize(after.data());
    return std::chrono::duration<double>(clock_type::now() - start).count() / exchanges;
  });
  return seconds.front();
}

void report(benchmark::State& state, ballast::route_volume::cost const& cost)
{
  state.counters["sent_MB_per_rank"] = cost.bytes_mean / 1e6;
  state.counters["extra_MB_per_rank"] = cost.memory_bytes / 1e6;
}

void route(benchmark::State& state)
{
  balanced_step const step(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    state.SetIterationTime(exchange_seconds(
        step,
        [](thread_communicator& comm, ballast::route_plan const& plan, ballast::workspace& memory,
           ballast::row_array const& rows) { return ballast::route(comm, plan, memory, rows); }));
  }
  report(state, ballast::measure_route(step.read, step.computed, step.machines)
                    .price(step.machines, dispatched_row_bytes));
}

// Baseline: everyone gathers everything and keeps what is its own.
void all_gather_dispatch(benchmark::State& state)
{
  balanced_step const step(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    state.SetIterationTime(
        exchange_seconds(step, [&](thread_communicator& comm, ballast::route_plan const&,
                                   ballast::workspace&, ballast::row_array const& rows) {
          return baselines::all_gather_dispatch(comm, step.read, step.computed, rows);
        }));
  }
  report(state, baselines::price_all_gather(step.read, step.machines, dispatched_row_bytes));
}

BENCHMARK(route)->ArgName("ranks")->Arg(8)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(all_gather_dispatch)
    ->ArgName("ranks")
    ->Arg(8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
