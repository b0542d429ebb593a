// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

namespace ballast::inline v0 {

namespace detail {

/// An allocation, as its process tells others of it.
struct lent_allocation {
  std::byte* begin;  ///< its address in that process
  std::uint64_t bytes;
  cudaIpcMemHandle_t handle;
};

/// Device memory that other processes reach, and what this one has opened of theirs.
///
/// It is allocated here and kept until the end: a handle names a whole allocation of cudaMalloc,
/// and CUDA leaves undefined what happens if that is freed while another process has it open.
///
/// Expects     the same device is current in all calls.
/// Ensures     (1) an allocation is opened once, when it is first reached
///             (2) memory is a multiple of 2 MiB, so that no handle lends what others allocated
///             (3) nothing is freed unless free() is called: memory that a peer may have open stays
///                 until the process ends
class lent_memory {
 public:
  /// At least as many bytes.
  [[nodiscard]] result<std::span<std::byte>> lend(std::size_t bytes)
  {
    constexpr std::size_t unit = std::size_t{1} << 21U;
    std::size_t const room = (bytes + unit - 1) / unit * unit;
    void* memory = nullptr;
    if (auto const code = cudaMalloc(&memory, room); code != cudaSuccess) {
      return cuda_failure("cudaMalloc", code);
    }
    lent_allocation made{static_cast<std::byte*>(memory), room, {}};
    if (auto const code = cudaIpcGetMemHandle(&made.handle, memory); code != cudaSuccess) {
      auto const why = cuda_failure("cudaIpcGetMemHandle", code);
      (void)cudaFree(memory);
      return why;
    }
    own_.push_back(made);
    return std::span(static_cast<std::byte*>(memory), room);
  }

  /// The own allocation in which all of the array lies, or nullptr.
  [[nodiscard]] lent_allocation const* find(std::span<std::byte const> array) const
  {
    auto const address = [](std::byte const* at) { return reinterpret_cast<std::uintptr_t>(at); };
    for (lent_allocation const& each : own_) {
      if (address(array.data()) < address(each.begin)) { continue; }
      std::uintptr_t const offset = address(array.data()) - address(each.begin);
      if (offset + array.size() <= each.bytes) { return &each; }
    }
    return nullptr;
  }

  /// Where this process sees another's array, which lies in that allocation.
  [[nodiscard]] result<std::span<std::byte const>> reach(lent_allocation const& of_peer,
                                                         std::span<std::byte const> there)
  {
    std::ptrdiff_t const offset = there.data() - of_peer.begin;
    for (opened const& each : opened_) {
      if (std::memcmp(&each.handle, &of_peer.handle, sizeof(each.handle)) == 0) {
        return std::span<std::byte const>(each.memory + offset, there.size());
      }
    }
    void* memory = nullptr;
    auto const code = cudaIpcOpenMemHandle(&memory, of_peer.handle, cudaIpcMemLazyEnablePeerAccess);
    if (code != cudaSuccess) { return cuda_failure("cudaIpcOpenMemHandle", code); }
    opened_.push_back({of_peer.handle, static_cast<std::byte*>(memory)});
    return std::span<std::byte const>(opened_.back().memory + offset, there.size());
  }

  /// Closes what is other processes'. Expects that no copy uses it.
  void close()
  {
    for (opened const& each : opened_) { (void)cudaIpcCloseMemHandle(each.memory); }
    opened_.clear();
  }

  /// Frees what is this process's. Expects that no other process has it open.
  void free()
  {
    for (lent_allocation const& each : own_) { (void)cudaFree(each.begin); }
    own_.clear();
  }

 private:
  struct opened {
    cudaIpcMemHandle_t handle;
    std::byte* memory;
  };

  std::vector<lent_allocation> own_;
  std::vector<opened> opened_;
};

/// What a rank's process tells others, so that they reach its events and some of its memory.
struct process_rank_handles {
  cudaIpcEventHandle_t ready;
  cudaIpcEventHandle_t taken;
  lent_allocation memory;  ///< of 0 bytes if the rank could not be made
};

/// Makes this process's rank; the stream's device becomes the current one.
[[nodiscard]] inline result<std::shared_ptr<copy_engine_rank const>> make_process_rank(
    cudaStream_t stream, current_device const& current, lent_memory& memory,
    process_rank_handles& handles)
{
  int device = 0;
  if (auto const code = cudaStreamGetDevice(stream, &device); code != cudaSuccess) {
    return cuda_failure("cudaStreamGetDevice", code);
  }
  if (auto set = current.set(device); !set) { return tl::unexpected(std::move(set).error()); }
  auto ready = cuda_event::make_for_processes();
  if (!ready) { return tl::unexpected(std::move(ready).error()); }
  auto taken = cuda_event::make_for_processes();
  if (!taken) { return tl::unexpected(std::move(taken).error()); }
  auto const of_ready = ready->handle();
  if (!of_ready) { return tl::unexpected(of_ready.error()); }
  auto const of_taken = taken->handle();
  if (!of_taken) { return tl::unexpected(of_taken.error()); }
  auto const lent = memory.lend(1);
  if (!lent) { return tl::unexpected(lent.error()); }
  handles = {*of_ready, *of_taken, *memory.find(*lent)};
  return std::make_shared<copy_engine_rank const>(
      copy_engine_rank{stream, *std::move(ready), *std::move(taken)});
}

/// Opens what another process told. Its stream cannot be reached, and is null.
[[nodiscard]] inline result<std::shared_ptr<copy_engine_rank const>> open_process_rank(
    process_rank_handles const& handles, lent_memory& memory)
{
  auto ready = cuda_event::open(handles.ready);
  if (!ready) { return tl::unexpected(std::move(ready).error()); }
  auto taken = cuda_event::open(handles.taken);
  if (!taken) { return tl::unexpected(std::move(taken).error()); }
  if (auto const reached = memory.reach(handles.memory, {handles.memory.begin, 1}); !reached) {
    return tl::unexpected(reached.error());
  }
  return std::make_shared<copy_engine_rank const>(
      copy_engine_rank{nullptr, *std::move(ready), *std::move(taken)});
}

/// The error of `rank`, whose handles were refused.
[[nodiscard]] inline tl::unexpected<error> cannot_open_process_rank(std::size_t rank, error why)
{
  why.message += concat("; rank ", rank,
                        "'s memory and events cannot be opened here: give ranks processes of "
                        "their own, on one machine whose GPUs reach each other");
  return comm_failure::of_rank(to_id<rank_id>(rank), tl::unexpected<error>(std::move(why)));
}

/// The calls of a group of processes of one machine: what thread_meeting is for threads. Offers
/// travel over a communicator of the hosts, and peers' arrays are reached by CUDA's handles.
///
/// Each turn is two all-gathers: of the offers, which every rank then compares, and of a byte once
/// a rank has taken what is for it. A rank that leaves makes the first of the two.
///
/// Ensures     (1) all ranks see the same offers, so they agree on which all-gather comes next
///             (2) memory is freed if all ranks have left in the same turn and had closed it
/// Complexity  a rank sends some 160 + 16 P bytes a turn; O(P^2) for the comparison.
template <communicator Host>
class process_meeting {
 public:
  /// A rank of a new group.
  struct place {
    std::shared_ptr<process_meeting> group;
    std::size_t rank = 0;
  };

  /// A rank of a new group, and what it knows of its peers' streams.
  struct joined {
    std::shared_ptr<process_meeting> group;
    copy_engine_ranks ranks;
  };

  explicit process_meeting(Host host)
      : host_(std::move(host)),
        offers_(host_.size()),
        peers_(host_.size()),
        own_(words_of_rank()),
        all_(words_of_rank() * host_.size()),
        tokens_(host_.size())
  {}

  [[nodiscard]] std::size_t size() const noexcept { return offers_.size(); }
  [[nodiscard]] std::size_t rank() const { return to_index(host_.rank()); }

  /// Collective. Every rank opens all others' events and some of their memory, so that a machine
  /// that cannot says so here, on every rank.
  [[nodiscard]] static result<joined> join(Host host, cudaStream_t stream)
  {
    auto const group = std::make_shared<process_meeting>(std::move(host));
    auto ranks = group->introduce(stream);
    if (!ranks) {
      group->close();
      return tl::unexpected(std::move(ranks).error());
    }
    return joined{group, *std::move(ranks)};
  }

  /// One turn: runs take() once all offers are there and agree.
  template <class Take>
  [[nodiscard]] result<void> meet(std::size_t self, call_offers::rank_offer const& offer, Take take)
  {
    if (auto heard = tell(offer, presence::stays); !heard) { return heard; }
    std::vector<rank_id> left;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (peers_[peer].is != presence::stays) { left.push_back(to_id<rank_id>(peer)); }
    }
    if (!left.empty()) {
      is_over_ = true;
      return comm_failure::peer_lost(offer.call.name(), std::move(left));
    }
    if (!offers_.all_agree()) { return offers_.mismatch(self); }
    try {
      take();
    } catch (...) {
      (void)part();
      throw;
    }
    return part();
  }

  /// Tells the others that this rank will make no further call: waits for their next one, at most
  /// as long as the host's communicator does.
  void leave(std::size_t)
  {
    if (std::exchange(is_over_, true)) { return; }
    auto const heard = tell({}, is_closed_ ? presence::has_closed : presence::leaves);
    all_have_closed_ = heard && std::all_of(peers_.begin(), peers_.end(), [](told const& each) {
                         return each.is == presence::has_closed;
                       });
  }

  /// Closes what is the peers', if no copy can use it any more, leaves, and frees what is this
  /// rank's. What peers may have open stays until the process ends.
  void end(copy_engine_ranks& ranks, bool is_idle)
  {
    std::shared_ptr<copy_engine_rank const> own = std::move(ranks[rank()]);
    if (is_idle) {
      ranks.clear();
      close();
    }
    leave(rank());
    if (all_have_closed_) {
      memory_.free();
    } else {
      static auto& kept = *new std::vector<std::shared_ptr<copy_engine_rank const>>();
      kept.push_back(std::move(own));
    }
  }

  /// Device memory that peers reach, until the group ends.
  [[nodiscard]] result<std::span<std::byte>> lend(std::size_t bytes)
  {
    return memory_.lend(bytes).map([&](std::span<std::byte> all) { return all.first(bytes); });
  }

  /// Where to copy what is to be sent, so that peers reach it; nullptr if they reach it already.
  [[nodiscard]] result<std::byte*> staging_for(std::span<std::byte const> send)
  {
    if (send.empty() || memory_.find(send) != nullptr) { return nullptr; }
    if (staging_.size() < send.size()) {
      auto more = memory_.lend(std::max(send.size(), 2 * staging_.size()));
      if (!more) { return tl::unexpected(std::move(more).error()); }
      staging_ = *more;
    }
    return staging_.data();
  }

  // To be called by take() only.

  /// Arrays are where they lie in their own processes; reach() gives where this one sees them.
  [[nodiscard]] call_offers const& offers() const noexcept { return offers_; }

  [[nodiscard]] result<std::span<std::byte const>> reach(std::size_t peer,
                                                         std::span<std::byte const> there)
  {
    auto here = memory_.reach(peers_[peer].memory, there);
    return here ? here : cannot_open_process_rank(peer, here.error());
  }

  [[nodiscard]] result<place> place_in_part(std::size_t self)
  {
    return host_.split(offers_[self].colour).map([](Host part) {
      std::size_t const rank = to_index(part.rank());
      return place{std::make_shared<process_meeting>(std::move(part)), rank};
    });
  }

 private:
  enum class presence : std::uint64_t { stays, leaves, has_closed };

  /// What a rank tells of an offer; all_to_all_v's counts follow it.
  struct told {
    presence is;
    collective operation;
    rank_id root;
    std::uint64_t bytes;
    std::uint64_t content;
    std::uint64_t colour;
    std::byte const* send;
    std::uint64_t send_size;
    lent_allocation memory;  // in which it lies
  };

  static_assert(std::is_trivially_copyable_v<told>);
  static_assert(sizeof(told) % sizeof(std::size_t) == 0);

  static constexpr std::size_t words_of_told = sizeof(told) / sizeof(std::size_t);

  void close()
  {
    memory_.close();
    is_closed_ = true;
  }

  [[nodiscard]] std::size_t words_of_rank() const { return words_of_told + 2 * host_.size(); }

  /// Tells the offer, and hears all.
  [[nodiscard]] result<void> tell(call_offers::rank_offer const& offer, presence is)
  {
    told mine{is,
              offer.call.operation,
              offer.call.root,
              offer.call.bytes,
              offer.call.content,
              offer.colour,
              offer.send.data(),
              offer.send.size(),
              {}};
    if (auto const* const lies_in = memory_.find(offer.send)) { mine.memory = *lies_in; }
    std::memcpy(own_.data(), &mine, sizeof(mine));
    std::size_t* const counts = own_.data() + words_of_told;
    std::copy(offer.send_bytes.begin(), offer.send_bytes.end(), counts);
    std::copy(offer.receive_bytes.begin(), offer.receive_bytes.end(), counts + size());
    auto heard = gather(std::as_bytes(std::span(own_)), std::as_writable_bytes(std::span(all_)));
    if (!heard) {
      is_over_ = true;
      return heard;
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      std::size_t const* const words = all_.data() + peer * words_of_rank();
      told& theirs = peers_[peer];
      std::memcpy(static_cast<void*>(&theirs), words, sizeof(theirs));
      std::size_t const each = theirs.operation == collective::all_to_all_v ? size() : 0;
      call_offers::rank_offer made;
      made.call = {theirs.operation, theirs.bytes, theirs.root, theirs.content};
      made.send = {theirs.send, theirs.send_size};
      made.send_bytes = {words + words_of_told, each};
      made.receive_bytes = {words + words_of_told + size(), each};
      made.colour = static_cast<std::uint32_t>(theirs.colour);
      offers_.put(peer, made);
    }
    return {};
  }

  /// Waits until all ranks have taken what is for them.
  [[nodiscard]] result<void> part()
  {
    std::byte const token{};
    auto met = gather({&token, 1}, tokens_);
    if (!met) { is_over_ = true; }
    return met;
  }

  [[nodiscard]] result<void> gather(std::span<std::byte const> mine, std::span<std::byte> all)
  {
    auto gathered = host_.all_gather(mine, all);
    return gathered ? host_.wait() : gathered;
  }

  [[nodiscard]] result<copy_engine_ranks> introduce(cudaStream_t stream)
  {
    current_device const current;
    process_rank_handles mine{};
    auto own = make_process_rank(stream, current, memory_, mine);
    std::vector<process_rank_handles> cards(size());
    auto heard =
        gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(cards)));
    if (!heard) { return tl::unexpected(std::move(heard).error()); }

    copy_engine_ranks ranks(size());
    auto opened = own.map([&](auto const& made) {
      ranks[rank()] = made;
      staging_ = {mine.memory.begin, mine.memory.bytes};
    });
    for (std::size_t peer = 0; peer < size() && opened; ++peer) {
      if (peer == rank() || cards[peer].memory.bytes == 0) { continue; }
      auto const found = open_process_rank(cards[peer], memory_);
      opened = found.map([&](auto const& made) { ranks[peer] = made; });
      if (!opened) { opened = cannot_open_process_rank(peer, found.error()); }
    }
    std::byte const could{opened ? std::uint8_t{1} : std::uint8_t{0}};
    if (heard = gather({&could, 1}, tokens_); !heard) {
      return tl::unexpected(std::move(heard).error());
    }
    if (!opened) { return tl::unexpected(std::move(opened).error()); }
    std::vector<rank_id> failed;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (tokens_[peer] != std::byte{1}) { failed.push_back(to_id<rank_id>(peer)); }
    }
    if (!failed.empty()) { return comm_failure::peer_lost("join", std::move(failed)); }
    return ranks;
  }

  Host host_;
  call_offers offers_;
  std::vector<told> peers_;        // what each rank has told in this turn
  std::vector<std::size_t> own_;   // what this one tells, in words
  std::vector<std::size_t> all_;   // what all tell; offers_ has spans of it
  std::vector<std::byte> tokens_;  // [P]
  lent_memory memory_;
  std::span<std::byte> staging_;  // for what does not lie in lent memory
  bool is_over_ = false;          // no further turn begins
  bool is_closed_ = false;        // nothing of the peers' is open
  bool all_have_closed_ = false;  // nobody has anything of this rank's open
};

}  // namespace detail

/// A copy_engine_communicator whose ranks are processes of one machine, as most jobs have them: a
/// process for each GPU. They reach each other's memory and events by CUDA's inter-process handles
/// (CUDA IPC), and meet over `Host`, any communicator between them for the host's arrays.
///
///     using communicator = process_copy_engine_communicator<mpi_communicator>;
///     auto comm = communicator::join(std::move(host), stream);
///
/// join() and the destructor are collective. What is sent is first copied into memory which peers
/// have opened, within the GPU and on its stream, unless it lies in memory of lend().
///
/// Expects     what copy_engine_communicator expects, but arrays need be reached by the own GPU
///             alone. The stream's device is the thread's current one in every call. Nobody else
///             uses `host`.
/// Ensures     as for threads: the exchange is the same, and so are the bytes
/// Errors      those of copy_engine_communicator and of `host`, whose deadline holds where ranks
///             wait for each other; options.deadline holds for streams. From join, on every rank:
///             transport with the peer in `ranks` where its memory or events cannot be opened,
///             peer_lost elsewhere. A rank whose CUDA failed waits for its peers' next call, at most
///             until the host's deadline, and tells them there.
/// Complexity  a call is two all-gathers of `host`, of some 160 + 16 P bytes and of one byte a rank.
template <communicator Host, class Allocator = pinned_allocator<std::byte>>
using process_copy_engine_communicator =
    copy_engine_communicator<Allocator, detail::process_meeting<Host>>;

}  // namespace ballast::inline v0
