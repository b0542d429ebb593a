// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/detail/pair_messages.hpp>
#include <ballast/route/sharded_packs.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Copies the heads of packs into messages and out of them, at once or on a stream:
///
///   packs()                                     what the rank computes
///   reads_messages                              whether the host does: then they have heads
///   pack(pack, direction, arrays, outgoing)     copies what leaves the rank into messages
///   unpack(pack, direction, arrays, incoming)   copies messages to where they belong
template <class M>
concept pack_mover = requires(M& mover, std::size_t pack, head_direction direction,
                              std::span<head_array const> arrays, std::span<std::byte> messages) {
  { mover.packs() } -> std::same_as<sharded_packs const&>;
  { M::reads_messages } -> std::same_as<bool const&>;
  { mover.pack(pack, direction, arrays, messages) } -> std::same_as<result<void>>;
  { mover.unpack(pack, direction, arrays, messages) } -> std::same_as<result<void>>;
};

/// Copies heads on the host.
class host_pack_mover {
 public:
  static constexpr bool reads_messages = true;

  explicit host_pack_mover(sharded_packs const& packs) : packs_(packs) {}

  [[nodiscard]] sharded_packs const& packs() const { return packs_; }

  [[nodiscard]] result<void> pack(std::size_t pack, head_direction direction,
                                  std::span<head_array const> arrays,
                                  std::span<std::byte> outgoing) const
  {
    auto const& [id, group, gpu, row, plan] = packs_[pack];
    pack_heads(plan, gpu, direction, arrays, outgoing, sizeof(message_head));
    return {};
  }

  [[nodiscard]] result<void> unpack(std::size_t pack, head_direction direction,
                                    std::span<head_array const> arrays,
                                    std::span<std::byte const> incoming) const
  {
    auto const& [id, group, gpu, row, plan] = packs_[pack];
    unpack_heads(plan, gpu, direction, arrays, incoming, sizeof(message_head));
    return {};
  }

 private:
  sharded_packs const& packs_;
};

[[nodiscard]] inline host_pack_mover mover_of(sharded_packs const& packs)
{
  return host_pack_mover(packs);
}
template <pack_mover Mover>
[[nodiscard]] Mover& mover_of(Mover& mover)
{
  return mover;
}

/// An exchange of heads among the GPUs of a group, and the memory of its messages: begin() packs
/// and begins to send, end() waits and unpacks. Both get the same mover, pack, direction and arrays.
/// release() ends it after a failure. Where the host reads messages, each begins with a word of
/// these and the number of the exchange.
///
/// Ensures     (1) between end() or release() and the next begin(), no transfer is under way
///             (2) begin() allocates only where messages are larger than ever before, and nothing
///                 after it has begun a transfer
template <class Allocator>
class head_messages {
 public:
  explicit head_messages(Allocator const& allocator) : outgoing_(allocator), incoming_(allocator) {}

  template <point_to_point C, pack_mover Mover>
  [[nodiscard]] result<void> begin(C& comm, Mover& mover, std::size_t place,
                                   head_direction direction, std::span<head_array const> arrays,
                                   std::uint64_t number)
  {
    auto const& [id, group, gpu, row, plan] = mover.packs()[place];
    head_ = {number, content_of(plan, direction, arrays)};
    check_heads(plan, gpu, direction, arrays);
    for (bool const is_outgoing : {true, false}) {
      bool const own_tokens = is_outgoing == (direction == head_direction::to_heads);
      sizes_.assign(group.gpus, 0);
      for (std::uint32_t peer = 0; peer < group.gpus; ++peer) {
        if (peer == gpu) { continue; }
        sizes_[peer] = own_tokens ? plan.message_bytes(gpu, peer, arrays)
                                  : plan.message_bytes(peer, gpu, arrays);
      }
      add_heads(mutable_span_of(sizes_), Mover::reads_messages ? sizeof(head_) : 0);
      (is_outgoing ? outgoing_ : incoming_).hold(span_of(sizes_));
    }
    if (auto begun = incoming_.begin(
            group.first, [&](auto bytes, rank_id peer) { return comm.receive(bytes, peer); });
        !begun) {
      return begun;
    }
    if (auto packed = mover.pack(place, direction, arrays, outgoing_.bytes()); !packed) {
      return packed;
    }
    if constexpr (Mover::reads_messages) { outgoing_.write_head(head_); }
    auto begun = outgoing_.begin(group.first,
                                 [&](auto bytes, rank_id peer) { return comm.send(bytes, peer); });
    return begun ? comm.start() : begun;
  }

  template <point_to_point C, pack_mover Mover>
  [[nodiscard]] result<void> end(C& comm, Mover& mover, std::size_t place, head_direction direction,
                                 std::span<head_array const> arrays)
  {
    for (auto* const messages : {&incoming_, &outgoing_}) {
      if (auto done = messages->end(comm, false); !done) { return done; }
    }
    if constexpr (Mover::reads_messages) {
      auto expected = incoming_.expect_head(head_, mover.packs()[place].group.first);
      if (!expected) { return expected; }
    }
    return mover.unpack(place, direction, arrays, incoming_.bytes());
  }

  template <point_to_point C>
  void release(C& comm)
  {
    incoming_.cancel(comm);
    outgoing_.cancel(comm);
  }

 private:
  pair_messages<Allocator> outgoing_;
  pair_messages<Allocator> incoming_;
  std::vector<std::size_t> sizes_;  ///< of messages, by peer
  message_head head_;               ///< of those of the exchange that is under way
};

}  // namespace detail

/// Runs attention of one layer on sequences that are split to different degrees: brings each pack
/// of a rank from tokens to heads, has it computed, and brings the results back, while it computes
/// others.
///
///     exchange.forward(comm, packs, std::array{heads_of(q, q_whole, 32, 128), ...},
///                      std::array{heads_of(o_whole, o, 32, 128)},
///                      [&](std::size_t pack) { ... });  // attention of packs[pack].plan.lengths()
///
/// All ranks call the same functions in the same order, each with its own packs. Forward, a rank
/// begins the first exchange of its first `ahead` packs and computes its own sequences. Then for
/// each pack, from the largest group on, it begins the first exchange of the pack that is `ahead`
/// further, waits for this pack's, calls compute(pack), and begins the pack's second exchange. At
/// the end it waits for all second exchanges. Backward mirrors the order: from the smallest group
/// on, and the rank's own sequences last, so that they hide the last exchange.
///
/// No circle of ranks waits: for pack p the first exchange is call 2p - 1 and the second call 2(p +
/// ahead). All GPUs of a group give it the same p (sharded_packs), and every rank calls in
/// increasing numbers, backward in decreasing ones. So collectives that block would do too.
///
/// `packs` are sharded_packs, for arrays of the host, or device_packs of them, for arrays of a GPU:
/// then packing, and what compute() queues, is on a stream, and a call returns when all transfers
/// are done and all else is queued.
///
/// Shapes      before: an array for each of to_heads, from[packs.rows()][heads][dim] and
///             to[packs.heads_of_sequences(heads)][dim]. After, the other way round:
///             from[packs.heads_of_sequences(heads)][dim], to[packs.rows()][heads][dim]. compute
///             gets its part of each by packs.for_attention.
/// Expects     the packs are of this rank and communicator, the same lengths, owners and groups
///             were given everywhere, and all ranks have the same `ahead`; arrays in memory that
///             the host reaches; arrays that other arrays do not overlap, but for `from` arrays; in
///             to_tokens, elements that can be added if several GPUs have the same head. compute
///             may throw. `Allocator` allocates memory that the communicator reaches.
/// Ensures     (1) compute(pack) is called once for each pack, after all heads of the pack are
///                 there
///             (2) when a call returns, each row has what compute left of it, byte for byte, and
///                 the sum over the GPUs, in their order, of heads that several of them have
///             (3) a call allocates only where packs or messages are larger than ever before:
///                 messages of ahead + 1 packs to heads, and of all packs to tokens
///             (4) no transfer is under way after a call, also after an error or an exception
///             (5) no message is taken for one of another call, plan or arrays: mismatch. Of arrays
///                 of a GPU the host reads no message: agree() on plans
/// Errors      those of the communicator; then the arrays that are written are unspecified, and the
///             rank takes part in no further exchange of the call: leave the communicator, so that
///             ranks that wait for this one learn it before their deadline.
/// Complexity  O(sum over packs of GPUs x arrays x sequences). A byte that moves is copied once on
///             either side of its message, one that stays on the rank once, and those of the rank's
///             own sequences never.
/// Source      the overlapped schedule of "FlexRL", whose `ahead` is 1.
template <class Allocator = std::allocator<std::byte>>
  requires std::same_as<typename std::allocator_traits<Allocator>::value_type, std::byte>
class sharded_exchange {
 public:
  /// The more packs are `ahead`, the less a rank waits for ranks that compute longer on their own
  /// sequences or on smaller groups, and the more messages lie in memory.
  explicit sharded_exchange(std::size_t ahead = 1, Allocator const& allocator = Allocator())
      : ahead_(ahead), allocator_(allocator)
  {
    BALLAST_EXPECTS(ahead >= 1, "exchanges of 0 packs ahead were asked for");
  }

  /// Attention's forward pass: to_heads are queries, keys and values, to_tokens is its output.
  template <point_to_point C, class Packs, std::invocable<std::size_t> Compute,
            std::invocable<sharded_packs::event> Watch = sharded_packs::ignore_events>
  [[nodiscard]] result<void> forward(C& comm, Packs& packs, std::span<head_array const> to_heads,
                                     std::span<head_array const> to_tokens, Compute&& compute,
                                     Watch&& watch = {})
  {
    auto&& mover = detail::mover_of(packs);
    return run(comm, mover, {to_heads, to_tokens}, true, compute, watch);
  }

  /// Its backward pass: to_heads is the gradient of the output, to_tokens are those of queries,
  /// keys and values.
  template <point_to_point C, class Packs, std::invocable<std::size_t> Compute,
            std::invocable<sharded_packs::event> Watch = sharded_packs::ignore_events>
  [[nodiscard]] result<void> backward(C& comm, Packs& packs, std::span<head_array const> to_heads,
                                      std::span<head_array const> to_tokens, Compute&& compute,
                                      Watch&& watch = {})
  {
    auto&& mover = detail::mover_of(packs);
    return run(comm, mover, {to_heads, to_tokens}, false, compute, watch);
  }

 private:
  using direction = detail::head_direction;
  using messages = detail::head_messages<Allocator>;

  struct both_arrays {
    std::span<head_array const> to_heads;
    std::span<head_array const> to_tokens;
  };

  template <class C, class Mover, class Compute, class Watch>
  [[nodiscard]] result<void> run(C& comm, Mover& mover, both_arrays const& arrays, bool forward,
                                 Compute& compute, Watch& watch)
  {
    sharded_packs const& packs = mover.packs();
    BALLAST_EXPECTS(packs.rank() == comm.rank() && packs.ranks() == comm.size(),
                    "the packs are those of rank ", packs.rank(), " of ", packs.ranks(),
                    ", and the communicator is that of rank ", comm.rank(), " of ", comm.size());
    check(packs, arrays.to_heads, direction::to_heads);
    check(packs, arrays.to_tokens, direction::to_tokens);
    std::size_t const shared = packs.shared();
    while (to_heads_.size() < std::min(ahead_ + 1, shared)) { to_heads_.emplace_back(allocator_); }
    while (to_tokens_.size() < shared) { to_tokens_.emplace_back(allocator_); }
    begun_.clear();
    begun_.reserve(2 * shared);
    number_ = digest{}.add(++calls_).add(ahead_).add(forward ? 1U : 0U).value();
    result<void> done;
    auto const thrown =
        detail::thrown_by([&] { done = go_through(comm, mover, arrays, forward, compute, watch); });
    if (thrown || !done) { release(comm); }  // or transfers would use memory that is freed
    if (thrown) { std::rethrow_exception(thrown); }
    return done;
  }

  template <class C, class Mover, class Compute, class Watch>
  [[nodiscard]] result<void> go_through(C& comm, Mover& mover, both_arrays const& arrays,
                                        bool forward, Compute& compute, Watch& watch)
  {
    sharded_packs const& packs = mover.packs();
    std::size_t const shared = packs.shared();
    auto const pack_at = [&](std::size_t place) { return forward ? place : shared - 1 - place; };
    auto const watched = [&](sharded_packs::phase phase, std::size_t pack, auto&& work) {
      watch(sharded_packs::event{phase, false, packs[pack].id});
      auto done = work();
      watch(sharded_packs::event{phase, true, packs[pack].id});
      return done;
    };
    auto const computed = [&](std::size_t pack) {
      watch(sharded_packs::event{sharded_packs::phase::compute, false, packs[pack].id});
      compute(pack);
      watch(sharded_packs::event{sharded_packs::phase::compute, true, packs[pack].id});
    };
    auto const begin_to_heads = [&](std::size_t place) {
      return watched(sharded_packs::phase::begin_to_heads, pack_at(place), [&] {
        return newest(to_heads_[place % (ahead_ + 1)])
            .begin(comm, mover, pack_at(place), direction::to_heads,
                   parts(packs, pack_at(place), arrays.to_heads, direction::to_heads), number_);
      });
    };
    for (std::size_t place = 0; place < std::min(ahead_, shared); ++place) {
      if (auto begun = begin_to_heads(place); !begun) { return begun; }
    }
    bool const has_own = shared < packs.size();
    if (forward && has_own) { computed(shared); }
    for (std::size_t place = 0; place < shared; ++place) {
      std::size_t const pack = pack_at(place);
      if (place + ahead_ < shared) {
        if (auto begun = begin_to_heads(place + ahead_); !begun) { return begun; }
      }
      auto arrived = watched(sharded_packs::phase::end_to_heads, pack, [&] {
        return to_heads_[place % (ahead_ + 1)].end(
            comm, mover, pack, direction::to_heads,
            parts(packs, pack, arrays.to_heads, direction::to_heads));
      });
      if (!arrived) { return arrived; }
      computed(pack);
      auto begun = watched(sharded_packs::phase::begin_to_tokens, pack, [&] {
        return newest(to_tokens_[place])
            .begin(comm, mover, pack, direction::to_tokens,
                   parts(packs, pack, arrays.to_tokens, direction::to_tokens), number_);
      });
      if (!begun) { return begun; }
    }
    if (!forward && has_own) { computed(shared); }
    for (std::size_t place = 0; place < shared; ++place) {
      std::size_t const pack = pack_at(place);
      auto arrived = watched(sharded_packs::phase::end_to_tokens, pack, [&] {
        return to_tokens_[place].end(comm, mover, pack, direction::to_tokens,
                                     parts(packs, pack, arrays.to_tokens, direction::to_tokens));
      });
      if (!arrived) { return arrived; }
    }
    return {};
  }

  /// The parts of arrays that belong to a pack.
  [[nodiscard]] std::span<head_array const> parts(sharded_packs const& packs, std::size_t pack,
                                                  std::span<head_array const> arrays,
                                                  direction towards)
  {
    parts_.assign(arrays.begin(), arrays.end());
    for (head_array& each : parts_) {
      auto const [heads, bytes] = each.shape;
      if (towards == direction::to_heads) {
        each.from = packs.between_attentions(pack, each.from, heads, bytes);
        each.to = packs.for_attention(pack, {}, each.to, heads, bytes);
      } else {
        each.from = packs.for_attention(pack, {}, each.from, heads, bytes);
        each.to = packs.between_attentions(pack, each.to, heads, bytes);
      }
    }
    return detail::span_of(parts_);
  }

  static void check(sharded_packs const& packs, std::span<head_array const> arrays,
                    direction towards)
  {
    bool const to_heads = towards == direction::to_heads;
    for (head_array const& array : arrays) {
      auto const [heads, bytes] = array.shape;
      std::size_t const between = static_cast<std::size_t>(packs.rows()) * heads * bytes;
      std::size_t const in_attention = packs.heads_of_sequences(heads) * bytes;
      auto const number = &array - arrays.data();
      char const* const name = to_heads ? "to_heads" : "to_tokens";
      std::size_t const before = to_heads ? between : in_attention;
      std::size_t const after = to_heads ? in_attention : between;
      BALLAST_EXPECTS(array.from.size() == before, "array ", number, " of ", name, " has ",
                      detail::counted(array.from.size(), "byte"),
                      " in `from`, and the packs of rank ", packs.rank(), " have ", before);
      BALLAST_EXPECTS(array.to.size() == after, "array ", number, " of ", name, " has ",
                      detail::counted(array.to.size(), "byte"), " in `to`, and the packs of rank ",
                      packs.rank(), " have ", after);
    }
  }

  /// Notes an exchange that begins.
  [[nodiscard]] messages& newest(messages& exchange)
  {
    begun_.push_back(&exchange);
    return exchange;
  }

  /// After a failure: ends all transfers, the newest first. The oldest would leave a message of a
  /// peer that does not know yet to the receive of the next one, which has another size.
  template <class C>
  void release(C& comm)
  {
    for (; !begun_.empty(); begun_.pop_back()) { begun_.back()->release(comm); }
  }

  std::size_t ahead_;
  Allocator allocator_;
  std::vector<messages> to_heads_;   ///< of the packs whose first exchange is under way, in turn
  std::vector<messages> to_tokens_;  ///< of all shared packs
  std::vector<messages*> begun_;     ///< in this call, in order
  std::vector<head_array> parts_;
  std::uint64_t calls_ = 0;
  std::uint64_t number_ = 0;  // of the call, with its direction and `ahead`: in each message
};

}  // namespace ballast::inline v0
