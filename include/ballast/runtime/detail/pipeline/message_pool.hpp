// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PIPELINE_MESSAGE_POOL_HPP
#define BALLAST_RUNTIME_DETAIL_PIPELINE_MESSAGE_POOL_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/detail/message_array.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/route/row_array.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

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

  /// Copies bytes of rows.
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

  /// Waits until all has gone.
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

  /// Memory of all blocks.
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PIPELINE_MESSAGE_POOL_HPP
