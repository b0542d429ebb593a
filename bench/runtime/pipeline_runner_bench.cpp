// SPDX-License-Identifier: Apache-2.0
#include "../common/pipeline_chain.hpp"  // defines: bench::{pipeline_truth, pipeline_chain, ...}

#include <benchmark/benchmark.h>
#include <ballast/comm/communicator.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/runtime/pipeline_runner.hpp>

#include <chrono>
#include <ctime>

namespace {

using ballast::pipeline_runner;
using ballast::thread_communicator;
using ballast::to_id;
using ballast::to_index;

using bench::empty_stage;
using bench::pipeline_chain;
using bench::quantile;

// How true the simulator is, by bench::pipeline_truth.
void runner_truth(benchmark::State& state)
{
  auto const stages = static_cast<std::size_t>(state.range(0));
  bench::pipeline_truth truth(stages);
  for (auto _ : state) {
    for (auto left = state.range(1); left > 0; --left) {
      truth.draw();
      ballast::run_ranks(stages, [&](thread_communicator& comm) { truth.run(comm); });
    }
  }
  truth.report(state.counters);
}

// The same bytes by bare sends, in the order of the same tasks, from and to as many arrays as 1F1B
// keeps.
void send_bare(thread_communicator& comm, ballast::compiled_schedule const& schedule,
               std::vector<std::vector<std::byte>>& arrays)
{
  using ballast::pass;
  std::size_t const own = to_index(comm.rank());
  std::size_t const last = comm.size() - 1;
  std::vector<ballast::transfer_id> sends;
  std::size_t next = 0;
  for (std::uint32_t const number : schedule.tasks_on(to_id<ballast::pipeline_rank>(own))) {
    bool const forward = schedule.tasks()[number].pass == pass::forward;
    std::size_t const from = forward ? own - 1 : own + 1;
    std::size_t const to = forward ? own + 1 : own - 1;
    if (forward ? own > 0 : own < last) {
      auto& array = arrays[next++ % arrays.size()];
      auto const came = comm.receive(array, to_id<ballast::rank_id>(from)).value();
      ballast::or_throw(comm.wait_for(came));
    }
    if (forward ? own < last : own > 0) {
      auto& array = arrays[next++ % arrays.size()];
      sends.push_back(comm.send(array, to_id<ballast::rank_id>(to)).value());
    }
  }
  for (auto const each : sends) { ballast::or_throw(comm.wait_for(each)); }
}

// What the runner costs: stages that do nothing, messages of 16 bytes. `us_per_task` is processor
// time of all ranks over all tasks, `us_per_task_waiting` the time of a step over a rank's tasks;
// `bare_` the same of nothing but the sends.
void pipeline_overhead(benchmark::State& state)
{
  auto const stages = static_cast<std::size_t>(state.range(0));
  pipeline_chain const chain(stages, 64, 1, 16);
  constexpr int steps = 50;
  for (auto _ : state) {
    ballast::run_ranks(stages, [&](thread_communicator& comm) {
      auto runner = pipeline_runner<>::make(chain.setup, comm.rank()).value();
      ballast::or_throw(runner.plan(chain.plan));
      std::vector<std::vector<std::byte>> arrays(2 * stages, std::vector<std::byte>(16));
      auto const timed = [&](std::string const& name, auto const& work) {
        for (int warm_up = 0; warm_up < 5; ++warm_up) { work(); }
        ballast::or_throw(comm.barrier());
        std::clock_t const begin = std::clock();
        auto const start = std::chrono::steady_clock::now();
        ballast::or_throw(comm.barrier());
        for (int step = 0; step < steps; ++step) { work(); }
        ballast::or_throw(comm.barrier());
        std::chrono::duration<double> const wall = std::chrono::steady_clock::now() - start;
        double const cpu = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
        ballast::or_throw(comm.barrier());
        if (to_index(comm.rank()) > 0) { return; }
        constexpr double tasks = 128 * steps;
        state.counters[name] = 1e6 * cpu / tasks / static_cast<double>(stages);
        state.counters[name + "_waiting"] = 1e6 * wall.count() / tasks;
      };
      timed("us_per_task",
            [&] { ballast::or_throw(runner.run(comm, chain.given, empty_stage{})); });
      timed("bare_us_per_task", [&] { send_bare(comm, chain.setup.schedule, arrays); });
    });
  }
}

// A step of 64 microbatches of 1 MB on 8 stages, beside bare sends of the same bytes. `ratio` is
// that of the medians of 20 of each, in turn.
void pipeline_beside_sends(benchmark::State& state)
{
  constexpr std::size_t stages = 8;
  pipeline_chain const chain(stages, 64, 1024, 1024);
  std::vector<double> run;
  std::vector<double> bare;
  for (auto _ : state) {
    ballast::run_ranks(stages, [&](thread_communicator& comm) {
      auto runner = pipeline_runner<>::make(chain.setup, comm.rank()).value();
      ballast::or_throw(runner.plan(chain.plan));
      std::size_t const kept = 2 * (stages - to_index(comm.rank())) + 3;
      std::vector<std::vector<std::byte>> arrays(kept, std::vector<std::byte>(1 << 20));
      auto const timed = [&](std::vector<double>& times, auto const& work) {
        ballast::or_throw(comm.barrier());
        auto const start = std::chrono::steady_clock::now();
        work();
        ballast::or_throw(comm.barrier());
        if (to_index(comm.rank()) > 0) { return; }
        times.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      };
      for (int turn = 0; turn < 20; ++turn) {
        timed(run, [&] { ballast::or_throw(runner.run(comm, chain.given, empty_stage{})); });
        timed(bare, [&] { send_bare(comm, chain.setup.schedule, arrays); });
      }
    });
  }
  state.counters["ms"] = 1e3 * quantile(run, 0.5);
  state.counters["ms_bare"] = 1e3 * quantile(bare, 0.5);
  state.counters["ratio"] = quantile(run, 0.5) / quantile(bare, 0.5);
}

BENCHMARK(runner_truth)
    ->Name("pipeline_runner/truth")
    ->ArgNames({"stages", "pipelines"})
    ->Args({8, 300})
    ->Args({16, 100})
    ->Iterations(1)
    ->UseRealTime();
BENCHMARK(pipeline_overhead)
    ->Name("pipeline_runner/overhead")
    ->ArgName("stages")
    ->Arg(1)
    ->Arg(2)
    ->Arg(8)
    ->Iterations(1)
    ->UseRealTime();
BENCHMARK(pipeline_beside_sends)
    ->Name("pipeline_runner/beside_sends")
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
