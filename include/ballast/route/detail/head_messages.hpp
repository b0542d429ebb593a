// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_HEAD_MESSAGES_HPP
#define BALLAST_ROUTE_DETAIL_HEAD_MESSAGES_HPP

#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/route/detail/message_head.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/pack_heads.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses_exchange.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// An exchange of heads among the GPUs of a group, and the memory of its messages: begin() packs
/// and begins to send, end() waits and unpacks. Both get the same pack, direction and arrays.
/// release() ends it after a failure. Each message begins with a word of these and the number of the
/// exchange.
///
/// Ensures     (1) between end() or release() and the next begin(), no transfer is under way
///             (2) begin() allocates only where messages are larger than ever before, and nothing
///                 after it has begun a transfer
template <class Allocator>
class head_messages {
 public:
  explicit head_messages(Allocator const& allocator) : outgoing_(allocator), incoming_(allocator) {}

  template <point_to_point C>
  [[nodiscard]] result<void> begin(C& comm, sharded_pack const& pack, head_direction direction,
                                   std::span<head_array const> arrays, std::uint64_t number)
  {
    head_ = {number, content_of(pack.plan, direction, arrays)};
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
    outgoing_.resize(std::max(outgoing_.size(), leaving));
    incoming_.resize(std::max(incoming_.size(), coming));
    auto rest_coming = mutable_span_of(incoming_, 0, coming);
    result<void> done;
    for_each_peer(pack, [&](std::uint32_t peer) {
      std::size_t const size = bytes(pack, peer, !to_heads, arrays);
      done = note(size == 0, receives_,
                  [&] { return comm.receive(rest_coming.first(size), rank_of(pack, peer)); });
      rest_coming = rest_coming.subspan(size);
      return done.has_value();
    });
    if (!done) { return done; }

    auto rest_leaving = mutable_span_of(outgoing_, 0, leaving);
    if (to_heads) {
      pack_to_heads(pack.plan, pack.gpu, arrays, rest_leaving, sizeof(head_));
    } else {
      pack_to_tokens(pack.plan, pack.gpu, arrays, rest_leaving, sizeof(head_));
    }
    for_each_peer(pack, [&](std::uint32_t peer) {
      std::size_t const size = bytes(pack, peer, to_heads, arrays);
      if (size > 0) { std::memcpy(rest_leaving.data(), &head_, sizeof(head_)); }
      done = note(size == 0, sends_,
                  [&] { return comm.send(rest_leaving.first(size), rank_of(pack, peer)); });
      rest_leaving = rest_leaving.subspan(size);
      return done.has_value();
    });
    coming_ = coming;
    return done ? comm.start() : done;
  }

  template <point_to_point C>
  [[nodiscard]] result<void> end(C& comm, sharded_pack const& pack, head_direction direction,
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
    bool const to_heads = direction == head_direction::to_heads;
    auto const arrived = span_of(incoming_).first(coming_);
    message_heads heads(head_);
    auto rest = arrived;
    for_each_peer(pack, [&](std::uint32_t peer) {
      std::size_t const size = bytes(pack, peer, !to_heads, arrays);
      if (size > 0) { heads.take(rest, rank_of(pack, peer)); }
      rest = rest.subspan(size);
      return true;
    });
    if (auto told = heads.told("receive"); !told) { return told; }
    if (to_heads) {
      unpack_to_heads(pack.plan, pack.gpu, arrays, arrived, sizeof(head_));
    } else {
      unpack_to_tokens(pack.plan, pack.gpu, arrays, arrived, sizeof(head_));
    }
    return {};
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
      if (in_use) { (void)new byte_array(std::move(*bytes)); }
    }
  }

 private:
  using byte_array = std::vector<std::byte, Allocator>;

  /// Bytes of the message between this GPU and a peer that has the tokens or the heads of this GPU.
  [[nodiscard]] static std::size_t bytes(sharded_pack const& pack, std::uint32_t peer,
                                         bool own_tokens, std::span<head_array const> arrays)
  {
    std::size_t const blocks = own_tokens ? message_bytes(pack.plan, pack.gpu, peer, arrays)
                                          : message_bytes(pack.plan, peer, pack.gpu, arrays);
    return blocks == 0 ? 0 : sizeof(message_head) + blocks;
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

  byte_array outgoing_;
  byte_array incoming_;
  std::size_t coming_ = 0;  ///< bytes of the exchange that is under way
  message_head head_;       ///< of its messages
  std::vector<transfer_id> sends_;
  std::vector<transfer_id> receives_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_HEAD_MESSAGES_HPP
