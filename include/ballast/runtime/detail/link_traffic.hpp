// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/message_pool.hpp>

namespace ballast::inline v0::detail {

/// Why a message comes.
enum class message_kind : std::uint8_t {
  gather,   ///< between the units of a link: rows, or backward their gradients
  scatter,  ///< between a broker and the other ranks of the receiving unit
  relay,    ///< from the first tensor rank, which had it from others
  part,     ///< of a gradient, to the first tensor rank
};

/// What a rank sends of a route, or what comes to it, and the rows of its array.
struct half_route {
  route_table const& table;
  tokens rows;
};

/// Backward a route is gone the other way.
[[nodiscard]] inline half_route incoming(route_plan const& route, bool forward)
{
  if (forward) { return {route.received, route.rows_after}; }
  return {route.sent, route.rows_before};
}
[[nodiscard]] inline half_route outgoing(route_plan const& route, bool forward)
{
  return incoming(route, !forward);
}

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
    for (pipeline_task const& task : job.schedule().tasks()) {
      if (!includes(task) || task.pass == pass::weights) { continue; }
      bool const forward = task.pass == pass::forward;
      auto const microbatch = order[task.position];
      stage_id const stage = task.stage;
      if (job.is_mine(stage)) {
        from_own_unit(job, routes, stage, microbatch, forward,
                      number_of_task(stage, task.pass, task.position));
      }
      if (!job.is_root()) { continue; }
      // What its outputs, or the gradients of its inputs, are for tasks of this rank.
      auto const links = job.links(stage, !forward);
      for (std::size_t k = 0; k < links.size(); ++k) {
        stage_id const other = forward ? links[k].to : links[k].from;
        if (!job.is_mine(other) || job.is_local(links[k])) { continue; }
        if (!forward && !job.has_gradient(links[k])) { continue; }
        std::size_t const link = job.link(stage, !forward, k);
        unit_plan const& plan = routes(link, microbatch);
        add_all(job, incoming(plan.gather, forward), link, message_kind::gather,
                number_of_task(other, task.pass, task.position));
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
  BALLAST_ONCE void from_own_unit(pipeline_job const& job, link_routes const& routes,
                                  stage_id stage, microbatch_id microbatch, bool forward,
                                  std::size_t task);

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

  void add_all(pipeline_job const& job, half_route const& half, std::size_t link, message_kind kind,
               std::size_t task)
  {
    if (half.rows == 0) { return; }
    auto const from = half.table.rows();
    for (std::size_t peer = 0; peer < from.size(); ++peer) {
      add(to_id<rank_id>(peer), task, link, kind, bytes(job, from[peer], link),
          from[peer] == half.rows);
    }
  }

  BALLAST_ONCE void sort(pipeline_job const& job, std::size_t own_tasks);

  std::vector<coming_message> all_;  // of one peer in the order in which it sends
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> needed_;  // soonest by what comes from each peer later
  jagged<std::size_t, std::uint32_t> of_task_;
};

/// Moves the rows of a step: brings those that a task needs, and carries off those that it makes.
///
/// Ensures     (1) only receives are waited for, and only for ranks that are at an earlier task, or
///                 at the same one, so ranks do not wait in a circle
///             (2) what a spoilt message was needed for is spoilt too
/// Errors      those of the communicator; then abandon() ends all transfers.
template <point_to_point C, class Allocator>
class link_traffic {
 public:
  using blocks = message_pool<Allocator>;
  using block = typename blocks::block;

  /// The task of a rank, and the link whose rows are moved.
  struct occasion {
    std::size_t task = 0;
    std::size_t link = 0;
    microbatch_id microbatch{};
    bool forward = true;
  };

  link_traffic(C& comm, pipeline_job const& job, link_routes const& routes, blocks& memory,
               coming_messages& coming)
      : comm_(comm), job_(job), routes_(routes), memory_(memory), coming_(coming)
  {}

  /// Begins to receive all that has to be begun before a task.
  [[nodiscard]] result<void> post(std::size_t task)
  {
    bool const begins = next_ < coming_.in_order().size();
    while (next_ < coming_.in_order().size()) {
      coming_message& each = coming_[coming_.in_order()[next_]];
      if (each.post_at > task) { break; }
      each.block = memory_.take(each.rows_bytes);
      auto const begun = comm_.receive(memory_.receive_into(each.block), each.peer);
      if (!begun) { return tl::unexpected(begun.error()); }
      each.transfer = *begun;
      ++next_;
    }
    return begins ? comm_.start() : result<void>();
  }

  /// The rows, or gradients, that a task needs from a link between ranks.
  [[nodiscard]] result<block> bring(occasion const& at)
  {
    if (!job_.is_root()) { return receive_whole(at, message_kind::relay); }
    unit_plan const& plan = routes_(at.link, at.microbatch);
    auto found = bring_to_root(at, plan);
    if (found && job_.tensor_ranks() > 1) {
      for (std::uint32_t tensor = 1; tensor < job_.tensor_ranks() && *found != blocks::none;
           ++tensor) {
        if (auto sent = memory_.send(comm_, *found, job_.beside(tensor)); !sent) {
          return tl::unexpected(sent.error());
        }
      }
      if (auto started = comm_.start(); !started) { return tl::unexpected(started.error()); }
    }
    return found;
  }

  /// Sends what a task has made for a link between ranks. The caller's hold passes over.
  [[nodiscard]] result<void> carry(occasion const& at, block made)
  {
    result<void> done;
    bool const has_parts = !at.forward && job_.setup().adds_parts();
    if (!job_.is_root()) {
      if (has_parts && made != blocks::none) { done = memory_.send(comm_, made, job_.root()); }
    } else {
      if (has_parts) { done = add_parts(at, made); }
      if (done) { done = carry_from_root(at, made); }
    }
    memory_.drop(made);
    return done ? comm_.start() : done;
  }

  /// After a failure: ends all transfers.
  void abandon()
  {
    for (std::size_t at = next_; at-- > 0;) {
      coming_message& each = coming_[coming_.in_order()[at]];
      if (each.block != blocks::none) { memory_.cancel_receive(comm_, each.transfer, each.block); }
    }
    memory_.cancel_sends(comm_);
    memory_.drop_all();
  }

 private:
  [[nodiscard]] result<block> bring_to_root(occasion const& at, unit_plan const& plan)
  {
    if (!at.forward || plan.is_direct()) { return assemble(at, message_kind::gather, plan.gather); }
    if (plan.gather.rows_after == 0) { return assemble(at, message_kind::scatter, plan.scatter); }
    auto const middle = assemble(at, message_kind::gather, plan.gather);
    if (!middle) { return middle; }
    auto sent = send_all(at, plan.scatter, *middle);
    if (sent) { sent = comm_.start(); }
    if (!sent) { return tl::unexpected(sent.error()); }
    auto found = assemble(at, message_kind::scatter, plan.scatter);
    if (!found) { return found; }
    keep(at, plan.scatter, *middle, *found);
    memory_.drop(*middle);
    return found;
  }

  [[nodiscard]] result<void> carry_from_root(occasion const& at, block made)
  {
    unit_plan const& plan = routes_(at.link, at.microbatch);
    if (at.forward || plan.is_direct()) { return send_all(at, plan.gather, made); }
    auto done = send_all(at, plan.scatter, made);
    if (done) { done = comm_.start(); }
    if (!done || plan.gather.rows_after == 0) { return done; }
    auto const middle = assemble(at, message_kind::scatter, plan.scatter);
    if (!middle) { return tl::unexpected(middle.error()); }
    keep(at, plan.scatter, made, *middle);
    done = send_all(at, plan.gather, *middle);
    memory_.drop(*middle);
    return done;
  }

  [[nodiscard]] result<block> receive(coming_message& each)
  {
    auto const came = comm_.wait_for(each.transfer);
    if (!came && came.error().code != error_code::mismatch) {  // it stays under way
      return tl::unexpected(came.error());
    }
    block const found = std::exchange(each.block, blocks::none);
    if (!came) { return tl::unexpected(came.error()); }
    memory_.received(found);
    return found;
  }

  [[nodiscard]] bool is_for(coming_message const& each, occasion const& at, message_kind kind) const
  {
    return each.link == at.link && each.kind == kind;
  }

  [[nodiscard]] result<block> receive_whole(occasion const& at, message_kind kind)
  {
    for (std::uint32_t const number : coming_.of_task(at.task)) {
      if (is_for(coming_[number], at, kind)) { return receive(coming_[number]); }
    }
    return blocks::none;
  }

  /// The array that a route leads to, of the messages for it. What stays on this rank is left out.
  [[nodiscard]] result<block> assemble(occasion const& at, message_kind kind,
                                       route_plan const& route)
  {
    auto const [table, rows] = incoming(route, at.forward);
    if (rows == 0) { return blocks::none; }
    std::size_t const width = job_.setup().row_bytes[at.link];
    block array = blocks::none;
    for (std::uint32_t const number : coming_.of_task(at.task)) {
      coming_message& each = coming_[number];
      if (!is_for(each, at, kind)) { continue; }
      if (each.is_whole) { return receive(each); }
      if (array == blocks::none) { array = memory_.take(static_cast<std::size_t>(rows) * width); }
      auto const message = receive(each);
      if (!message) { return message; }
      std::byte const* from = memory_.rows(*message).data();
      for (route_table::range const range : table[each.peer]) {
        std::size_t const bytes = static_cast<std::size_t>(range.count) * width;
        memory_.copy(&memory_.rows(array)[static_cast<std::size_t>(range.first) * width], from,
                     bytes);
        from += bytes;
      }
      if (memory_.is_spoilt(*message)) { memory_.set_spoilt(array, true); }
      memory_.drop(*message);
    }
    // All rows may be this rank's own.
    if (array == blocks::none) { array = memory_.take(static_cast<std::size_t>(rows) * width); }
    return array;
  }

  /// The rows that stay on a broker, from the array before a route to that after it, or back.
  void keep(occasion const& at, route_plan const& route, block from, block to)
  {
    std::size_t const width = job_.setup().row_bytes[at.link];
    for (route_plan::kept_rows const& each : route.kept) {
      auto const source = static_cast<std::size_t>(at.forward ? each.from_row : each.to_row);
      auto const target = static_cast<std::size_t>(at.forward ? each.to_row : each.from_row);
      memory_.copy(&memory_.rows(to)[target * width], &memory_.rows(from)[source * width],
                   static_cast<std::size_t>(each.count) * width);
    }
    if (!route.kept.empty() && memory_.is_spoilt(from)) { memory_.set_spoilt(to, true); }
  }

  /// Sends the rows of an array to all that want some. An array for one peer is sent as it is.
  [[nodiscard]] result<void> send_all(occasion const& at, route_plan const& route, block array)
  {
    auto const [table, rows] = outgoing(route, at.forward);
    std::size_t const width = job_.setup().row_bytes[at.link];
    for (std::size_t peer = 0; peer < table.rows().size(); ++peer) {
      tokens const leaving = table.rows()[peer];
      if (leaving == 0) { continue; }
      auto const to = to_id<rank_id>(peer);
      if (leaving == rows) { return memory_.send(comm_, array, to); }
      block const message = memory_.take(static_cast<std::size_t>(leaving) * width);
      std::byte* into = memory_.rows(message).data();
      for (route_table::range const range : table[to]) {
        std::size_t const bytes = static_cast<std::size_t>(range.count) * width;
        memory_.copy(into, &memory_.rows(array)[static_cast<std::size_t>(range.first) * width],
                     bytes);
        into += bytes;
      }
      memory_.set_spoilt(message, memory_.is_spoilt(array));
      auto sent = memory_.send(comm_, message, to);
      memory_.drop(message);
      if (!sent) { return sent; }
    }
    return {};
  }

  /// Adds the other tensor ranks' parts of a gradient, in their order.
  [[nodiscard]] result<void> add_parts(occasion const& at, block sum)
  {
    for (std::uint32_t const number : coming_.of_task(at.task)) {
      coming_message& each = coming_[number];
      if (!is_for(each, at, message_kind::part)) { continue; }
      auto const part = receive(each);
      if (!part) { return tl::unexpected(part.error()); }
      if constexpr (remote_memory<Allocator>) {
        // pipeline_job::make has refused it
      } else if (job_.setup().tensor == pipeline_setup::tensor_gradients::float32_parts) {
        add<float>(memory_.rows(sum), memory_.rows(*part));
      } else {
        add<double>(memory_.rows(sum), memory_.rows(*part));
      }
      if (memory_.is_spoilt(*part)) { memory_.set_spoilt(sum, true); }
      memory_.drop(*part);
    }
    return {};
  }

  template <class T>
  static void add(std::span<std::byte> sum, std::span<std::byte const> part)
  {
    T* const to = reinterpret_cast<T*>(sum.data());
    T const* const from = reinterpret_cast<T const*>(part.data());
    for (std::size_t at = 0; at < sum.size() / sizeof(T); ++at) { to[at] += from[at]; }
  }

  C& comm_;
  pipeline_job const& job_;
  link_routes const& routes_;
  blocks& memory_;
  coming_messages& coming_;
  std::size_t next_ = 0;  // of the messages to be received, the first not begun
};

#ifndef BALLAST_COMPILED

BALLAST_ONCE void coming_messages::from_own_unit(pipeline_job const& job, link_routes const& routes,
                                                 stage_id stage, microbatch_id microbatch,
                                                 bool forward, std::size_t task)
{
  bool const through_brokers = job.setup().strategy != unit_strategy::direct;
  if (!job.is_root()) {  // what the root has
    auto const links = job.links(stage, forward);
    for (std::size_t k = 0; k < links.size(); ++k) {
      std::size_t const link = job.link(stage, forward, k);
      if (job.is_local(links[k])) { continue; }
      add(job.root(), task, link, message_kind::relay,
          bytes(job, routes.rows(link, microbatch, forward), link), true);
    }
    return;
  }
  auto const into = job.links(stage, true);
  for (std::size_t k = 0; k < into.size(); ++k) {
    std::size_t const link = job.link(stage, true, k);
    if (job.is_local(into[k]) || (!forward && !job.has_gradient(into[k]))) { continue; }
    unit_plan const& plan = routes(link, microbatch);
    if (!forward && job.setup().adds_parts()) {
      for (std::uint32_t tensor = 1; tensor < job.tensor_ranks(); ++tensor) {
        add(job.beside(tensor), task, link, message_kind::part, bytes(job, plan.rows_after(), link),
            true);
      }
    }
    if (through_brokers) {
      add_all(job, incoming(plan.scatter, forward), link, message_kind::scatter, task);
    }
  }
}

BALLAST_ONCE void coming_messages::sort(pipeline_job const& job, std::size_t own_tasks)
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

#endif

}  // namespace ballast::inline v0::detail
