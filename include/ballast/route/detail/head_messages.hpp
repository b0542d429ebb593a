// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_HEAD_MESSAGES_HPP
#define BALLAST_ROUTE_DETAIL_HEAD_MESSAGES_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/detail/message_array.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/route/detail/message_head.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/pack_heads.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses_exchange.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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
    sharded_pack const& own = packs_[pack];
    direction == head_direction::to_heads
        ? pack_to_heads(own.plan, own.gpu, arrays, outgoing, sizeof(message_head))
        : pack_to_tokens(own.plan, own.gpu, arrays, outgoing, sizeof(message_head));
    return {};
  }

  [[nodiscard]] result<void> unpack(std::size_t pack, head_direction direction,
                                    std::span<head_array const> arrays,
                                    std::span<std::byte const> incoming) const
  {
    sharded_pack const& own = packs_[pack];
    direction == head_direction::to_heads
        ? unpack_to_heads(own.plan, own.gpu, arrays, incoming, sizeof(message_head))
        : unpack_to_tokens(own.plan, own.gpu, arrays, incoming, sizeof(message_head));
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
    sharded_pack const& pack = mover.packs()[place];
    head_ = {number, content_of(pack.plan, direction, arrays)};
    head_bytes_ = Mover::reads_messages ? sizeof(head_) : 0;
    bool const to_heads = direction == head_direction::to_heads;
    check_heads(pack.plan, pack.gpu, direction, arrays);
    std::size_t leaving = 0;
    std::size_t coming = 0;
    for_each_peer(pack, [&](std::uint32_t peer) {
      leaving += bytes(pack, peer, to_heads, arrays);
      coming += bytes(pack, peer, !to_heads, arrays);
      return true;
    });
    sends_.reserve(pack.group.gpus);
    receives_.reserve(pack.group.gpus);
    auto const outgoing = outgoing_.at_least(leaving);
    auto rest_coming = incoming_.at_least(coming);
    result<void> done;
    for_each_peer(pack, [&](std::uint32_t peer) {
      std::size_t const size = bytes(pack, peer, !to_heads, arrays);
      done = note(size == 0, receives_,
                  [&] { return comm.receive(rest_coming.first(size), rank_of(pack, peer)); });
      rest_coming = rest_coming.subspan(size);
      return done.has_value();
    });
    if (!done) { return done; }

    if (auto packed = mover.pack(place, direction, arrays, outgoing); !packed) { return packed; }
    auto rest_leaving = outgoing;
    for_each_peer(pack, [&](std::uint32_t peer) {
      std::size_t const size = bytes(pack, peer, to_heads, arrays);
      if (head_bytes_ > 0 && size > 0) { std::memcpy(rest_leaving.data(), &head_, sizeof(head_)); }
      done = note(size == 0, sends_,
                  [&] { return comm.send(rest_leaving.first(size), rank_of(pack, peer)); });
      rest_leaving = rest_leaving.subspan(size);
      return done.has_value();
    });
    coming_ = coming;
    return done ? comm.start() : done;
  }

  template <point_to_point C, pack_mover Mover>
  [[nodiscard]] result<void> end(C& comm, Mover& mover, std::size_t place, head_direction direction,
                                 std::span<head_array const> arrays)
  {
    for (auto* const transfers : {&receives_, &sends_}) {
      while (!transfers->empty()) {
        auto const done = comm.wait_for(transfers->back());
        bool const has_ended = done || done.error().code == error_code::mismatch;
        if (has_ended) { transfers->pop_back(); }
        if (!done) { return done; }
      }
    }
    auto const arrived = incoming_.first(coming_);
    if constexpr (Mover::reads_messages) {
      sharded_pack const& pack = mover.packs()[place];
      message_heads heads(head_);
      std::span<std::byte const> rest = arrived;
      for_each_peer(pack, [&](std::uint32_t peer) {
        std::size_t const size = bytes(pack, peer, direction == head_direction::to_tokens, arrays);
        if (size > 0) { heads.take(rest, rank_of(pack, peer)); }
        rest = rest.subspan(size);
        return true;
      });
      if (auto told = heads.told("receive"); !told) { return told; }
    }
    return mover.unpack(place, direction, arrays, arrived);
  }

  /// Memory that is still in use is given up.
  template <point_to_point C>
  void release(C& comm)
  {
    for (auto const& [transfers, bytes] :
         {std::pair(&receives_, &incoming_), std::pair(&sends_, &outgoing_)}) {
      bool in_use = false;
      for (transfer_id const each : *transfers) { in_use = !comm.cancel(each) || in_use; }
      transfers->clear();
      if (in_use) { bytes->leak(); }
    }
  }

 private:
  /// Bytes of the message between this GPU and a peer that has the tokens or the heads of this GPU.
  [[nodiscard]] std::size_t bytes(sharded_pack const& pack, std::uint32_t peer, bool own_tokens,
                                  std::span<head_array const> arrays) const
  {
    std::size_t const blocks = own_tokens ? message_bytes(pack.plan, pack.gpu, peer, arrays)
                                          : message_bytes(pack.plan, peer, pack.gpu, arrays);
    return blocks == 0 ? 0 : head_bytes_ + blocks;
  }

  [[nodiscard]] static rank_id rank_of(sharded_pack const& pack, std::uint32_t gpu)
  {
    return to_id<rank_id>(to_index(pack.group.first) + gpu);
  }

  /// Calls visit(peer) in the order of the messages, until it returns false.
  template <class Visit>
  static void for_each_peer(sharded_pack const& pack, Visit visit)
  {
    for (std::uint32_t peer = 0; peer < pack.group.gpus; ++peer) {
      if (peer != pack.gpu && !visit(peer)) { return; }
    }
  }

  /// Begins a transfer, unless it is of nothing.
  template <class Begin>
  [[nodiscard]] static result<void> note(bool is_empty, std::vector<transfer_id>& transfers,
                                         Begin begin)
  {
    if (is_empty) { return {}; }
    auto const begun = begin();
    if (!begun) { return tl::unexpected(begun.error()); }
    transfers.push_back(*begun);
    return {};
  }

  message_array<Allocator> outgoing_;
  message_array<Allocator> incoming_;
  std::size_t coming_ = 0;  ///< bytes of the exchange that is under way
  message_head head_;       ///< of its messages
  std::size_t head_bytes_ = 0;
  std::vector<transfer_id> sends_;
  std::vector<transfer_id> receives_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_HEAD_MESSAGES_HPP
