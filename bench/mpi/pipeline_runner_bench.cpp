// SPDX-License-Identifier: Apache-2.0
// mpirun -np 8 ballast_mpi_bench: pipelines whose ranks are processes. They poll while they wait, so
// that where cores are fewer than processes, figures say more of the machine than of the runner.

#include "../common/pipeline_chain.hpp"  // defines: bench::{pipeline_truth, pipeline_chain, ...}

#include <benchmark/benchmark.h>
#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/runtime/pipeline_runner.hpp>

#include <mpi.h>

namespace {

void mpi_pipeline_truth(benchmark::State& state)
{
  auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD).value();
  bench::pipeline_truth truth(comm.size());
  for (auto _ : state) {
    for (auto left = state.range(0); left > 0; --left) {
      truth.draw();
      truth.run(comm);
    }
  }
  if (to_index(comm.rank()) == 0) { truth.report(state.counters); }
}

// Microseconds of a step over a rank's tasks: stages that do nothing, messages of 16 bytes.
void mpi_pipeline_overhead(benchmark::State& state)
{
  auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD).value();
  bench::pipeline_chain const chain(comm.size(), 64, 1, 16);
  auto runner = ballast::pipeline_runner<>::make(chain.setup, comm.rank()).value();
  ballast::or_throw(runner.plan(chain.plan));
  std::vector<double> steps;
  for (auto _ : state) {
    ballast::or_throw(comm.barrier());
    double const start = MPI_Wtime();
    ballast::or_throw(runner.run(comm, chain.given, bench::empty_stage{}));
    ballast::or_throw(comm.barrier());
    steps.push_back(MPI_Wtime() - start);
  }
  state.counters["us_per_task_waiting"] = 1e6 * bench::quantile(steps, 0.5) / 128;
}

BENCHMARK(mpi_pipeline_truth)
    ->Name("pipeline_runner/mpi/truth")
    ->ArgName("pipelines")
    ->Arg(10)
    ->Iterations(1)
    ->UseRealTime();
BENCHMARK(mpi_pipeline_overhead)
    ->Name("pipeline_runner/mpi/overhead")
    ->Iterations(30)
    ->UseRealTime();

}  // namespace
