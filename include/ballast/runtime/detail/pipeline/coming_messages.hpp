// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PIPELINE_COMING_MESSAGES_HPP
#define BALLAST_RUNTIME_DETAIL_PIPELINE_COMING_MESSAGES_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/runtime/detail/pipeline/link_routes.hpp>
#include <ballast/runtime/detail/pipeline/pipeline_job.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Why a message comes.
enum class message_kind : std::uint8_t {
  gather,   ///< between the units of a link: rows, or backward their gradients
  scatter,  ///< between a broker and the other ranks of the receiving unit
  relay,    ///< from the first tensor rank, which had it from others
  part,     ///< of a gradient, to the first tensor rank
};

/// A message that will come, with all that its receiver has to know.
struct coming_message {
  rank_id peer{};
  std::uint32_t task = 0;  // of this rank, that needs it
  std::uint32_t link = 0;
  message_kind kind{};
  bool is_whole = false;  // the array itself: nothing else belongs into it
  std::size_t rows_bytes = 0;
  std::uint32_t post_at = 0;  // no later than before this task of this rank
  // once it is received
  std::uint32_t block = std::numeric_limits<std::uint32_t>::max();
  transfer_id transfer{};
};

/// What comes to a rank in a step. Between two ranks messages come in the order in which they are
/// sent, and that is the order of the sender's tasks. So a receive is begun no later than those
/// that are needed later and sent earlier.
///
/// Ensures     in_order() are the messages by post_at; of one peer, in the order in which it sends
/// Complexity  O(tasks x links of a stage + messages log messages).
class coming_messages {
 public:
  /// In, out     number_of_task(stage, pass, position) is the place of a task among those of this
  ///             rank; includes(task) says whether a task is done at all.
  template <class Number, class Includes>
  void list(pipeline_job const& job, link_routes const& routes,
            std::span<microbatch_id const> order, Number const& number_of_task,
            Includes const& includes, std::size_t own_tasks)
  {
    all_.clear();
    stage_graph const& stages = job.stages();
    for (pipeline_task const& task : job.schedule().tasks()) {
      if (!includes(task)) { continue; }
      bool const forward = task.pass == pass::forward;
      auto const microbatch = order[task.position];
      stage_id const stage = task.stage;
      if (job.is_mine(stage)) {
        from_own_unit(job, routes, stage, microbatch, forward,
                      number_of_task(stage, task.pass, task.position));
      }
      if (!job.is_root()) { continue; }
      // What its outputs, or the gradients of its inputs, are for tasks of this rank.
      auto const links = forward ? stages.links_out_of(stage) : stages.links_into(stage);
      for (std::size_t k = 0; k < links.size(); ++k) {
        stage_id const other = forward ? links[k].to : links[k].from;
        if (!job.is_mine(other) || job.is_local(links[k])) { continue; }
        if (!forward && !job.has_gradient(links[k])) { continue; }
        std::size_t const link = forward ? job.link_out_of(stage, k) : job.link_into(stage, k);
        unit_plan const& plan = routes(link, microbatch);
        add_all(job, forward ? plan.gather.received : plan.gather.sent,
                forward ? plan.gather.rows_after : plan.gather.rows_before, link,
                message_kind::gather, number_of_task(other, task.pass, task.position));
      }
    }
    sort(job, own_tasks);
  }

  [[nodiscard]] coming_message& operator[](std::size_t message) { return all_[message]; }
  /// By the task before which each is to be received.
  [[nodiscard]] std::span<std::uint32_t const> in_order() const { return span_of(order_); }
  /// Those that a task needs.
  [[nodiscard]] std::span<std::uint32_t const> of_task(std::size_t task) const
  {
    return of_task_[task];
  }

 private:
  /// What comes from ranks that compute the same task.
  void from_own_unit(pipeline_job const& job, link_routes const& routes, stage_id stage,
                     microbatch_id microbatch, bool forward, std::size_t task)
  {
    bool const through_brokers = job.setup().strategy != unit_strategy::direct;
    auto const into = job.stages().links_into(stage);
    auto const out = job.stages().links_out_of(stage);
    if (!job.is_root()) {  // what the root has
      auto const links = forward ? into : out;
      for (std::size_t k = 0; k < links.size(); ++k) {
        std::size_t const link = forward ? job.link_into(stage, k) : job.link_out_of(stage, k);
        if (job.is_local(links[k])) { continue; }
        add(job.root(), task, link, message_kind::relay,
            bytes(job, routes.rows(link, microbatch, forward), link), true);
      }
      return;
    }
    for (std::size_t k = 0; k < into.size(); ++k) {
      std::size_t const link = job.link_into(stage, k);
      if (job.is_local(into[k]) || (!forward && !job.has_gradient(into[k]))) { continue; }
      unit_plan const& plan = routes(link, microbatch);
      if (!forward && job.setup().tensor != tensor_gradients::copies) {
        for (std::uint32_t tensor = 1; tensor < job.tensor_ranks(); ++tensor) {
          add(job.beside(tensor), task, link, message_kind::part,
              bytes(job, plan.rows_after(), link), true);
        }
      }
      if (through_brokers) {
        add_all(job, forward ? plan.scatter.received : plan.scatter.sent,
                forward ? plan.scatter.rows_after : plan.scatter.rows_before, link,
                message_kind::scatter, task);
      }
    }
  }

  [[nodiscard]] static std::size_t bytes(pipeline_job const& job, tokens rows, std::size_t link)
  {
    return static_cast<std::size_t>(rows) * job.setup().row_bytes[link];
  }

  void add(rank_id peer, std::size_t task, std::size_t link, message_kind kind,
           std::size_t rows_bytes, bool is_whole)
  {
    if (rows_bytes == 0) { return; }
    coming_message message;
    message.peer = peer;
    message.task = static_cast<std::uint32_t>(task);
    message.link = static_cast<std::uint32_t>(link);
    message.kind = kind;
    message.is_whole = is_whole;
    message.rows_bytes = rows_bytes;
    all_.push_back(message);
  }

  void add_all(pipeline_job const& job, route_table const& table, tokens rows, std::size_t link,
               message_kind kind, std::size_t task)
  {
    if (rows == 0) { return; }
    auto const from = table.rows();
    for (std::size_t peer = 0; peer < from.size(); ++peer) {
      add(to_id<rank_id>(peer), task, link, kind, bytes(job, from[peer], link), from[peer] == rows);
    }
  }

  void sort(pipeline_job const& job, std::size_t own_tasks)
  {
    needed_.assign(job.grid().ranks(), std::numeric_limits<std::uint32_t>::max());
    for (std::size_t at = all_.size(); at-- > 0;) {
      std::uint32_t& soonest = needed_[to_index(all_[at].peer)];
      soonest = std::min(soonest, all_[at].task);
      all_[at].post_at = soonest;
    }
    order_.resize(all_.size());
    for (std::uint32_t at = 0; at < all_.size(); ++at) { order_[at] = at; }
    std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return all_[a].post_at != all_[b].post_at ? all_[a].post_at < all_[b].post_at : a < b;
    });
    of_task_.fill(own_tasks, [this](auto const& visit) {
      for (std::uint32_t at = 0; at < all_.size(); ++at) { visit(std::size_t{all_[at].task}, at); }
    });
  }

  std::vector<coming_message> all_;  // of one peer in the order in which it sends
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> needed_;  // soonest by what comes from each peer later
  jagged<std::size_t, std::uint32_t> of_task_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PIPELINE_COMING_MESSAGES_HPP
