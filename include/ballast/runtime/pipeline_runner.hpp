// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PIPELINE_RUNNER_HPP
#define BALLAST_RUNTIME_PIPELINE_RUNNER_HPP

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/message_array.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/random.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/runtime/detail/pipeline/coming_messages.hpp>
#include <ballast/runtime/detail/pipeline/link_routes.hpp>
#include <ballast/runtime/detail/pipeline/link_traffic.hpp>
#include <ballast/runtime/detail/pipeline/message_pool.hpp>
#include <ballast/runtime/detail/pipeline/pipeline_job.hpp>
#include <ballast/runtime/detail/pipeline/step_report.hpp>
#include <ballast/runtime/detail/pipeline/task_arrays.hpp>
#include <ballast/runtime/detail/thrown_text.hpp>
#include <ballast/runtime/pipeline_calls.hpp>
#include <ballast/runtime/pipeline_measurement.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// A communicator that a pipeline runs over: pairs of ranks exchange rows, and all of them compare
/// what they are about to do, and what came of it.
template <class C>
concept pipeline_communicator = communicator<C> && point_to_point<C>;

/// Carries out the schedule of a pipeline, for any order of its microbatches: each rank computes
/// its tasks in their order, and rows and gradients go from stage to stage.
///
///     auto runner = pipeline_runner<>::make({grid, schedule, row_bytes}, comm.rank()).value();
///     or_throw(runner.plan(samples));                 // every step
///     or_throw(runner.run(comm, order, stage));       // computes gradients
///     runner.loss();                                  // of the step, the same on every rank
///
/// Expects     all ranks call the same functions with the same plan and order. The communicator's
///             sends do not wait for their receivers, also the first: threads, MPI, and NCCL by
///             `nccl_pairs`; it has no transfers of others under way between the same ranks.
///             `Allocator` allocates memory that it reaches; that of the device by
///             device_allocator, where arrays are the device's, and calls only queue work.
/// Ensures     (1) every stage is given the same rows, and returns the same gradients, whatever the
///                 schedule, the order and the strategy: a stage that adds up its gradients by
///                 microbatch number has the same bits for all of them
///             (2) a rank waits only for what its next task needs; receives are begun before the
///                 task `setup.ahead` tasks earlier, and no sender waits for its receiver
///             (3) no schedule that compiles deadlocks
///             (4) rows that have come stay until their backward has returned: the memory of
///                 activation_memory, what is received ahead, and what was sent and has not gone
///             (5) nothing is allocated once steps were as large and as many sends were under way
/// Errors      mismatch, on every rank, before anything moves: setup, plan or order differ.
///             infeasible or out_of_range, before anything moves: plan() was not called, the order
///             is no permutation, or the runner is another rank's; others get a mismatch then.
///             failed, on every rank: a stage threw; the step was carried to its end without
///             computing, and the next one can run. Those of the communicator: it is broken, and
///             the runner can be used with a new one.
/// Complexity  beside the stages, O(tasks + messages log messages) and one copy of the rows where
///             they are cut for several replicas, else none.
template <class Allocator = std::allocator<std::byte>>
class pipeline_runner {
 public:
  /// Errors   infeasible: the grid has another number of pipeline ranks than the schedule, or
  ///          row_bytes another number of entries than there are links; out_of_range: a width of 0,
  ///          or a rank that the grid does not have.
  [[nodiscard]] static result<pipeline_runner> make(pipeline_setup setup, rank_id rank,
                                                    Allocator const& allocator = Allocator())
  {
    auto job =
        detail::pipeline_job::make(std::move(setup), rank, !detail::remote_memory<Allocator>);
    if (!job) { return tl::unexpected(job.error()); }
    return pipeline_runner(*std::move(job), allocator);
  }

  /// Takes over the samples of a step. They serve for steps until the next plan.
  ///
  /// Errors   infeasible or out_of_range: the plan is not for this grid and schedule.
  [[nodiscard]] result<void> plan(pipeline_plan const& samples)
  {
    return routes_.plan(job_, samples);
  }

  /// Trains on all microbatches of the schedule: position k has order[k].
  template <pipeline_communicator C, trained_stage Stage>
  [[nodiscard]] result<void> run(C& comm, std::span<microbatch_id const> order, Stage&& stage)
  {
    return step<true>(comm, order, stage);
  }

  /// Only forward, on the microbatches of the order, which may be fewer than the schedule's.
  template <pipeline_communicator C, forward_stage Stage>
  [[nodiscard]] result<void> evaluate(C& comm, std::span<microbatch_id const> order, Stage&& stage)
  {
    return step<false>(comm, order, stage);
  }

  /// What the forwards of the last step returned, added up in the order of microbatches, stages and
  /// replicas; of tensor ranks the first counts.
  [[nodiscard]] double loss() const noexcept { return loss_; }

  /// What this rank computed in the last step, and when.
  [[nodiscard]] std::span<measured_task const> measured() const noexcept
  {
    return detail::span_of(measured_);
  }

  [[nodiscard]] pipeline_setup const& setup() const noexcept { return job_.setup(); }

  /// The memory of all messages.
  [[nodiscard]] std::size_t message_bytes() const { return memory_.bytes(); }

 private:
  using clock = std::chrono::steady_clock;
  using blocks = detail::message_pool<Allocator>;
  using arrays = detail::task_arrays<Allocator>;

  pipeline_runner(detail::pipeline_job job, Allocator const& allocator)
      : job_(std::move(job)), memory_(allocator)
  {
    arrays_.start(job_);
  }

  template <class C>
  [[nodiscard]] result<void> check(C const& comm, std::span<microbatch_id const> order, bool trains)
  {
    if (comm.size() != job_.grid().ranks() || comm.rank() != job_.self()) {
      return fail(error_code::infeasible, to_index(comm.rank()), "the runner was made for rank ",
                  job_.self(), " of a grid of ", job_.grid().ranks(),
                  ", and the communicator is that of rank ", comm.rank(), " of ", comm.size(),
                  "; give make() the grid of all ranks and the communicator's rank");
    }
    std::size_t const positions = job_.schedule().microbatches();
    if (trains ? order.size() != positions : order.size() > positions) {
      return fail(error_code::infeasible, order.size(), "an order of ",
                  detail::counted(order.size(), "microbatch"), " was given for a schedule of ",
                  positions, trains ? "" : "; evaluate as many at most");
    }
    seen_.assign(routes_.microbatches(), false);
    for (std::size_t at = 0; at < order.size(); ++at) {
      if (to_index(order[at]) >= seen_.size()) {
        return fail(error_code::out_of_range, at, "position ", at, " of the order has microbatch ",
                    order[at], " of a plan of ", seen_.size(), "; plan the step first");
      }
      if (seen_[to_index(order[at])]) {
        return fail(error_code::infeasible, at, "position ", at, " of the order has microbatch ",
                    order[at], " again; give each once");
      }
      seen_[to_index(order[at])] = true;
    }
    return {};
  }

  template <bool Trains, class C, class Stage>
  [[nodiscard]] result<void> step(C& comm, std::span<microbatch_id const> order, Stage& stage)
  {
    auto const sound = check(comm, order, Trains);
    digest word;
    word.add(job_.word()).add(routes_.word()).add(Trains ? 1U : 0U).add(order);
    word.add(sound ? 0 : 1 + std::uint64_t{to_index(comm.rank())});  // so that the others learn
    auto agreed = agree(comm, word.value(), "the schedule, the plan or the order of the pipeline");
    if (!sound || !agreed) { return sound ? agreed : sound; }
    begin_ = clock::now();
    arrays_.list_tasks(job_, order.size(), Trains);
    coming_.list(
        job_, routes_, order,
        [this](stage_id of, pass direction, std::size_t position) {
          return arrays_.number_of(job_, of, direction, position);
        },
        [&](pipeline_task const& each) { return arrays::includes(each, order.size(), Trains); },
        arrays_.tasks().size());
    report_.start(job_, order.size());
    measured_.clear();
    detail::link_traffic<C, Allocator> traffic(comm, job_, routes_, memory_, coming_);
    spoilt_ = false;
    result<void> done;
    auto const thrown = detail::thrown_by([&] {
      for (std::size_t task = 0; task < arrays_.tasks().size() && done; ++task) {
        done = traffic.post(task + job_.setup().ahead);
        if (done) { done = compute<Trains>(traffic, task, order, stage); }
        if (done) { done = memory_.collect_sent(comm); }
      }
      if (done) { done = memory_.finish_sends(comm); }
    });
    if (thrown || !done) { traffic.abandon(); }
    if (thrown) { std::rethrow_exception(thrown); }
    if (!done) { return done; }
    auto const sum = report_.exchange(comm, job_, order);
    if (!sum) { return tl::unexpected(sum.error()); }
    loss_ = *sum;
    return {};
  }

  /// One task: brings what it needs, computes it, carries off what it makes.
  template <bool Trains, class Traffic, class Stage>
  [[nodiscard]] result<void> compute(Traffic& traffic, std::size_t number,
                                     std::span<microbatch_id const> order, Stage& stage)
  {
    pipeline_task const task = job_.schedule().tasks()[arrays_.tasks()[number]];
    bool const forward = task.pass == pass::forward;
    typename Traffic::occasion at{number, 0, order[task.position], forward};
    if (auto done = arrays_.bring(traffic, job_, memory_, task, at, spoilt_); !done) {
      return done;
    }
    arrays_.make_room(job_, routes_, memory_, task, at.microbatch);
    std::int64_t const start = now();
    std::size_t const chunk = job_.chunk_of(task.stage);
    if (forward) {
      bool const keeps = Trains && job_.stages()[task.stage].backward;
      guarded(task, at.microbatch, [&] {
        forward_call const call{at.microbatch, task.stage,       chunk,
                                keeps,         arrays_.inputs(), arrays_.outputs()};
        if constexpr (std::is_void_v<decltype(stage.forward(call))>) {
          stage.forward(call);
        } else {
          report_.add_loss(chunk, task.position, static_cast<double>(stage.forward(call)));
        }
      });
      if (auto done = arrays_.carry(traffic, job_, memory_, task, at, spoilt_); !done) {
        return done;
      }
      if (!keeps) { arrays_.drop_inputs(job_, memory_, task); }
    } else if constexpr (Trains) {
      backward_call call{at.microbatch,    task.stage,          chunk,
                         arrays_.inputs(), arrays_.gradients(), arrays_.outputs()};
      guarded(task, at.microbatch, [&] {
        if constexpr (split_backward_stage<Stage>) {
          stage.backward_inputs(call);
        } else {
          stage.backward(call);
        }
      });
      if (auto done = arrays_.carry(traffic, job_, memory_, task, at, spoilt_); !done) {
        return done;
      }
      if constexpr (split_backward_stage<Stage>) {
        call.input_gradients = {};  // which have left
        guarded(task, at.microbatch, [&] { stage.backward_weights(call); });
      }
      arrays_.drop_inputs(job_, memory_, task);
    }
    measured_.push_back({arrays_.tasks()[number], at.microbatch, start, now()});
    return {};
  }

  /// Calls the stage, unless the step has come to nothing already.
  template <class Call>
  void guarded(pipeline_task const& task, microbatch_id microbatch, Call const& call)
  {
    if (spoilt_) { return; }
    if (auto const thrown = detail::thrown_by(call)) {
      spoilt_ = true;
      report_.threw(detail::concat("rank ", job_.self(), " threw in the ",
                                   task.pass == pass::forward ? "forward" : "backward",
                                   " of microbatch ", microbatch, " on stage ", task.stage, ": ",
                                   detail::thrown_text(thrown)));
    }
  }

  [[nodiscard]] std::int64_t now() const
  {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - begin_).count();
  }

  detail::pipeline_job job_;
  detail::link_routes routes_;
  detail::coming_messages coming_;
  blocks memory_;
  arrays arrays_;
  detail::step_report report_;
  std::vector<bool> seen_;
  std::vector<measured_task> measured_;
  clock::time_point begin_;
  double loss_ = 0;
  bool spoilt_ = false;  // whether the step has come to nothing
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PIPELINE_RUNNER_HPP
