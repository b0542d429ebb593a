// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PIPELINE_TASK_ARRAYS_HPP
#define BALLAST_RUNTIME_DETAIL_PIPELINE_TASK_ARRAYS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/detail/pipeline/link_routes.hpp>
#include <ballast/runtime/detail/pipeline/message_pool.hpp>
#include <ballast/runtime/detail/pipeline/pipeline_job.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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
    std::size_t into = 0;
    std::size_t out = 0;
    for (stage_id const stage : job.stages().stages_on(job.own_rank())) {
      first_into_.push_back(into);
      first_out_.push_back(out);
      into += job.stages().links_into(stage).size();
      out += job.stages().links_out_of(stage).size();
    }
    std::size_t const positions = job.schedule().microbatches();
    inputs_.assign(into * positions, blocks::none);
    gradients_.assign(out * positions, blocks::none);
    numbers_.resize(2 * first_into_.size() * positions);
  }

  [[nodiscard]] static bool includes(pipeline_task const& task, std::size_t positions, bool trains)
  {
    return task.position < positions && (trains || task.pass == pass::forward);
  }

  /// The tasks of a step of so many positions, by their numbers in the schedule.
  void list_tasks(pipeline_job const& job, std::size_t positions, bool trains)
  {
    inputs_.assign(inputs_.size(), blocks::none);
    gradients_.assign(gradients_.size(), blocks::none);
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
    auto const links =
        forward ? job.stages().links_into(task.stage) : job.stages().links_out_of(task.stage);
    for (std::size_t k = 0; k < links.size(); ++k) {
      block& array = forward ? input(job, task.stage, task.position, k)
                             : gradient(job, task.stage, task.position, k);
      if (!job.is_local(links[k])) {
        at.link = forward ? job.link_into(task.stage, k) : job.link_out_of(task.stage, k);
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
    auto const into = job.stages().links_into(task.stage);
    auto const out = job.stages().links_out_of(task.stage);
    made_.clear();
    auto const links = forward ? out : into;
    for (std::size_t k = 0; k < links.size(); ++k) {
      std::size_t const link =
          forward ? job.link_out_of(task.stage, k) : job.link_into(task.stage, k);
      bool const wanted = forward || job.has_gradient(links[k]);
      auto const rows = wanted ? routes.rows(link, microbatch, !forward) : 0;
      made_.push_back(memory.take(static_cast<std::size_t>(rows) * job.setup().row_bytes[link]));
    }
    // Spans only now: blocks do not move any more until the stage has been called.
    input_rows_.clear();
    gradient_rows_.clear();
    made_rows_.clear();
    for (std::size_t k = 0; k < into.size(); ++k) {
      input_rows_.push_back(memory.rows(input(job, task.stage, task.position, k)));
    }
    for (std::size_t k = 0; k < out.size() && !forward; ++k) {
      gradient_rows_.push_back(memory.rows(gradient(job, task.stage, task.position, k)));
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
    auto const links =
        forward ? job.stages().links_out_of(task.stage) : job.stages().links_into(task.stage);
    for (std::size_t k = 0; k < links.size(); ++k) {
      memory.set_spoilt(made_[k], spoilt);
      if (!forward && !job.has_gradient(links[k])) { continue; }
      at.link = forward ? job.link_out_of(task.stage, k) : job.link_into(task.stage, k);
      if (!job.is_local(links[k])) {
        if (auto done = traffic.carry(at, made_[k]); !done) { return done; }
        continue;
      }
      stage_id const other = forward ? links[k].to : links[k].from;
      auto const theirs =
          forward ? job.stages().links_into(other) : job.stages().links_out_of(other);
      std::size_t there = 0;
      while ((forward ? theirs[there].from : theirs[there].to) != task.stage) { ++there; }
      (forward ? input(job, other, task.position, there)
               : gradient(job, other, task.position, there)) = made_[k];
    }
    return {};
  }

  /// Lets go of a task's inputs and of the gradients of its outputs.
  void drop_inputs(pipeline_job const& job, blocks& memory, pipeline_task const& task)
  {
    for (std::size_t k = 0; k < job.stages().links_into(task.stage).size(); ++k) {
      memory.drop(std::exchange(input(job, task.stage, task.position, k), blocks::none));
    }
    for (std::size_t k = 0; k < job.stages().links_out_of(task.stage).size(); ++k) {
      memory.drop(std::exchange(gradient(job, task.stage, task.position, k), blocks::none));
    }
  }

 private:
  [[nodiscard]] static std::size_t place(pipeline_job const& job, stage_id stage, pass direction,
                                         std::size_t position)
  {
    std::size_t const list = 2 * job.chunk_of(stage) + (direction == pass::forward ? 0U : 1U);
    return list * job.schedule().microbatches() + position;
  }
  [[nodiscard]] block& input(pipeline_job const& job, stage_id stage, std::size_t position,
                             std::size_t k)
  {
    std::size_t const links = job.stages().links_into(stage).size();
    return inputs_[first_into_[job.chunk_of(stage)] * job.schedule().microbatches() +
                   position * links + k];
  }
  [[nodiscard]] block& gradient(pipeline_job const& job, stage_id stage, std::size_t position,
                                std::size_t k)
  {
    std::size_t const links = job.stages().links_out_of(stage).size();
    return gradients_[first_out_[job.chunk_of(stage)] * job.schedule().microbatches() +
                      position * links + k];
  }

  std::vector<std::uint32_t> tasks_;
  std::vector<std::size_t> numbers_;     // of a task among tasks_
  std::vector<std::size_t> first_into_;  // of each own stage: links of those before it
  std::vector<std::size_t> first_out_;
  std::vector<block> inputs_;
  std::vector<block> gradients_;  // of outputs
  std::vector<block> made_;       // by the present task
  std::vector<std::span<std::byte const>> input_rows_;
  std::vector<std::span<std::byte const>> gradient_rows_;
  std::vector<std::span<std::byte>> made_rows_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PIPELINE_TASK_ARRAYS_HPP
