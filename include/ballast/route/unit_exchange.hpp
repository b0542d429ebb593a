// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/detail/pair_messages.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/unit_plan.hpp>

namespace ballast::inline v0 {

namespace detail {

/// The messages of calls that do not wait until what they send has arrived.
///
/// Ensures     (1) memory of messages that are under way is neither freed nor used again
///             (2) a failure of a send is told once, by the call that learns of it: a mismatch by
///                 finish(), any other also by unused()
template <class Allocator>
class outgoing_messages {
 public:
  explicit outgoing_messages(Allocator const& allocator) : allocator_(allocator) {}

  /// Returns messages whose sends have ended, new ones if there are none: the smallest that have
  /// room for so many bytes, or else the largest. They become the last, as those of the newest
  /// call.
  template <class C>
  [[nodiscard]] result<pair_messages<Allocator>*> unused(C& comm, std::size_t bytes)
  {
    auto best = calls_.end();
    for (auto call = calls_.begin(); call != calls_.end(); ++call) {
      bool all_done = true;
      for (transfer_id const send : call->transfers()) {
        auto const done = comm.is_done(send);
        if (!done) { return tl::unexpected(done.error()); }
        all_done = *done;
        if (!all_done) { break; }
      }
      if (!all_done) { continue; }
      if (auto const ended = call->end(comm, true); !ended) {
        if (ended.error().code != error_code::mismatch) { return tl::unexpected(ended.error()); }
        // It is not this call's: finish() tells.
        if (!earlier_) { earlier_ = ended.error(); }
      }
      std::size_t const room = call->room();
      std::size_t const least = best != calls_.end() ? best->room() : 0;
      bool const better = least >= bytes ? room >= bytes && room < least : room > least;
      if (best == calls_.end() || better) { best = call; }
    }
    if (best != calls_.end()) {
      calls_.splice(calls_.end(), calls_, best);
    } else if (bytes > 0 || calls_.empty()) {  // where nothing leaves, any will do
      calls_.emplace_back(allocator_);
    }
    return &calls_.back();
  }

  /// Waits for all sends.
  ///
  /// Errors      those of the transfers; a mismatch also where unused() met it.
  template <class C>
  [[nodiscard]] result<void> finish(C& comm)
  {
    result<void> done;
    if (earlier_) { done = tl::unexpected(*earlier_); }
    earlier_.reset();
    for (auto& each : calls_) {
      auto const ended = each.end(comm, true);
      if (!ended && (done || ended.error().code != error_code::mismatch)) { done = ended; }
    }
    return done;
  }

  /// Ends all sends, the newest call's first. The oldest would leave a receive of a peer that does
  /// not know yet to the message of the next call.
  template <class C>
  void cancel(C& comm)
  {
    earlier_.reset();
    for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) { call->cancel(comm); }
  }

 private:
  Allocator allocator_;
  std::list<pair_messages<Allocator>> calls_;  // in the order in which they were made
  std::optional<error> earlier_;  // a mismatch of messages that an earlier call has sent
};

/// Begins an exchange of rows in pairs: packs what leaves, and lets go of it and of the receives of
/// what comes, messages that begin with `head`.
template <class C, class Allocator>
[[nodiscard]] result<void> begin_rows(C& comm, outgoing_messages<Allocator>& sent,
                                      pair_messages<Allocator>& incoming,
                                      std::vector<std::size_t>& messages,
                                      route_table const& leaving, route_table const& coming,
                                      std::span<row_array const> arrays, message_head head)
{
  messages.resize(comm.size());
  auto const sizes = mutable_span_of(messages);
  message_bytes(coming.rows(), arrays, sizes);
  add_heads(sizes, sizeof(head));
  incoming.hold(sizes);
  message_bytes(leaving.rows(), arrays, sizes);
  auto const unused = sent.unused(comm, add_heads(sizes, sizeof(head)));
  if (!unused) { return tl::unexpected(unused.error()); }
  auto& outgoing = **unused;
  outgoing.hold(sizes);
  pack_rows(leaving, arrays, outgoing.bytes(), sizeof(head));
  outgoing.write_head(head);
  auto begun = incoming.begin(rank_id{0},
                              [&](auto bytes, rank_id peer) { return comm.receive(bytes, peer); });
  if (begun) {
    begun = outgoing.begin(rank_id{0},
                           [&](auto bytes, rank_id peer) { return comm.send(bytes, peer); });
  }
  return begun ? comm.start() : begun;
}

/// What the ranks of two units have called in a step, compared by transfers in pairs: other ranks of
/// the communicator need not take part. A rank has its own word, then two, then four.
///
/// A message that nobody has received may be in the way of a word: it has another size, since
/// messages of rows are multiples of message_alignment. It is received and given up.
///
/// Expects     all of `members`, which are in increasing order, compare with the same members.
/// Errors      those of the communicator; mismatch, on every rank: `ranks` are those whose word is
///             not the most common one.
/// Complexity  log2(members) messages of each rank; no allocation after as many members.
template <class Allocator>
class step_comparison {
 public:
  explicit step_comparison(Allocator const& allocator) : out_(allocator), in_(allocator) {}

  /// Notes an exchange; returns what its messages begin with.
  [[nodiscard]] message_head note(std::uint64_t plan, std::uint64_t arrays)
  {
    plans_.add(plan);
    arrays_.add(arrays);
    return {step_ << 32U | ++calls_, content_word(plan, arrays)};
  }

  /// Compares what was noted since the last time, if anything was. A rank that is no member does
  /// not take part.
  template <class C>
  [[nodiscard]] result<void> compare(C& comm, std::span<rank_id const> members)
  {
    if (calls_ == 0) { return {}; }
    ++step_;
    calls_ = 0;
    auto const own =
        content_word(std::exchange(plans_, {}).value(), std::exchange(arrays_, {}).value());
    auto const told = gather(comm, members, own);
    if (!told) { return tl::unexpected(told.error()); }
    if (std::all_of(told->begin(), told->end(), [own](auto each) { return each == own; })) {
      return {};
    }
    auto found = dissent_on_content({told->begin(), told->end()});
    for (rank_id& each : found.ranks) { each = members[to_index(each)]; }
    return comm_failure::different_content("finish", found.in_arrays, std::move(found.ranks),
                                           "rows of this step may be missing or wrong");
  }

 private:
  /// Returns the words in the order of the members; none if this rank is not among them.
  template <class C>
  [[nodiscard]] result<std::span<std::uint64_t const>> gather(C& comm,
                                                              std::span<rank_id const> members,
                                                              std::uint64_t word)
  {
    auto const place = std::lower_bound(members.begin(), members.end(), comm.rank());
    if (place == members.end() || *place != comm.rank()) {
      return std::span<std::uint64_t const>();
    }
    auto const self = static_cast<std::size_t>(place - members.begin());
    std::size_t const size = members.size();
    words_.resize(2 * size);
    words_[0] = word;
    for (std::size_t have = 1; have < size;) {
      std::size_t const more = std::min(have, size - have);
      std::array const bytes{more * sizeof(word) + 1};
      out_.hold(bytes);
      in_.hold(bytes);
      std::memcpy(out_.bytes().data(), words_.data(), more * sizeof(word));
      if (auto done = send_and_receive(comm, members[(self + size - have) % size],
                                       members[(self + have) % size]);
          !done) {
        in_.cancel(comm);
        out_.cancel(comm);
        return tl::unexpected(done.error());
      }
      std::memcpy(&words_[have], in_.bytes().data(), more * sizeof(word));
      have += more;
    }
    for (std::size_t step = 0; step < size; ++step) {
      words_[size + (self + step) % size] = words_[step];
    }
    return span_of(words_).subspan(size);
  }

  /// Sends and receives until both have come about.
  template <class C>
  [[nodiscard]] result<void> send_and_receive(C& comm, rank_id to, rank_id from)
  {
    bool sent = false;
    bool received = false;
    while (!sent || !received) {
      result<void> begun;
      if (!received) {
        begun =
            in_.begin(from, [&](auto bytes, rank_id peer) { return comm.receive(bytes, peer); });
      }
      if (begun && !sent) {
        begun = out_.begin(to, [&](auto bytes, rank_id peer) { return comm.send(bytes, peer); });
      }
      if (begun) { begun = comm.start(); }
      if (!begun) { return begun; }
      for (auto const& [messages, is_done] :
           {std::pair(&out_, &sent), std::pair(&in_, &received)}) {
        if (*is_done) { continue; }
        auto const ended = messages->end(comm, true);
        if (!ended && ended.error().code != error_code::mismatch) { return ended; }
        *is_done = ended.has_value();
      }
    }
    return {};
  }

  std::uint64_t step_ = 0;   // comparisons before this one
  std::uint64_t calls_ = 0;  // that were noted since
  digest plans_;
  digest arrays_;
  std::vector<std::uint64_t> words_;  // as they come, and by member
  pair_messages<Allocator> out_;
  pair_messages<Allocator> in_;
};

}  // namespace detail

/// Moves arrays between two units of a job, in pairs of ranks: no rank waits for one from which it
/// gets nothing, and no sender for its receivers.
///
///     exchange.forward(comm, plan, rows_of(x, x_there, 3072));     // activations
///     exchange.backward(comm, plan, rows_of(dx_there, dx, 3072));  // and their gradients
///     exchange.finish(comm);                                       // at the end of a step
///
/// All ranks of both units call the same functions, each with its own plan, as often and in the
/// same order; other ranks need not. What they have called is compared by finish(), which waits for
/// all of them. Any other call packs what leaves the rank into messages of its own,
/// begins to send them, waits for what comes, and returns. So a rank that only sends returns at
/// once, while its receivers sleep: its arrays may be changed, and messages that are still under
/// way are kept. Several exchanges may share a communicator if all ranks call them in one order.
/// Over NCCL give each direction a communicator and a stream of its own: on one stream a send holds
/// up what is behind it. The first message between two ranks waits there until both have called.
///
/// Shapes      each array: from[plan.rows_before()], to[plan.rows_after()] rows; backward the other
///             way round.
/// Expects     the plan is of this rank and communicator, and the same samples, units and strategy
///             are planned everywhere; arrays in memory that the host reaches; no `to` overlaps
///             another array. `Allocator` allocates memory that the communicator reaches. finish()
///             is called before the object is destroyed: messages that are still under way are
///             given up, and their memory is never freed. From one finish() to the next it serves
///             the same two units.
/// Ensures     (1) every row is where the second placement says, byte for byte, in sample order
///             (2) backward is the exact inverse of forward, and its gradient
///             (3) a call allocates only where what comes is more than ever before, on a broker
///                 what it gathers, or where no messages that have arrived had room for those that
///                 leave: it takes the smallest that have, else enlarges the largest, or makes new
///                 ones. Pinned memory: CUDA then waits for the device, so for all sends that are
///                 queued, without a deadline
///             (4) after an exception no transfer of a call is under way
///             (5) no message is taken for one of another call, plan or arrays: each begins with a
///                 word of these and its number
/// Errors      those of the communicator; then `to` is unspecified and `from` unchanged. After a
///             mismatch of what comes, the other messages of the call have arrived, and what a broker
///             scatters is refused by its receivers too. finish():
///             mismatch, on every rank of both units, where they have made different calls, with
///             different plans, or with arrays of other widths or types; `ranks` are those that
///             differ from the majority. What nobody has received is taken back, but not over MPI:
///             go on there with a part of the communicator that split makes.
/// Complexity  O(ranks + ranges x arrays), finish O(members). A byte is copied once on either side
///             of each message, and through a broker there are two messages. Memory: what is under
///             way, and on brokers what they gather.
template <class Allocator = std::allocator<std::byte>>
  requires std::same_as<typename std::allocator_traits<Allocator>::value_type, std::byte>
class unit_exchange {
 public:
  explicit unit_exchange(Allocator const& allocator = Allocator())
      : outgoing_(allocator), step_(allocator), incoming_(allocator), middle_(allocator)
  {}
  unit_exchange(unit_exchange&&) noexcept = default;
  unit_exchange& operator=(unit_exchange&&) = delete;

  template <point_to_point C, std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> forward(C& comm, unit_plan const& plan, Arrays const&... arrays)
  {
    return exchange(comm, plan, true, std::array<row_array, sizeof...(Arrays)>{arrays...});
  }

  template <point_to_point C, std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> backward(C& comm, unit_plan const& plan, Arrays const&... arrays)
  {
    return exchange(comm, plan, false, std::array<row_array, sizeof...(Arrays)>{arrays...});
  }

  /// Waits until all ranks of both units have come, and told each other what they have called since
  /// the last finish(), and until all that this rank has sent has arrived, or the communicator has
  /// taken it over.
  template <point_to_point C>
  [[nodiscard]] result<void> finish(C& comm)
  {
    result<void> done;
    auto const thrown = detail::thrown_by([&] {
      done = step_.compare(comm, detail::span_of(members_));
      if (done) { done = outgoing_.finish(comm); }
    });
    if (thrown || !done) { release(comm); }
    if (thrown) { std::rethrow_exception(thrown); }
    return done;
  }

 private:
  template <class C>
  [[nodiscard]] result<void> exchange(C& comm, unit_plan const& plan, bool forward,
                                      std::span<row_array const> arrays)
  {
    BALLAST_EXPECTS(plan.rank() == comm.rank() && plan.ranks() == comm.size(),
                    "the plan is that of rank ", plan.rank(), " of ", plan.ranks(),
                    ", and the communicator that of rank ", comm.rank(), " of ", comm.size());
    row_traffic const traffic{plan.rank(), plan.rows_before(), plan.rows_after(), {}, {}};
    detail::check_rows(forward ? traffic : traffic.reversed(), arrays);
    members_.assign(plan.members.begin(), plan.members.end());
    if (plan.is_direct()) { return move(comm, plan.gather, forward, arrays); }
    go_through_middle(plan.gather.rows_after, arrays);
    auto first =
        move(comm, forward ? plan.gather : plan.scatter, forward, detail::span_of(to_middle_));
    if (!first && first.error().code != error_code::mismatch) { return first; }
    auto second = move(comm, forward ? plan.scatter : plan.gather, forward,
                       detail::span_of(from_middle_), !first);
    return first ? std::move(second) : std::move(first);
  }

  /// The same arrays to where rows are gathered, and from there: in to_middle_ and from_middle_.
  void go_through_middle(tokens rows, std::span<row_array const> arrays)
  {
    std::size_t bytes = 0;
    for (row_array const& array : arrays) { bytes += block_bytes(rows, array.row_bytes); }
    auto const middle = middle_.at_least(bytes);
    to_middle_.assign(arrays.begin(), arrays.end());
    from_middle_.assign(arrays.begin(), arrays.end());
    std::size_t begin = 0;
    for (std::size_t array = 0; array < arrays.size(); ++array) {
      std::size_t const width = arrays[array].row_bytes;
      std::size_t const size = static_cast<std::size_t>(rows) * width;
      to_middle_[array].to = middle.subspan(begin, size);
      from_middle_[array].from = to_middle_[array].to;
      begin += block_bytes(rows, width);
    }
  }

  /// Moves rows along a route, in either direction. Returns when those that come have come. What
  /// leaves is marked if it is spoilt, so that receivers refuse it and need not wait.
  template <class C>
  [[nodiscard]] result<void> move(C& comm, route_plan const& plan, bool forward,
                                  std::span<row_array const> arrays, bool spoilt = false)
  {
    route_table const& leaving = forward ? plan.sent : plan.received;
    route_table const& coming = forward ? plan.received : plan.sent;
    detail::message_head const head =
        step_.note(forward ? plan.word : ~plan.word, detail::word_of(arrays));
    result<void> done;
    auto const thrown = detail::thrown_by([&] {
      done = detail::begin_rows(comm, outgoing_, incoming_, sizes_, leaving, coming, arrays,
                                {head.number, spoilt ? ~head.content : head.content});
      if (done) {
        detail::keep_rows(plan, forward, arrays);
        done = incoming_.end(comm, true);
      }
    });
    if (thrown) {
      release(comm);  // or they would use memory that the destructor frees
      std::rethrow_exception(thrown);
    }
    if (done) {
      if (done = incoming_.expect_head(head, rank_id{0}); !done) { return done; }
      unpack_rows(coming, arrays, incoming_.bytes(), sizeof(head));
    } else if (done.error().code != error_code::mismatch) {
      release(comm);
    }
    return done;
  }

  /// After a failure: ends all transfers.
  template <class C>
  void release(C& comm)
  {
    incoming_.cancel(comm);
    outgoing_.cancel(comm);
  }

  detail::outgoing_messages<Allocator> outgoing_;  // gives up what is under way at the end
  detail::step_comparison<Allocator> step_;
  std::vector<rank_id> members_;  // of both units
  detail::pair_messages<Allocator> incoming_;
  detail::message_array<Allocator> middle_;  // what a broker has gathered
  std::vector<row_array> to_middle_;
  std::vector<row_array> from_middle_;
  std::vector<std::size_t> sizes_;  // of messages, by peer
};

}  // namespace ballast::inline v0
