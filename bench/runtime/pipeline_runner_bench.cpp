// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/insertion.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/pipeline_calls.hpp>
#include <ballast/runtime/pipeline_measurement.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::pipeline_runner;
using ballast::thread_communicator;
using ballast::time_units;
using ballast::to_id;
using ballast::to_index;

// A chain of stages on as many ranks, 1F1B, one sample in each microbatch.
struct bench_chain {
  bench_chain(std::size_t stages, std::size_t microbatches, ballast::tokens rows, std::size_t width)
      : setup{ballast::process_grid::make({{1, static_cast<std::uint32_t>(stages), 1}}).value(),
              schedule_of(stages, microbatches), std::vector<std::size_t>(stages - 1, width)}
  {
    for (std::size_t b = 0; b < microbatches; ++b) { given.push_back(to_id<microbatch_id>(b)); }
    plan.fill(setup, given, [rows](std::size_t, std::size_t) { return rows; });
  }

  static ballast::compiled_schedule schedule_of(std::size_t stages, std::size_t microbatches)
  {
    return ballast::compiled_schedule::make(ballast::chain_of_stages(stages, stages),
                                            ballast::one_forward_one_backward{}, microbatches)
        .value();
  }

  ballast::pipeline_setup setup;
  ballast::pipeline_plan plan;
  std::vector<microbatch_id> given;
};

struct sleeping_stage {
  ballast::pipeline_times const& times;

  void forward(ballast::forward_call const& call) const
  {
    sleep(times[call.microbatch][to_index(call.stage)].forward);
  }
  void backward(ballast::backward_call const& call) const
  {
    sleep(times[call.microbatch][to_index(call.stage)].backward);
  }
  static void sleep(time_units time)
  {
    std::this_thread::sleep_for(std::chrono::nanoseconds(time));
  }
};

struct empty_stage {
  void forward(ballast::forward_call const&) const {}
  void backward(ballast::backward_call const&) const {}
};

double quantile(std::vector<double> values, double share)
{
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// How true the simulator is: stages that sleep for drawn times, 1 to 20 ms forward and up to twice
// that backward. `over` is measured / simulated - 1, in percent; `own_` with what each task took
// instead of what it was to take, which leaves out how late the system wakes a sleeper.
void pipeline_truth(benchmark::State& state)
{
  auto const stages = static_cast<std::size_t>(state.range(0));
  std::size_t const microbatches = 2 * stages;
  bench_chain const chain(stages, microbatches, 16, 8);
  auto const& schedule = chain.setup.schedule;
  ballast::random_source random(8);
  std::vector<double> over;
  std::vector<double> own_over;
  double measured_gain = 0;
  double simulated_gain = 0;
  auto const pipelines = static_cast<std::size_t>(state.range(1));
  for (auto _ : state) {
    for (std::size_t pipeline = 0; pipeline < pipelines; ++pipeline) {
      ballast::pipeline_times const times(
          microbatches, stages, [&random](std::size_t, std::size_t) {
            auto const forward = 1'000'000 + static_cast<time_units>(random.below(19'000'000));
            auto const backward =
                forward / 2 + static_cast<time_units>(
                                  random.below(1 + 3 * static_cast<std::uint64_t>(forward) / 2));
            return ballast::stage_time{forward, std::max<time_units>(1'000'000, backward)};
          });
      ballast::local_search<ballast::insertion> const search{.inner = {}, .evaluations = 2'000};
      auto const found = ballast::order_microbatches(schedule, times, search).value();
      std::vector<double> steps;
      for (auto const& order : {chain.given, found.order}) {
        auto const simulated = ballast::simulate(schedule, times, order);
        ballast::run_ranks(stages, [&](thread_communicator& comm) {
          auto runner = pipeline_runner<>::make(chain.setup, comm.rank()).value();
          ballast::or_throw(runner.plan(chain.plan));
          ballast::or_throw(runner.run(comm, order, sleeping_stage{times}));
          auto const found_times =
              ballast::measured_timeline(comm, schedule, runner.measured()).value();
          if (to_index(comm.rank()) > 0) { return; }
          auto taken = times;
          for (std::size_t task = 0; task < schedule.tasks().size(); ++task) {
            auto const& [position, stage, pass] = schedule.tasks()[task];
            auto& time = taken[order[position]][to_index(stage)];
            (pass == ballast::pass::forward ? time.forward : time.backward) =
                found_times.end[task] - found_times.start[task];
          }
          auto const measured = static_cast<double>(found_times.makespan);
          steps.push_back(measured);
          over.push_back(100 * (measured / static_cast<double>(simulated.makespan) - 1));
          auto const own = ballast::simulate(schedule, taken, order);
          own_over.push_back(100 * (measured / static_cast<double>(own.makespan) - 1));
        });
      }
      measured_gain += 100 * (1 - steps[1] / steps[0]);
      simulated_gain += 100 * (1 - static_cast<double>(found.makespan) /
                                       static_cast<double>(found.makespan_given));
    }
  }
  auto const count = static_cast<double>(pipelines);
  state.counters["median"] = quantile(over, 0.5);
  state.counters["p99"] = quantile(over, 0.99);
  state.counters["own_median"] = quantile(own_over, 0.5);
  state.counters["own_p99"] = quantile(own_over, 0.99);
  state.counters["gain"] = measured_gain / count;
  state.counters["simulated_gain"] = simulated_gain / count;
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
  bench_chain const chain(stages, 64, 1, 16);
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
  bench_chain const chain(stages, 64, 1024, 1024);
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

BENCHMARK(pipeline_truth)
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
