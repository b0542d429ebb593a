// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/message_array.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

namespace ballast::inline v0::detail {

/// Arrays of rows that are messages too: 16 bytes that say whether what follows is worth anything,
/// then rows, then padding. A block is used again once nobody holds it and no send reads it.
///
/// Ensures     (1) a block that a transfer may use is neither freed nor used again
///             (2) take() returns the smallest free block with room, else enlarges the largest free
///                 one, else makes one: so nothing is allocated once steps have been as large
template <class Allocator>
class message_pool {
 public:
  using block = std::uint32_t;
  static constexpr block none = std::numeric_limits<block>::max();
  static constexpr std::size_t head = message_alignment;

  explicit message_pool(Allocator const& allocator) : allocator_(allocator) {}

  /// A block for so many bytes of rows, held once; none for no bytes.
  [[nodiscard]] block take(std::size_t rows_bytes)
  {
    if (rows_bytes == 0) { return none; }
    std::size_t const size =
        head + (rows_bytes + message_alignment - 1) / message_alignment * message_alignment;
    std::size_t best = all_.size();
    for (std::size_t at = 0; at < all_.size(); ++at) {
      if (all_[at].holds > 0) { continue; }
      std::size_t const room = all_[at].bytes.size();
      std::size_t const least = best < all_.size() ? all_[best].bytes.size() : 0;
      bool const better = least >= size ? room >= size && room < least : room > least;
      if (best == all_.size() || better) { best = at; }
    }
    if (best == all_.size()) { all_.push_back({message_array<Allocator>(allocator_)}); }
    held& found = all_[best];
    if (found.bytes.size() < size) {
      found.bytes.grow(size);
      found.head_says = unknown;
    }
    found.size = size;
    found.rows_bytes = rows_bytes;
    found.holds = 1;
    found.is_spoilt = false;
    return to_block(best);
  }

  void drop(block each)
  {
    if (each != none) { --all_[each].holds; }
  }

  [[nodiscard]] std::span<std::byte> rows(block each)
  {
    if (each == none) { return {}; }
    return {all_[each].bytes.data() + head, all_[each].rows_bytes};
  }

  [[nodiscard]] bool is_spoilt(block each) const { return each != none && all_[each].is_spoilt; }
  void set_spoilt(block each, bool spoilt)
  {
    if (each != none) { all_[each].is_spoilt = spoilt; }
  }

  void copy(std::byte* to, std::byte const* from, std::size_t bytes) const
  {
    all_.front().bytes.copy(to, from, bytes);
  }

  /// Where a message is to be received; once it has come, received() reads its head.
  [[nodiscard]] std::span<std::byte> receive_into(block each)
  {
    all_[each].head_says = unknown;
    return {all_[each].bytes.data(), all_[each].size};
  }
  void received(block each)
  {
    held& own = all_[each];
    std::uint64_t word = 0;
    own.bytes.read(reinterpret_cast<std::byte*>(&word), own.bytes.data(), sizeof(word));
    own.is_spoilt = word != 0;
    own.head_says = own.is_spoilt ? 1 : 0;
  }

  /// Begins to send a block, which is held until it has gone.
  template <class C>
  [[nodiscard]] result<void> send(C& comm, block each, rank_id peer)
  {
    if (sends_.size() == sends_.capacity()) { sends_.reserve(2 * sends_.size() + 8); }
    held& own = all_[each];
    int const says = own.is_spoilt ? 1 : 0;
    if (own.head_says != says) {  // never while another send reads it
      own.bytes.write(own.bytes.data(), heads[own.is_spoilt ? 1 : 0].data(), head);
      own.head_says = says;
    }
    auto const begun = comm.send({own.bytes.data(), own.size}, peer);
    if (!begun) { return tl::unexpected(begun.error()); }
    sends_.push_back({*begun, each});
    ++all_[each].holds;
    return {};
  }

  /// Lets go of blocks that have gone: of the oldest, until two in a row have not.
  template <class C>
  [[nodiscard]] result<void> collect_sent(C& comm)
  {
    std::size_t kept = 0;
    std::size_t at = 0;
    result<void> done;
    for (; at < sends_.size() && kept < 2 && done; ++at) {
      auto const over = comm.is_done(sends_[at].transfer);
      if (!over) { done = tl::unexpected(over.error()); }
      if (!over || !*over) {
        sends_[kept++] = sends_[at];
        continue;
      }
      done = comm.wait_for(sends_[at].transfer);
      if (!done && done.error().code != error_code::mismatch) {  // it stays under way
        sends_[kept++] = sends_[at];
        continue;
      }
      drop(sends_[at].from);
    }
    sends_.erase(sends_.begin() + static_cast<std::ptrdiff_t>(kept),
                 sends_.begin() + static_cast<std::ptrdiff_t>(at));
    return done;
  }

  template <class C>
  [[nodiscard]] result<void> finish_sends(C& comm)
  {
    while (!sends_.empty()) {
      auto done = comm.wait_for(sends_.back().transfer);
      if (!done && done.error().code != error_code::mismatch) { return done; }
      drop(sends_.back().from);
      sends_.pop_back();
      if (!done) { return done; }
    }
    return {};
  }

  /// After a failure: ends the sends. A receive of such a block is ended by cancel_receive.
  template <class C>
  void cancel_sends(C& comm)
  {
    for (; !sends_.empty(); sends_.pop_back()) {
      if (!comm.cancel(sends_.back().transfer)) { give_up(sends_.back().from); }
    }
  }
  template <class C>
  void cancel_receive(C& comm, transfer_id transfer, block into)
  {
    if (!comm.cancel(transfer)) { give_up(into); }
  }
  void drop_all()
  {
    for (held& each : all_) { each.holds = 0; }
  }

  [[nodiscard]] std::size_t bytes() const
  {
    std::size_t sum = 0;
    for (held const& each : all_) { sum += each.bytes.size(); }
    return sum;
  }

 private:
  static constexpr int unknown = -1;
  alignas(std::uint64_t) static constexpr std::array<std::array<std::byte, head>, 2> heads{
      {{}, {std::byte{1}}}};

  struct held {
    message_array<Allocator> bytes;
    std::size_t size = 0;
    std::size_t rows_bytes = 0;
    std::size_t holds = 0;
    bool is_spoilt = false;
    int head_says = unknown;  // in memory, perhaps for an earlier message
  };
  struct sent {
    transfer_id transfer{};
    block from = none;
  };

  [[nodiscard]] static block to_block(std::size_t at) { return static_cast<block>(at); }

  void give_up(block each) { all_[each].bytes.leak(); }

  Allocator allocator_;
  std::vector<held> all_;
  std::vector<sent> sends_;
};

/// How the rows of each microbatch go over the links of one rank's stages: its part, or where it is
/// one of several tensor ranks, that of the first of these.
class link_routes {
 public:
  /// Takes a plan over.
  ///
  /// Errors      infeasible or out_of_range: the plan does not fit the job.
  [[nodiscard]] BALLAST_ONCE result<void> plan(pipeline_job const& job, pipeline_plan const& given);

  [[nodiscard]] std::size_t microbatches() const noexcept { return microbatches_; }
  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }

  [[nodiscard]] unit_plan const& operator()(std::size_t link, microbatch_id microbatch) const
  {
    return links_[link].plans[to_index(microbatch)];
  }
  /// Rows of this replica on its side of a link.
  [[nodiscard]] tokens rows(std::size_t link, microbatch_id microbatch, bool of_receiver) const
  {
    route_of_link const& of = links_[link];
    if (!of.local_rows.empty()) { return of.local_rows[to_index(microbatch)]; }
    unit_plan const& plan = of.plans[to_index(microbatch)];
    return of_receiver ? plan.rows_after() : plan.rows_before();
  }

 private:
  struct route_of_link {
    std::vector<unit_plan> plans;    // of each microbatch
    std::vector<tokens> local_rows;  // where both stages are on one rank
  };

  [[nodiscard]] static result<void> check(pipeline_job const& job, pipeline_plan const& given)
  {
    std::size_t const samples = given.microbatch.size();
    auto const refuse = [](std::size_t at, auto const&... pieces) {
      return fail(error_code::infeasible, at, pieces...);
    };
    for (std::size_t sample = 0; sample < samples; ++sample) {
      if (to_index(given.microbatch[sample]) < given.microbatches) { continue; }
      return fail(error_code::out_of_range, sample, "sample ", sample,
                  " of the plan is in microbatch ", given.microbatch[sample], " of ",
                  given.microbatches, "; number microbatches from 0");
    }
    std::size_t const links = job.stages().links().size();
    if (given.rows.size() != links) {
      return refuse(given.rows.size(), "the plan has rows of ", counted(given.rows.size(), "link"),
                    ", and the "
                    "schedule ",
                    links, "; give each link rows, in the order of links()");
    }
    for (std::size_t link = 0; link < links; ++link) {
      if (given.rows[link].size() != samples) {
        return refuse(link, "link ", link, " of the plan has rows of ",
                      counted(given.rows[link].size(), "sample"), " of ", samples,
                      "; give each sample its rows, or 0");
      }
      for (tokens const rows : given.rows[link]) {
        if (rows >= 0 && rows <= longest_sample) { continue; }
        return fail(error_code::out_of_range, link, "link ", link, " of the plan has a sample of ",
                    counted(rows, "row"), "; give from 0 to ", longest_sample);
      }
    }
    if (given.replica.size() != job.grid().size()) {
      return refuse(given.replica.size(), "the plan has replicas of ",
                    counted(given.replica.size(), "module"), ", and the grid has ",
                    job.grid().size(), "; plan for this grid");
    }
    for (std::uint32_t module = 0; module < job.grid().size(); ++module) {
      std::uint32_t const data = job.grid()[module].data;
      auto const& replica = given.replica[module];
      if (replica.size() != samples && (data > 1 || !replica.empty())) {
        return refuse(module, "module ", module, " of the plan has replicas for ",
                      counted(replica.size(), "sample"), " of ", samples,
                      "; say for each sample which replica computes it");
      }
      for (std::uint32_t const each : replica) {
        if (each < data) { continue; }
        return fail(error_code::out_of_range, module, "module ", module,
                    " of the plan has a sample on replica ", each, " of ", data,
                    "; plan for this grid");
      }
    }
    return {};
  }

  [[nodiscard]] static std::uint32_t replica_of(pipeline_plan const& given, std::uint32_t module,
                                                sample_id sample)
  {
    auto const& replica = given.replica[module];
    return replica.empty() ? 0 : replica[to_index(sample)];
  }

  void plan_link(pipeline_job const& job, pipeline_plan const& given, std::size_t number,
                 stage_link const& link)
  {
    route_of_link& of = links_[number];
    std::uint32_t const senders = job.module_of(link.from);
    std::uint32_t const receivers = job.module_of(link.to);
    of.local_rows.clear();
    if (job.is_local(link)) {
      for (std::size_t microbatch = 0; microbatch < given.microbatches; ++microbatch) {
        tokens rows = 0;
        for (sample_id const sample : of_microbatch_[to_id<microbatch_id>(microbatch)]) {
          bool const here = replica_of(given, senders, sample) == job.place().data;
          if (here) { rows += given.rows[number][to_index(sample)]; }
        }
        of.local_rows.push_back(rows);
      }
      return;
    }
    auto const ranks_of = [&](std::vector<rank_id>& ranks, stage_id stage, std::uint32_t module) {
      ranks.clear();
      for (std::uint32_t data = 0; data < job.grid()[module].data; ++data) {
        ranks.push_back(job.rank(stage, data));
      }
    };
    ranks_of(senders_, link.from, senders);
    ranks_of(receivers_, link.to, receivers);
    of.plans.resize(given.microbatches);
    for (std::size_t microbatch = 0; microbatch < given.microbatches; ++microbatch) {
      lengths_.clear();
      encoded_.clear();
      wanted_.clear();
      for (sample_id const sample : of_microbatch_[to_id<microbatch_id>(microbatch)]) {
        lengths_.push_back(given.rows[number][to_index(sample)]);
        encoded_.push_back(senders_[replica_of(given, senders, sample)]);
        wanted_.push_back(receivers_[replica_of(given, receivers, sample)]);
      }
      std::size_t const ranks = job.grid().ranks();
      place(from_, span_of(lengths_), span_of(encoded_), ranks);
      place(to_, span_of(lengths_), span_of(wanted_), ranks);
      plan_units(of.plans[microbatch], memory_, from_, to_,
                 {span_of(senders_), span_of(receivers_)}, job.setup().strategy, job.root());
    }
  }

  std::size_t microbatches_ = 0;
  std::uint64_t word_ = 0;
  jagged<microbatch_id, sample_id> of_microbatch_;
  std::vector<route_of_link> links_;
  std::vector<rank_id> senders_, receivers_;  // of the link that is planned
  std::vector<tokens> lengths_;               // and of a microbatch on it
  std::vector<rank_id> encoded_, wanted_;
  placement from_, to_;
  workspace memory_;
};

#ifndef BALLAST_COMPILED

[[nodiscard]] BALLAST_ONCE result<void> link_routes::plan(pipeline_job const& job,
                                                          pipeline_plan const& given)
{
  microbatches_ = 0;
  if (auto sound = check(job, given); !sound) { return sound; }
  of_microbatch_.fill(given.microbatches, [&](auto const& visit) {
    for (std::size_t sample = 0; sample < given.microbatch.size(); ++sample) {
      visit(given.microbatch[sample], to_id<sample_id>(sample));
    }
  });
  stage_graph const& stages = job.stages();
  links_.resize(stages.links().size());
  digest all;
  all.add(span_of(given.microbatch));
  for (auto const& rows : given.rows) { all.add(span_of(rows)); }
  for (auto const& replica : given.replica) { all.add(span_of(replica)); }
  word_ = all.add(given.microbatches).value();
  for (std::size_t number = 0; number < links_.size(); ++number) {
    stage_link const& link = stages.links()[number];
    if (!job.is_mine(link.from) && !job.is_mine(link.to)) { continue; }
    plan_link(job, given, number, link);
  }
  microbatches_ = given.microbatches;
  return {};
}

#endif

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
