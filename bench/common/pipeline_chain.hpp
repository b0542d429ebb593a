// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <chrono>
#include <thread>

/// Pipelines for the benchmarks of pipeline_runner, over threads and over MPI.
namespace bench {

/// A chain of stages on as many ranks, 1F1B, one sample in each microbatch.
struct pipeline_chain {
  pipeline_chain(std::size_t stages, std::size_t microbatches, ballast::tokens rows,
                 std::size_t width)
      : setup{ballast::process_grid::make({{1, static_cast<std::uint32_t>(stages), 1}}).value(),
              ballast::compiled_schedule::make(ballast::chain_of_stages(stages, stages),
                                               ballast::one_forward_one_backward{}, microbatches)
                  .value(),
              std::vector<std::size_t>(stages - 1, width)}
  {
    for (std::size_t b = 0; b < microbatches; ++b) {
      given.push_back(ballast::to_id<ballast::microbatch_id>(b));
    }
    plan.fill(setup, given, [rows](std::size_t, std::size_t) { return rows; });
  }

  ballast::pipeline_setup setup;
  ballast::pipeline_plan plan;
  std::vector<ballast::microbatch_id> given;
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
  static void sleep(ballast::time_units time)
  {
    std::this_thread::sleep_for(std::chrono::nanoseconds(time));
  }
};

struct empty_stage {
  void forward(ballast::forward_call const&) const {}
  void backward(ballast::backward_call const&) const {}
};

inline double quantile(std::vector<double> values, double share)
{
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// How true the simulator is: stages that sleep for drawn times, 1 to 20 ms forward and up to twice
/// that backward, in the given order and in that of a search. `over` is measured / simulated - 1,
/// in percent; `own_over` with what each task took instead of what it was to take, which leaves out
/// how late the system wakes a sleeper. Gains are those of the search, in percent.
class pipeline_truth {
 public:
  explicit pipeline_truth(std::size_t stages) : chain_(stages, 2 * stages, 16, 8) {}

  /// The next pipeline, which every rank draws.
  void draw()
  {
    using ballast::time_units;
    times_ = {chain_.setup.schedule.microbatches(), chain_.setup.schedule.stages().stages(),
              [this](std::size_t, std::size_t) {
                auto const forward = 1'000'000 + static_cast<time_units>(random_.below(19'000'000));
                auto const backward =
                    forward / 2 + static_cast<time_units>(random_.below(
                                      1 + 3 * static_cast<std::uint64_t>(forward) / 2));
                return ballast::stage_time{forward, std::max<time_units>(1'000'000, backward)};
              }};
    ballast::local_search<ballast::insertion> const search{.inner = {}, .evaluations = 2'000};
    found_ = ballast::order_microbatches(chain_.setup.schedule, times_, search).value();
  }

  /// Runs it on a rank in both orders; rank 0 notes what it has seen.
  template <class C>
  void run(C& comm)
  {
    auto const& schedule = chain_.setup.schedule;
    double steps[2] = {};
    for (std::size_t each = 0; each < 2; ++each) {
      auto const& order = each == 0 ? chain_.given : found_.order;
      auto runner = ballast::pipeline_runner<>::make(chain_.setup, comm.rank()).value();
      ballast::or_throw(runner.plan(chain_.plan));
      ballast::or_throw(runner.run(comm, order, sleeping_stage{times_}));
      auto const seen = ballast::measured_timeline(comm, schedule, runner.measured()).value();
      if (to_index(comm.rank()) > 0) { continue; }
      auto taken = times_;
      for (std::size_t task = 0; task < schedule.tasks().size(); ++task) {
        auto const& [position, stage, pass] = schedule.tasks()[task];
        auto& time = taken[order[position]][to_index(stage)];
        (pass == ballast::pass::forward ? time.forward : time.backward) =
            seen.end[task] - seen.start[task];
      }
      steps[each] = static_cast<double>(seen.makespan);
      auto const beside = [&](ballast::pipeline_times const& times) {
        auto const simulated = ballast::simulate(schedule, times, order).makespan;
        return 100 * (steps[each] / static_cast<double>(simulated) - 1);
      };
      over_.push_back(beside(times_));
      own_over_.push_back(beside(taken));
    }
    if (to_index(comm.rank()) > 0) { return; }
    gains_ += 100 * (1 - steps[1] / steps[0]);
    simulated_gains_ += 100 * (1 - static_cast<double>(found_.makespan) /
                                       static_cast<double>(found_.makespan_given));
  }

  template <class Counters>
  void report(Counters& counters) const
  {
    auto const count = static_cast<double>(over_.size() / 2);
    counters["median"] = quantile(over_, 0.5);
    counters["p99"] = quantile(over_, 0.99);
    counters["own_median"] = quantile(own_over_, 0.5);
    counters["own_p99"] = quantile(own_over_, 0.99);
    counters["gain"] = gains_ / count;
    counters["simulated_gain"] = simulated_gains_ / count;
  }

 private:
  pipeline_chain chain_;
  ballast::random_source random_{8};
  ballast::pipeline_times times_;
  ballast::order_plan found_;
  std::vector<double> over_;
  std::vector<double> own_over_;
  double gains_ = 0;
  double simulated_gains_ = 0;
};

}  // namespace bench
