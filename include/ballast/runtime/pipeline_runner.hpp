// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/link_traffic.hpp>
#include <ballast/runtime/pipeline_measurement.hpp>

#include <chrono>
#include <exception>
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
  template <communicator C>
  [[nodiscard]] result<double> exchange(C& comm, pipeline_job const& job,
                                        std::span<microbatch_id const> order)
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
          sum +=
              (*all)(to_index(job.rank(stage, data)), job.chunk_of(stage) * positions_ + position);
        }
      }
    }
    return sum;
  }

 private:
  /// What the first of the ranks says where a stage threw.
  template <communicator C>
  [[nodiscard]] tl::unexpected<error> tell(C& comm, std::vector<rank_id> ranks) const
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

/// A rank's tasks in a step, and the arrays of rows that they have now: of each of its stages and
/// each position the inputs, from when they come until the backward ends, and the gradients of the
/// outputs.
template <class Allocator>
class task_arrays {
 public:
  using blocks = message_pool<Allocator>;
  using block = typename blocks::block;

  void start(pipeline_job const& job)
  {
    auto const stages = job.stages().stages_on(job.own_rank());
    std::size_t const positions = job.schedule().microbatches();
    for (bool const into : {false, true}) {
      std::size_t links = 0;
      for (stage_id const stage : stages) {
        first_[into].push_back(links);
        links += job.links(stage, into).size();
      }
      arrays_[into].assign(links * positions, blocks::none);
    }
    numbers_.resize(2 * stages.size() * positions);
  }

  [[nodiscard]] static bool includes(pipeline_task const& task, std::size_t positions, bool trains)
  {
    return task.position < positions && (trains || task.pass == pass::forward);
  }

  /// The tasks of a step of so many positions, by their numbers in the schedule.
  void list_tasks(pipeline_job const& job, std::size_t positions, bool trains)
  {
    for (auto& each : arrays_) { each.assign(each.size(), blocks::none); }
    tasks_.clear();
    for (std::uint32_t const number : job.schedule().tasks_on(job.own_rank())) {
      auto const& task = job.schedule().tasks()[number];
      if (!includes(task, positions, trains)) { continue; }
      numbers_[place(job, task.stage, task.pass, task.position)] = tasks_.size();
      tasks_.push_back(number);
    }
  }
  [[nodiscard]] std::span<std::uint32_t const> tasks() const { return span_of(tasks_); }
  [[nodiscard]] std::size_t number_of(pipeline_job const& job, stage_id stage, pass direction,
                                      std::size_t position) const
  {
    return numbers_[place(job, stage, direction, position)];
  }

  /// Brings the rows that a task needs: forward its inputs, backward the gradients of its outputs.
  template <class Traffic, class Occasion>
  [[nodiscard]] result<void> bring(Traffic& traffic, pipeline_job const& job, blocks& memory,
                                   pipeline_task const& task, Occasion at, bool& spoilt)
  {
    bool const forward = task.pass == pass::forward;
    auto const links = job.links(task.stage, forward);
    for (std::size_t k = 0; k < links.size(); ++k) {
      block& array = array_of(job, task.stage, task.position, forward, k);
      if (!job.is_local(links[k])) {
        at.link = job.link(task.stage, forward, k);
        auto const found = traffic.bring(at);
        if (!found) { return tl::unexpected(found.error()); }
        array = *found;
      }
      spoilt = spoilt || memory.is_spoilt(array);
    }
    return {};
  }

  /// Makes room for what a task makes: forward its outputs, backward the gradients of its inputs.
  void make_room(pipeline_job const& job, link_routes const& routes, blocks& memory,
                 pipeline_task const& task, microbatch_id microbatch)
  {
    bool const forward = task.pass == pass::forward;
    auto const links = job.links(task.stage, !forward);
    made_.clear();
    for (std::size_t k = 0; k < links.size(); ++k) {
      std::size_t const link = job.link(task.stage, !forward, k);
      bool const wanted = forward || job.has_gradient(links[k]);
      auto const rows = wanted ? routes.rows(link, microbatch, !forward) : 0;
      made_.push_back(memory.take(static_cast<std::size_t>(rows) * job.setup().row_bytes[link]));
    }
    // Spans only now: blocks do not move any more until the stage has been called.
    input_rows_.clear();
    gradient_rows_.clear();
    made_rows_.clear();
    for (std::size_t k = 0; k < job.links(task.stage, true).size(); ++k) {
      input_rows_.push_back(memory.rows(array_of(job, task.stage, task.position, true, k)));
    }
    for (std::size_t k = 0; k < job.links(task.stage, false).size() && !forward; ++k) {
      gradient_rows_.push_back(memory.rows(array_of(job, task.stage, task.position, false, k)));
    }
    for (block const each : made_) { made_rows_.push_back(memory.rows(each)); }
  }
  [[nodiscard]] auto inputs() const { return span_of(input_rows_); }
  [[nodiscard]] auto gradients() const { return span_of(gradient_rows_); }
  [[nodiscard]] auto outputs() const { return span_of(made_rows_); }

  /// Hands over what a task has made.
  template <class Traffic, class Occasion>
  [[nodiscard]] result<void> carry(Traffic& traffic, pipeline_job const& job, blocks& memory,
                                   pipeline_task const& task, Occasion at, bool spoilt)
  {
    bool const forward = task.pass == pass::forward;
    auto const links = job.links(task.stage, !forward);
    for (std::size_t k = 0; k < links.size(); ++k) {
      memory.set_spoilt(made_[k], spoilt);
      if (!forward && !job.has_gradient(links[k])) { continue; }
      at.link = job.link(task.stage, !forward, k);
      if (!job.is_local(links[k])) {
        if (auto done = traffic.carry(at, made_[k]); !done) { return done; }
        continue;
      }
      stage_id const other = forward ? links[k].to : links[k].from;
      auto const theirs = job.links(other, forward);
      std::size_t there = 0;
      while ((forward ? theirs[there].from : theirs[there].to) != task.stage) { ++there; }
      array_of(job, other, task.position, forward, there) = made_[k];
    }
    return {};
  }

  /// Lets go of a task's inputs and of the gradients of its outputs.
  void drop_inputs(pipeline_job const& job, blocks& memory, pipeline_task const& task)
  {
    for (bool const into : {true, false}) {
      for (std::size_t k = 0; k < job.links(task.stage, into).size(); ++k) {
        memory.drop(std::exchange(array_of(job, task.stage, task.position, into, k), blocks::none));
      }
    }
  }

 private:
  [[nodiscard]] static std::size_t place(pipeline_job const& job, stage_id stage, pass direction,
                                         std::size_t position)
  {
    std::size_t const list = 2 * job.chunk_of(stage) + (direction == pass::forward ? 0U : 1U);
    return list * job.schedule().microbatches() + position;
  }
  /// An input of a stage, or the gradient of an output.
  [[nodiscard]] block& array_of(pipeline_job const& job, stage_id stage, std::size_t position,
                                bool into, std::size_t k)
  {
    return arrays_[into][first_[into][job.chunk_of(stage)] * job.schedule().microbatches() +
                         position * job.links(stage, into).size() + k];
  }

  std::vector<std::uint32_t> tasks_;
  std::vector<std::size_t> numbers_;  // of a task among tasks_
  // Gradients of outputs and inputs: links out of stages, and into them.
  std::array<std::vector<std::size_t>, 2> first_;  // of each own stage: links of those before it
  std::array<std::vector<block>, 2> arrays_;
  std::vector<block> made_;  // by the present task
  std::vector<std::span<std::byte const>> input_rows_;
  std::vector<std::span<std::byte const>> gradient_rows_;
  std::vector<std::span<std::byte>> made_rows_;
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
/// Rows are aligned to 16 bytes. Those that leave have unspecified content. Those that have come
/// stay where they are until the backward has returned, so a stage need not copy them.
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

/// A stage whose backward is in two parts: the gradients of its inputs, which leave at once, and
/// those of its weights.
template <class S>
concept split_backward_stage = requires(S& stage, backward_call const& call) {
  stage.backward_inputs(call);
  stage.backward_weights(call);
};

/// A stage that can be trained.
template <class S>
concept trained_stage =
    forward_stage<S> && (split_backward_stage<S> ||
                         requires(S& stage, backward_call const& call) { stage.backward(call); });

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
    auto sound = check(comm, order, Trains);
    digest word;
    word.add(job_.word()).add(routes_.word()).add(Trains ? 1U : 0U).add(order);
    word.add(sound ? 0 : 1 + std::uint64_t{to_index(comm.rank())});  // so that the others learn
    auto agreed = agree(comm, word.value(), "the schedule, the plan or the order of the pipeline");
    if (!sound || !agreed) { return sound ? std::move(agreed) : std::move(sound); }
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
