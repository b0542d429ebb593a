// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/link_traffic.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

#include <chrono>
#include <memory>

namespace ballast::inline v0 {

namespace detail {

/// What the ranks tell each other at the end of a step: their losses, and whether a stage threw.
class step_report {
 public:
  void start(pipeline_job const& job, std::size_t positions)
  {
    positions_ = positions;
    losses_.assign(job.most_chunks() * positions, 0.0);
    threw_ = false;
  }

  void add_loss(std::size_t chunk, std::size_t position, double loss)
  {
    losses_[chunk * positions_ + position] += loss;
  }

  void threw(std::string const& text)
  {
    if (threw_) { return; }
    threw_ = true;
    text_ = told_text(text);
  }

  /// The sum of all losses, in the order of microbatches, then stages, then replicas: so it does
  /// not depend on the order of the step.
  ///
  /// Errors   failed: a stage threw; `ranks` are where.
  [[nodiscard]] BALLAST_ONCE result<double> exchange(any_communicator comm, pipeline_job const& job,
                                                     std::span<microbatch_id const> order);

 private:
  /// What the first of the ranks says where a stage threw.
  [[nodiscard]] tl::unexpected<error> tell(any_communicator comm, std::vector<rank_id> ranks) const
  {
    auto const texts =
        gather_with_word<told_text>(comm, 0, 1, [this](std::size_t) { return text_; });
    if (!texts) { return tl::unexpected(texts.error()); }
    std::string message((*texts)(to_index(ranks.front())).bytes.data());
    message += "; the step came to nothing, and the next one can run";
    return comm_failure::with_ranks(error_code::failed, std::move(message), std::move(ranks));
  }

  std::size_t positions_ = 0;
  std::vector<double> losses_;  // most chunks x positions
  bool threw_ = false;
  told_text text_;  // what was thrown where
  std::vector<std::uint32_t> by_microbatch_;
};

/// The bytes of one link as elements.
template <class T, class Byte>
[[nodiscard]] auto rows_as(std::span<std::span<Byte> const> arrays, std::size_t link)
{
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);
  using element = std::conditional_t<std::is_const_v<Byte>, T const, T>;
  BALLAST_EXPECTS(link < arrays.size(), "link ", link, " of a stage of ", arrays.size());
  std::span<Byte> const bytes = arrays[link];
  BALLAST_EXPECTS(bytes.size() % sizeof(T) == 0, "link ", link, " has ",
                  counted(bytes.size(), "byte"), ", which are no whole elements of ", sizeof(T));
  return std::span<element>(reinterpret_cast<element*>(bytes.data()), bytes.size() / sizeof(T));
}

}  // namespace detail

/// What a stage is given to compute forward: the rows that have come over the links into it, and
/// room for the rows that leave over the links out of it, each in the order of
/// stage_graph::links_into and links_out_of. A link has the rows of this replica's samples of the
/// microbatch, in increasing order.
///
/// Rows are aligned to 16 bytes. Those that leave have unspecified content; those that have come
/// stay until the backward has returned.
struct forward_call {
  microbatch_id microbatch{};
  stage_id stage{};
  std::size_t chunk = 0;     ///< the stage's place among those of its rank
  bool for_backward = true;  ///< false where no backward will follow
  std::span<std::span<std::byte const> const> inputs;
  std::span<std::span<std::byte> const> outputs;

  template <class T>
  [[nodiscard]] std::span<T const> input(std::size_t link = 0) const
  {
    return detail::rows_as<T>(inputs, link);
  }
  template <class T>
  [[nodiscard]] std::span<T> output(std::size_t link = 0) const
  {
    return detail::rows_as<T>(outputs, link);
  }
};

/// What a stage is given to compute backward: its inputs again, the gradients of its outputs, and
/// room for those of its inputs, which is empty where nothing upstream is trained.
struct backward_call {
  microbatch_id microbatch{};
  stage_id stage{};
  std::size_t chunk = 0;
  std::span<std::span<std::byte const> const> inputs;
  std::span<std::span<std::byte const> const> output_gradients;
  std::span<std::span<std::byte> const> input_gradients;

  template <class T>
  [[nodiscard]] std::span<T const> input(std::size_t link = 0) const
  {
    return detail::rows_as<T>(inputs, link);
  }
  template <class T>
  [[nodiscard]] std::span<T const> output_gradient(std::size_t link = 0) const
  {
    return detail::rows_as<T>(output_gradients, link);
  }
  template <class T>
  [[nodiscard]] std::span<T> input_gradient(std::size_t link = 0) const
  {
    return detail::rows_as<T>(input_gradients, link);
  }
};

/// What a pipeline_runner computes on a rank. forward returns nothing, or the microbatch's loss in
/// a stage that has one.
template <class S>
concept forward_stage = requires(S& stage, forward_call const& call) {
  requires std::is_void_v<decltype(stage.forward(call))> ||
               std::convertible_to<decltype(stage.forward(call)), double>;
};

namespace detail {

template <class S>
concept split_backward_stage = requires(S& stage, backward_call const& call) {
  stage.backward_inputs(call);
  stage.backward_weights(call);
};

}  // namespace detail

/// A stage that can be trained. Its backward may be in two parts: backward_inputs, which gives the
/// gradients of its inputs, and they leave at once, and backward_weights, which comes right behind it
/// or, where the schedule has a weights pass for it, then. It has to be in two parts there.
template <class S>
concept trained_stage =
    forward_stage<S> && (detail::split_backward_stage<S> ||
                         requires(S& stage, backward_call const& call) { stage.backward(call); });

/// When a rank computed one of its tasks, from the start of its step.
struct measured_task {
  std::uint32_t task = 0;  ///< its number in compiled_schedule::tasks()
  microbatch_id microbatch{};
  std::int64_t start_ns = 0;  ///< all its rows had come
  std::int64_t end_ns = 0;

  friend bool operator==(measured_task const&, measured_task const&) = default;
};

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
  template <communicator C, trained_stage Stage>
    requires point_to_point<C>
  [[nodiscard]] result<void> run(C& comm, std::span<microbatch_id const> order, Stage&& stage)
  {
    return step<true>(comm, order, stage, detail::split_backward_stage<Stage>);
  }

  /// Only forward, on the microbatches of the order, which may be fewer than the schedule's.
  template <communicator C, forward_stage Stage>
    requires point_to_point<C>
  [[nodiscard]] result<void> evaluate(C& comm, std::span<microbatch_id const> order, Stage&& stage)
  {
    return step<false>(comm, order, stage, true);
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
  using block = typename blocks::block;

  pipeline_runner(detail::pipeline_job job, Allocator const& allocator)
      : job_(std::move(job)), memory_(allocator)
  {
    auto const stages = job_.stages().stages_on(job_.own_rank());
    for (bool const into : {false, true}) {
      std::size_t links = 0;
      for (stage_id const stage : stages) {
        first_[into].push_back(links);
        links += job_.links(stage, into).size();
      }
      arrays_[into].assign(links * positions(), blocks::none);
    }
    numbers_.resize(2 * stages.size() * positions());
  }

  [[nodiscard]] std::size_t positions() const { return job_.schedule().microbatches(); }

  [[nodiscard]] result<void> check(rank_id own, std::size_t ranks,
                                   std::span<microbatch_id const> order, bool trains, bool is_split)
  {
    for (stage_id const stage : job_.stages().stages_on(job_.own_rank())) {
      if (is_split || !job_.stages()[stage].weights) { continue; }
      return fail(error_code::infeasible, to_index(stage),
                  "the schedule has a weights pass for stage ", stage, ", and the stage of rank ",
                  own,
                  " has its backward in one part; give it backward_inputs and backward_weights");
    }
    if (ranks != job_.grid().ranks() || own != job_.self()) {
      return fail(error_code::infeasible, to_index(own), "the runner was made for rank ",
                  job_.self(), " of a grid of ", job_.grid().ranks(),
                  ", and the communicator is that of rank ", own, " of ", ranks,
                  "; give make() the grid of all ranks and the communicator's rank");
    }
    if (trains ? order.size() != positions() : order.size() > positions()) {
      return fail(error_code::infeasible, order.size(), "an order of ",
                  detail::counted(order.size(), "microbatch"), " was given for a schedule of ",
                  positions(), trains ? "" : "; evaluate as many at most");
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
  [[nodiscard]] result<void> step(C& comm, std::span<microbatch_id const> order, Stage& stage,
                                  bool is_split)
  {
    auto sound = check(comm.rank(), comm.size(), order, Trains, is_split);
    digest word;
    word.add(job_.word()).add(routes_.word()).add(Trains ? 1U : 0U).add(order);
    word.add(sound ? 0 : 1 + std::uint64_t{to_index(comm.rank())});  // so that the others learn
    auto agreed = agree(comm, word.value(), "the schedule, the plan or the order of the pipeline");
    if (!sound || !agreed) { return sound ? std::move(agreed) : std::move(sound); }
    begin_ = clock::now();
    auto const includes = [&order](pipeline_task const& each) {
      return each.position < order.size() && (Trains || each.pass == pass::forward);
    };
    list_tasks(includes);
    coming_.list(
        job_, routes_, order,
        [this](stage_id of, pass direction, std::size_t position) {
          return number_of(of, direction, position);
        },
        includes, tasks_.size());
    report_.start(job_, order.size());
    measured_.clear();
    detail::link_traffic<C, Allocator> traffic(comm, job_, routes_, memory_, coming_);
    spoilt_ = false;
    result<void> done;
    auto const thrown = detail::thrown_by([&] {
      for (std::size_t task = 0; task < tasks_.size() && done; ++task) {
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
    pipeline_task const task = job_.schedule().tasks()[tasks_[number]];
    if (task.pass == pass::weights) {
      make_room(task, order[task.position]);
      std::int64_t const begun = now();
      compute_weights(task, order[task.position], stage);
      measured_.push_back({tasks_[number], order[task.position], begun, now()});
      return {};
    }
    bool const forward = task.pass == pass::forward;
    typename Traffic::occasion at{number, 0, order[task.position], forward};
    if (auto done = bring(traffic, task, at); !done) { return done; }
    make_room(task, at.microbatch);
    std::int64_t const start = now();
    std::size_t const chunk = job_.chunk_of(task.stage);
    if (forward) {
      bool const keeps = Trains && job_.stages()[task.stage].backward;
      guarded(task, at.microbatch, [&] {
        forward_call const call{at.microbatch,
                                task.stage,
                                chunk,
                                keeps,
                                detail::span_of(input_rows_),
                                detail::span_of(made_rows_)};
        if constexpr (std::is_void_v<decltype(stage.forward(call))>) {
          stage.forward(call);
        } else {
          report_.add_loss(chunk, task.position, static_cast<double>(stage.forward(call)));
        }
      });
      if (auto done = carry(traffic, task, at); !done) { return done; }
      if (!keeps) { drop_inputs(task); }
    } else if constexpr (Trains) {
      backward_call const call{at.microbatch,
                               task.stage,
                               chunk,
                               detail::span_of(input_rows_),
                               detail::span_of(gradient_rows_),
                               detail::span_of(made_rows_)};
      guarded(task, at.microbatch, [&] {
        if constexpr (detail::split_backward_stage<Stage>) {
          stage.backward_inputs(call);
        } else {
          stage.backward(call);
        }
      });
      if (auto done = carry(traffic, task, at); !done) { return done; }
      if (!job_.stages()[task.stage].weights) { compute_weights(task, at.microbatch, stage); }
    }
    measured_.push_back({tasks_[number], at.microbatch, start, now()});
    return {};
  }

  /// The gradients of weights, where a stage has them apart, and the last use of its rows.
  template <class Stage>
  void compute_weights(pipeline_task const& task, microbatch_id microbatch, Stage& stage)
  {
    if constexpr (detail::split_backward_stage<Stage>) {
      backward_call const call{microbatch,
                               task.stage,
                               job_.chunk_of(task.stage),
                               detail::span_of(input_rows_),
                               detail::span_of(gradient_rows_),
                               {}};  // they have left
      guarded(task, microbatch, [&] { stage.backward_weights(call); });
    }
    drop_inputs(task);
  }

  /// The tasks of a step, by their numbers in the schedule.
  template <class Includes>
  void list_tasks(Includes const& includes)
  {
    for (auto& each : arrays_) { each.assign(each.size(), blocks::none); }
    tasks_.clear();
    for (std::uint32_t const number : job_.schedule().tasks_on(job_.own_rank())) {
      auto const& task = job_.schedule().tasks()[number];
      if (!includes(task)) { continue; }
      if (task.pass != pass::weights) {
        number_of(task.stage, task.pass, task.position) = tasks_.size();
      }
      tasks_.push_back(number);
    }
  }

  /// Brings the rows that a task needs: forward its inputs, backward the gradients of its outputs.
  template <class Traffic, class Occasion>
  [[nodiscard]] result<void> bring(Traffic& traffic, pipeline_task const& task, Occasion at)
  {
    auto const links = job_.links(task.stage, at.forward);
    for (std::size_t k = 0; k < links.size(); ++k) {
      block& array = array_of(task.stage, task.position, at.forward, k);
      if (!job_.is_local(links[k])) {
        at.link = job_.link(task.stage, at.forward, k);
        auto const found = traffic.bring(at);
        if (!found) { return tl::unexpected(found.error()); }
        array = *found;
      }
      spoilt_ = spoilt_ || memory_.is_spoilt(array);
    }
    return {};
  }

  /// Makes room for what a task makes: forward its outputs, backward the gradients of its inputs.
  void make_room(pipeline_task const& task, microbatch_id microbatch)
  {
    bool const forward = task.pass == pass::forward;
    auto const links = job_.links(task.stage, !forward);
    made_.clear();
    for (std::size_t k = 0; k < links.size() && task.pass != pass::weights; ++k) {
      std::size_t const link = job_.link(task.stage, !forward, k);
      bool const wanted = forward || job_.has_gradient(links[k]);
      auto const rows = wanted ? routes_.rows(link, microbatch, !forward) : 0;
      made_.push_back(memory_.take(static_cast<std::size_t>(rows) * setup().row_bytes[link]));
    }
    // Spans only now: blocks do not move any more until the stage has been called.
    input_rows_.clear();
    gradient_rows_.clear();
    made_rows_.clear();
    for (std::size_t k = 0; k < job_.links(task.stage, true).size(); ++k) {
      input_rows_.push_back(memory_.rows(array_of(task.stage, task.position, true, k)));
    }
    for (std::size_t k = 0; k < job_.links(task.stage, false).size() && !forward; ++k) {
      gradient_rows_.push_back(memory_.rows(array_of(task.stage, task.position, false, k)));
    }
    for (block const each : made_) { made_rows_.push_back(memory_.rows(each)); }
  }

  template <class Traffic, class Occasion>
  [[nodiscard]] result<void> carry(Traffic& traffic, pipeline_task const& task, Occasion at)
  {
    auto const links = job_.links(task.stage, !at.forward);
    for (std::size_t k = 0; k < links.size(); ++k) {
      memory_.set_spoilt(made_[k], spoilt_);
      if (!at.forward && !job_.has_gradient(links[k])) { continue; }
      at.link = job_.link(task.stage, !at.forward, k);
      if (!job_.is_local(links[k])) {
        if (auto done = traffic.carry(at, made_[k]); !done) { return done; }
        continue;
      }
      stage_id const other = at.forward ? links[k].to : links[k].from;
      auto const theirs = job_.links(other, at.forward);
      std::size_t there = 0;
      while ((at.forward ? theirs[there].from : theirs[there].to) != task.stage) { ++there; }
      array_of(other, task.position, at.forward, there) = made_[k];
    }
    return {};
  }

  /// Lets go of a task's inputs and of the gradients of its outputs.
  void drop_inputs(pipeline_task const& task)
  {
    for (bool const into : {true, false}) {
      for (std::size_t k = 0; k < job_.links(task.stage, into).size(); ++k) {
        memory_.drop(std::exchange(array_of(task.stage, task.position, into, k), blocks::none));
      }
    }
  }

  /// The number of a task among those of this rank in the step.
  [[nodiscard]] std::size_t& number_of(stage_id stage, pass direction, std::size_t position)
  {
    std::size_t const list = 2 * job_.chunk_of(stage) + (direction == pass::forward ? 0U : 1U);
    return numbers_[list * positions() + position];
  }
  /// An input of a stage, from when it comes until the backward ends, or the gradient of an output.
  [[nodiscard]] block& array_of(stage_id stage, std::size_t position, bool into, std::size_t k)
  {
    return arrays_[into][first_[into][job_.chunk_of(stage)] * positions() +
                         position * job_.links(stage, into).size() + k];
  }

  /// Calls the stage, unless the step has come to nothing already.
  template <class Call>
  void guarded(pipeline_task const& task, microbatch_id microbatch, Call const& call)
  {
    if (spoilt_) { return; }
    if (auto const thrown = detail::thrown_by(call)) {
      spoilt_ = true;
      report_.threw(detail::concat("rank ", job_.self(), " threw in the ",
                                   task.pass == pass::forward    ? "forward"
                                   : task.pass == pass::backward ? "backward"
                                                                 : "weights pass",
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
  detail::step_report report_;
  std::vector<std::uint32_t> tasks_;  // of this rank in the step
  std::vector<std::size_t> numbers_;  // of a task among them
  // Of links out of stages and of links into them:
  std::array<std::vector<std::size_t>, 2> first_;  // of each own stage: links of those before it
  std::array<std::vector<block>, 2> arrays_;       // gradients of outputs, and inputs
  std::vector<block> made_;                        // by the present task
  std::vector<std::span<std::byte const>> input_rows_;
  std::vector<std::span<std::byte const>> gradient_rows_;
  std::vector<std::span<std::byte>> made_rows_;
  std::vector<bool> seen_;
  std::vector<measured_task> measured_;
  clock::time_point begin_;
  double loss_ = 0;
  bool spoilt_ = false;  // whether the step has come to nothing
};

/// Tells every rank when all tasks of a step ran: what simulate() predicts, as it was measured.
///
///     auto const measured = measured_timeline(comm, schedule, runner.measured()).value();
///
/// A step starts on each rank when all have agreed to run it, so starts differ by what a collective
/// call takes. Of several replicas and tensor ranks, a task starts with the first and ends with the
/// last, and busy is what the busiest computes.
///
/// Units       nanoseconds.
/// Expects     every rank calls it, after a step of this schedule.
/// Ensures     tasks that no rank did, as the backwards of an evaluation, start and end at 0
/// Errors      mismatch, on every rank: schedules differ. Those of the communicator.
/// Complexity  one all_gather of 24 bytes for each task of the longest rank.
template <communicator C>
[[nodiscard]] result<pipeline_timeline> measured_timeline(C& comm,
                                                          compiled_schedule const& schedule,
                                                          std::span<measured_task const> own)
{
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
    most = std::max(most, schedule.tasks_on(to_id<pipeline_rank>(rank)).size());
  }
  BALLAST_EXPECTS(own.size() <= most, "a rank measured ", detail::counted(own.size(), "task"),
                  " of ", most);
  measured_task none;
  none.task = std::numeric_limits<std::uint32_t>::max();
  auto const all = detail::gather_alike<measured_task>(
      comm, "measured_timeline", {detail::word_of(schedule), "the schedule"},
      "give the schedule of the step", most,
      [&](std::size_t at) { return at < own.size() ? own[at] : none; });
  if (!all) { return tl::unexpected(all.error()); }

  pipeline_timeline timeline;
  std::size_t const tasks = schedule.tasks().size();
  timeline.start.assign(tasks, 0);
  timeline.end.assign(tasks, 0);
  timeline.busy.assign(schedule.stages().ranks(), 0);
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    time_units busy = 0;
    std::size_t computed_on = 0;
    for (std::size_t at = 0; at < most; ++at) {
      measured_task const each = (*all)(rank, at);
      if (each.task >= tasks) { continue; }
      bool const is_first = timeline.end[each.task] == 0;
      time_units& start = timeline.start[each.task];
      start = is_first ? each.start_ns : std::min(start, each.start_ns);
      timeline.end[each.task] = std::max(timeline.end[each.task], each.end_ns);
      timeline.makespan = std::max(timeline.makespan, each.end_ns);
      busy += each.end_ns - each.start_ns;
      computed_on = to_index(schedule.stages()[schedule.tasks()[each.task].stage].rank);
    }
    timeline.busy[computed_on] = std::max(timeline.busy[computed_on], busy);
  }
  return timeline;
}

/// How long each rank computed each microbatch, forward and backward: what
/// adaptive_correction::finish_step takes.
///
/// Shapes      returns [ranks x microbatches], ranks in the order of scheduled_step, microbatches
///             by their positions; 0 where a rank has computed none. Of tensor ranks the slowest
///             counts.
/// Units       nanoseconds.
/// Expects     every rank calls it, after a step of this schedule.
/// Errors      mismatch, on every rank: grids or schedules differ. Those of the communicator.
/// Complexity  one all_gather of 8 bytes for each microbatch.
template <communicator C>
[[nodiscard]] result<std::vector<time_units>> measured_microbatches(
    C& comm, process_grid const& grid, compiled_schedule const& schedule,
    std::span<measured_task const> own)
{
  BALLAST_EXPECTS(comm.size() == grid.ranks(), "a grid of ", detail::counted(grid.ranks(), "rank"),
                  " was given a communicator of ", comm.size());
  std::size_t const positions = schedule.microbatches();
  std::vector<time_units> computed(positions, 0);
  for (measured_task const& each : own) {
    computed[schedule.tasks()[each.task].position] += each.end_ns - each.start_ns;
  }
  auto const word = digest{}.add(detail::word_of(schedule)).add(detail::word_of(grid)).value();
  auto const all = detail::gather_alike<time_units>(
      comm, "measured_microbatches", {word, "the grid or the schedule"},
      "give the grid and the schedule of the step", positions,
      [&](std::size_t position) { return computed[position]; });
  if (!all) { return tl::unexpected(all.error()); }

  std::uint32_t groups = 0;
  for (std::uint32_t module = 0; module < grid.size(); ++module) {
    groups = std::gcd(groups, grid[module].data);
  }
  std::vector<std::size_t> first;  // of each module, among the stages of a group
  std::size_t stages = 0;
  for (std::uint32_t module = 0; module < grid.size(); ++module) {
    first.push_back(stages);
    stages += std::size_t{grid[module].data / groups} * grid[module].pipeline;
  }
  std::vector<time_units> measured(groups * stages * positions, 0);
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    auto const [module, data, pipeline, tensor] = grid.place(to_id<rank_id>(rank));
    std::uint32_t const of_group = grid[module].data / groups;
    std::size_t const stage =
        first[module] + std::size_t{data % of_group} * grid[module].pipeline + pipeline;
    for (std::size_t position = 0; position < positions; ++position) {
      time_units& slowest = measured[(data / of_group * stages + stage) * positions + position];
      slowest = std::max(slowest, (*all)(rank, position));
    }
  }
  return measured;
}

#ifndef BALLAST_COMPILED

namespace detail {

[[nodiscard]] BALLAST_ONCE result<double> step_report::exchange(
    any_communicator comm, pipeline_job const& job, std::span<microbatch_id const> order)
{
  auto const all = gather_with_word<double>(comm, threw_ ? 1 : 0, losses_.size(),
                                            [this](std::size_t at) { return losses_[at]; });
  if (!all) { return tl::unexpected(all.error()); }
  if (auto ranks = all->without(0); !ranks.empty()) { return tell(comm, std::move(ranks)); }
  by_microbatch_.resize(order.size());
  for (std::uint32_t at = 0; at < order.size(); ++at) { by_microbatch_[at] = at; }
  std::sort(by_microbatch_.begin(), by_microbatch_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return order[a] < order[b]; });
  double sum = 0;
  for (std::uint32_t const position : by_microbatch_) {
    for (std::size_t each = 0; each < job.stages().stages(); ++each) {
      auto const stage = to_id<stage_id>(each);
      for (std::uint32_t data = 0; data < job.grid()[job.module_of(stage)].data; ++data) {
        sum += (*all)(to_index(job.rank(stage, data)), job.chunk_of(stage) * positions_ + position);
      }
    }
  }
  return sum;
}

}  // namespace detail

#else

extern template class pipeline_runner<std::allocator<std::byte>>;

#endif

}  // namespace ballast::inline v0
