// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/detail/message_head.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/unit_plan.hpp>

#include <cstring>
#include <exception>
#include <memory>

namespace ballast::inline v0 {

namespace detail {

/// Waits for transfers. After a failure other than a mismatch those that are left stay.
template <class C>
[[nodiscard]] result<void> end_transfers(C& comm, std::vector<transfer_id>& transfers)
{
  result<void> first;
  while (!transfers.empty()) {
    auto const done = comm.wait_for(transfers.back());
    if (!done && done.error().code != error_code::mismatch) { return done; }
    if (!done && first) { first = done; }
    transfers.pop_back();
  }
  return first;
}

/// Moves messages to memory that is never freed. They are leaked on purpose: MPI, a GPU or another
/// rank may still read or write them at any later time, also after their owner is gone, and nobody
/// is left who could wait for that.
template <class Bytes>
void give_up(Bytes& bytes)
{
  (void)new Bytes(std::move(bytes));
}

/// Cancels transfers of these bytes, which are given up where one cannot be.
template <class C, class Bytes>
void cancel_transfers(C& comm, std::vector<transfer_id>& transfers, Bytes& bytes)
{
  bool in_use = false;
  for (transfer_id const each : transfers) { in_use = !comm.cancel(each) || in_use; }
  transfers.clear();
  if (in_use) { give_up(bytes); }
}

/// The messages of calls that do not wait until what they send has arrived.
///
/// Ensures     (1) memory of messages that are under way is neither freed nor used again
///             (2) a failure of a send is told once, by the call that learns of it: a mismatch by
///                 finish(), any other also by unused()
template <class Allocator>
class outgoing_messages {
 public:
  using byte_array = std::vector<std::byte, Allocator>;

  /// The messages of one call, and those of its sends that have not ended.
  struct call {
    byte_array bytes;
    std::vector<transfer_id> sends;
  };

  explicit outgoing_messages(Allocator const& allocator) : allocator_(allocator) {}
  outgoing_messages(outgoing_messages&&) noexcept = default;
  outgoing_messages& operator=(outgoing_messages&&) = delete;
  ~outgoing_messages()
  {
    for (call& each : calls_) {
      if (!each.sends.empty()) { give_up(each.bytes); }
    }
  }

  /// Returns messages whose sends have ended, new ones if there are none: the smallest that have
  /// room for so many bytes, or else the largest. They become the last, as those of the newest
  /// call.
  template <class C>
  [[nodiscard]] result<call*> unused(C& comm, std::size_t bytes)
  {
    std::size_t best = calls_.size();
    for (std::size_t index = 0; index < calls_.size(); ++index) {
      auto& sends = calls_[index].sends;
      bool all_done = true;
      for (std::size_t send = 0; send < sends.size() && all_done; ++send) {
        auto const done = comm.is_done(sends[send]);
        if (!done) { return tl::unexpected(done.error()); }
        all_done = *done;
      }
      if (!all_done) { continue; }
      if (auto const ended = end_transfers(comm, sends); !ended) {
        if (ended.error().code != error_code::mismatch) { return tl::unexpected(ended.error()); }
        // It is not this call's: finish() tells.
        if (earlier_) { earlier_ = tl::unexpected(ended.error()); }
      }
      std::size_t const room = calls_[index].bytes.size();
      std::size_t const least = best < calls_.size() ? calls_[best].bytes.size() : 0;
      bool const better = least >= bytes ? room >= bytes && room < least : room > least;
      if (best == calls_.size() || better) { best = index; }
    }
    if (best < calls_.size()) {
      auto const found = calls_.begin() + static_cast<std::ptrdiff_t>(best);
      std::rotate(found, found + 1, calls_.end());
    } else if (bytes > 0 || calls_.empty()) {  // where nothing leaves, any will do
      calls_.push_back({byte_array(allocator_), {}});
    }
    return &calls_.back();
  }

  /// Waits for all sends.
  ///
  /// Errors      those of the transfers; a mismatch also where unused() met it.
  template <class C>
  [[nodiscard]] result<void> finish(C& comm)
  {
    result<void> done = std::exchange(earlier_, {});
    for (call& each : calls_) {
      auto const ended = end_transfers(comm, each.sends);
      if (!ended && (done || ended.error().code != error_code::mismatch)) { done = ended; }
    }
    return done;
  }

  /// Ends all sends, the newest call's first. The oldest would leave a receive of a peer that does
  /// not know yet to the message of the next call.
  template <class C>
  void cancel(C& comm)
  {
    earlier_ = {};
    for (std::size_t index = calls_.size(); index > 0; --index) {
      cancel_transfers(comm, calls_[index - 1].sends, calls_[index - 1].bytes);
    }
  }

 private:
  Allocator allocator_;
  std::vector<call> calls_;  // in the order in which they were made
  result<void> earlier_;     // a mismatch of messages that an earlier call has sent
};

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
  explicit step_comparison(Allocator const& allocator) : bytes_(allocator) {}

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
    std::size_t const room = sizeof(word) * (size + 1);
    words_.resize(2 * size);
    transfers_.reserve(2);
    bytes_.resize(std::max(bytes_.size(), 2 * room));
    words_[0] = word;
    for (std::size_t have = 1; have < size;) {
      std::size_t const more = std::min(have, size - have);
      std::size_t const bytes = more * sizeof(word) + 1;
      auto const out = mutable_span_of(bytes_, 0, bytes);
      auto const in = mutable_span_of(bytes_, room, bytes);
      std::memcpy(out.data(), words_.data(), more * sizeof(word));
      if (auto done = send_and_receive(comm, out, members[(self + size - have) % size], in,
                                       members[(self + have) % size]);
          !done) {
        cancel_transfers(comm, transfers_, bytes_);
        return tl::unexpected(done.error());
      }
      std::memcpy(&words_[have], in.data(), more * sizeof(word));
      have += more;
    }
    for (std::size_t step = 0; step < size; ++step) {
      words_[size + (self + step) % size] = words_[step];
    }
    return span_of(words_).subspan(size);
  }

  /// Sends and receives until both have come about.
  template <class C>
  [[nodiscard]] result<void> send_and_receive(C& comm, std::span<std::byte> out, rank_id to,
                                              std::span<std::byte> in, rank_id from)
  {
    bool sent = false;
    bool received = false;
    while (!sent || !received) {
      if (!received) {
        auto const begun = comm.receive(in, from);
        if (!begun) { return tl::unexpected(begun.error()); }
        transfers_.push_back(*begun);
      }
      if (!sent) {
        auto const begun = comm.send(out, to);
        if (!begun) { return tl::unexpected(begun.error()); }
        transfers_.push_back(*begun);
      }
      if (auto started = comm.start(); !started) { return started; }
      auto const ends = [&]() -> result<bool> {  // whether the last transfer has come about
        auto const done = comm.wait_for(transfers_.back());
        if (!done && done.error().code != error_code::mismatch) {
          return tl::unexpected(done.error());
        }
        transfers_.pop_back();
        return done.has_value();
      };
      if (!sent) {
        auto const came = ends();
        if (!came) { return tl::unexpected(came.error()); }
        sent = *came;
      }
      if (!received) {
        auto const came = ends();
        if (!came) { return tl::unexpected(came.error()); }
        received = *came;
      }
    }
    return {};
  }

  std::uint64_t step_ = 0;   // comparisons before this one
  std::uint64_t calls_ = 0;  // that were noted since
  digest plans_;
  digest arrays_;
  std::vector<std::uint64_t> words_;  // as they come, and by member
  std::vector<std::byte, Allocator> bytes_;
  std::vector<transfer_id> transfers_;
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
    std::array<row_array, sizeof...(Arrays)> const all{arrays...};
    check(comm, plan, {plan.rank(), plan.rows_before(), plan.rows_after(), {}, {}}, all);
    members_.assign(plan.members.begin(), plan.members.end());
    if (plan.is_direct()) { return move(comm, plan.gather, true, all); }
    go_through_middle(plan.gather.rows_after, all);
    auto first = move(comm, plan.gather, true, detail::span_of(to_middle_));
    if (!first && first.error().code != error_code::mismatch) { return first; }
    auto second = move(comm, plan.scatter, true, detail::span_of(from_middle_), !first);
    return first ? std::move(second) : std::move(first);
  }

  template <point_to_point C, std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> backward(C& comm, unit_plan const& plan, Arrays const&... arrays)
  {
    std::array<row_array, sizeof...(Arrays)> const all{arrays...};
    check(comm, plan, {plan.rank(), plan.rows_after(), plan.rows_before(), {}, {}}, all);
    members_.assign(plan.members.begin(), plan.members.end());
    if (plan.is_direct()) { return move(comm, plan.gather, false, all); }
    go_through_middle(plan.gather.rows_after, all);
    auto first = move(comm, plan.scatter, false, detail::span_of(to_middle_));
    if (!first && first.error().code != error_code::mismatch) { return first; }
    auto second = move(comm, plan.gather, false, detail::span_of(from_middle_), !first);
    return first ? std::move(second) : std::move(first);
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
  using byte_array = std::vector<std::byte, Allocator>;

  template <class C>
  static void check(C const& comm, unit_plan const& plan, row_traffic const& traffic,
                    std::span<row_array const> arrays)
  {
    BALLAST_EXPECTS(plan.rank() == comm.rank() && plan.ranks() == comm.size(),
                    "the plan is that of rank ", plan.rank(), " of ", plan.ranks(),
                    ", and the communicator that of rank ", comm.rank(), " of ", comm.size());
    detail::check_rows(traffic, arrays);
  }

  /// The same arrays to where rows are gathered, and from there: in to_middle_ and from_middle_.
  void go_through_middle(tokens rows, std::span<row_array const> arrays)
  {
    std::size_t bytes = 0;
    for (row_array const& array : arrays) { bytes += block_bytes(rows, array.row_bytes); }
    middle_.resize(std::max(middle_.size(), bytes));
    to_middle_.assign(arrays.begin(), arrays.end());
    from_middle_.assign(arrays.begin(), arrays.end());
    std::size_t begin = 0;
    for (std::size_t array = 0; array < arrays.size(); ++array) {
      std::size_t const width = arrays[array].row_bytes;
      std::size_t const size = static_cast<std::size_t>(rows) * width;
      to_middle_[array].to = detail::mutable_span_of(middle_, begin, size);
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
      done = begin(comm, leaving, coming, arrays,
                   {head.number, spoilt ? ~head.content : head.content});
      if (done) {
        detail::keep_rows(plan, forward, arrays);
        done = detail::end_transfers(comm, receives_);
      }
    });
    if (thrown) {
      release(comm);  // or they would use memory that the destructor frees
      std::rethrow_exception(thrown);
    }
    if (done) {
      detail::message_heads heads(head);
      detail::for_each_message(detail::mutable_span_of(incoming_), detail::span_of(bytes_coming_),
                               [&](std::span<std::byte const> message, std::size_t peer) {
                                 heads.take(message, to_id<rank_id>(peer));
                               });
      if (done = heads.told("receive"); !done) { return done; }
      unpack_rows(coming, arrays, detail::mutable_span_of(incoming_, 0, total(bytes_coming_)),
                  sizeof(head));
    } else if (done.error().code != error_code::mismatch) {
      release(comm);
    }
    return done;
  }

  template <class C>
  [[nodiscard]] result<void> begin(C& comm, route_table const& leaving, route_table const& coming,
                                   std::span<row_array const> arrays, detail::message_head head)
  {
    // First all memory: each_message must not throw once it has begun a transfer.
    for (auto* const bytes : {&bytes_leaving_, &bytes_coming_}) { bytes->resize(comm.size()); }
    message_bytes(leaving.rows(), arrays, detail::mutable_span_of(bytes_leaving_));
    message_bytes(coming.rows(), arrays, detail::mutable_span_of(bytes_coming_));
    for (auto* const bytes : {&bytes_leaving_, &bytes_coming_}) {
      for (std::size_t& each : *bytes) { each += each > 0 ? sizeof(detail::message_head) : 0; }
    }
    auto const unused = outgoing_.unused(comm, total(bytes_leaving_));
    if (!unused) { return tl::unexpected(unused.error()); }
    auto& [messages, sends] = **unused;
    sends.reserve(comm.size());
    receives_.reserve(comm.size());
    messages.resize(std::max(messages.size(), total(bytes_leaving_)));
    incoming_.resize(std::max(incoming_.size(), total(bytes_coming_)));

    pack_rows(leaving, arrays, detail::mutable_span_of(messages, 0, total(bytes_leaving_)),
              sizeof(head));
    detail::for_each_message(detail::mutable_span_of(messages), detail::span_of(bytes_leaving_),
                             [&](std::span<std::byte> message, std::size_t) {
                               std::memcpy(message.data(), &head, sizeof(head));
                             });
    if (auto begun = each_message(
            detail::mutable_span_of(incoming_), detail::span_of(bytes_coming_), receives_,
            [&](auto bytes, rank_id peer) { return comm.receive(bytes, peer); });
        !begun) {
      return begun;
    }
    if (auto begun =
            each_message(detail::mutable_span_of(messages), detail::span_of(bytes_leaving_), sends,
                         [&](auto bytes, rank_id peer) { return comm.send(bytes, peer); });
        !begun) {
      return begun;
    }
    return comm.start();
  }

  /// Calls transfer(bytes, peer) for the messages of all peers, which lie one after the other.
  template <class Transfer>
  [[nodiscard]] static result<void> each_message(std::span<std::byte> messages,
                                                 std::span<std::size_t const> bytes,
                                                 std::vector<transfer_id>& under_way,
                                                 Transfer transfer)
  {
    for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
      if (bytes[peer] == 0) { continue; }
      auto const begun = transfer(messages.first(bytes[peer]), to_id<rank_id>(peer));
      if (!begun) { return tl::unexpected(begun.error()); }
      under_way.push_back(*begun);
      messages = messages.subspan(bytes[peer]);
    }
    return {};
  }

  /// After a failure: ends all transfers.
  template <class C>
  void release(C& comm)
  {
    detail::cancel_transfers(comm, receives_, incoming_);
    outgoing_.cancel(comm);
  }

  [[nodiscard]] static std::size_t total(std::vector<std::size_t> const& bytes)
  {
    return std::reduce(bytes.begin(), bytes.end());
  }

  detail::outgoing_messages<Allocator> outgoing_;  // gives up what is under way at the end
  detail::step_comparison<Allocator> step_;
  std::vector<rank_id> members_;  // of both units
  std::vector<transfer_id> receives_;
  byte_array incoming_;
  byte_array middle_;  // what a broker has gathered
  std::vector<row_array> to_middle_;
  std::vector<row_array> from_middle_;
  std::vector<std::size_t> bytes_leaving_;
  std::vector<std::size_t> bytes_coming_;
};

}  // namespace ballast::inline v0
