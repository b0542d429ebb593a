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

  /// The route of a link between ranks.
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

}  // namespace ballast::inline v0::detail
