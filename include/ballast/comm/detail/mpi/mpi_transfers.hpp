// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_TRANSFERS_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_TRANSFERS_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/detail/mpi/mpi_channel.hpp>
#include <ballast/comm/detail/mpi/mpi_failure.hpp>
#include <ballast/comm/detail/mpi/mpi_requests.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The transfers between two ranks of a group: non-blocking messages of MPI, tested one transfer at
/// a time. Each is cut into parts of `largest_message` bytes and a shorter one, perhaps empty,
/// which is last; what comes is the channel's affair (mpi_incoming).
///
/// Expects     what `point_to_point` says; transfers under way when it is destroyed are cancelled.
/// Ensures     (1) a transfer allocates only where there were never as many, or never as large ones
///             (2) what allocates comes before the first message of a transfer
///             (3) a message of another size than expected writes nothing past the end, and does
///                 not meet a later receive
/// Errors      mismatch, of receives; those of mpi_requests.
class mpi_transfers {
 public:
  mpi_transfers(std::shared_ptr<mpi_channel> channel, mpi_communicator_options options)
      : channel_(std::move(channel)), largest_(options.largest_message)
  {}
  mpi_transfers(mpi_transfers const&) = delete;
  mpi_transfers& operator=(mpi_transfers const&) = delete;
  ~mpi_transfers()
  {
    if (!mpi_is_running()) { return; }
    for (transfer& each : all_) {
      if (each.under_way) { (void)withdraw(each); }
    }
  }

  void open(int tag, std::vector<int> members)
  {
    members_ = std::move(members);
    tag_ = tag;
  }

  /// From now on it cuts messages at this size.
  void cut_at(std::size_t largest) noexcept { largest_ = largest; }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, std::size_t peer)
  {
    transfer& own = room();
    own.parts.assign(bytes.size() / largest_ + 1, MPI_REQUEST_NULL);
    transfer_id const id = begin({true, true, peer, bytes.size(), 0, std::move(own.parts)});
    for (MPI_Request& part : at(id).parts) {
      auto const size = std::min(bytes.size(), largest_);
      int const code = MPI_Isend(bytes.data(), static_cast<int>(size), MPI_BYTE, members_[peer],
                                 tag_, channel_->pairs, &part);
      if (code != MPI_SUCCESS) { return mpi_failure("MPI_Isend", code); }
      bytes = bytes.subspan(size);
    }
    return id;
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, std::size_t peer)
  {
    transfer& own = room();
    std::size_t const message =
        channel_->incoming.begin(channel_->pairs, members_[peer], tag_, bytes, largest_);
    return begin({false, true, peer, bytes.size(), message, std::move(own.parts)});
  }

  /// The name of the call that began a transfer.
  [[nodiscard]] char const* call_of(transfer_id id) { return name_of(at(id)); }

  /// Whether it has ended; wait_for says how.
  [[nodiscard]] result<bool> is_done(transfer_id id)
  {
    channel_->incoming.look();
    return test(at(id));
  }

  [[nodiscard]] result<void> wait_for(transfer_id id, mpi_requests& requests)
  {
    transfer& own = at(id);
    auto done = requests.wait_for(name_of(own), own.peer, [&] { return test(own); });
    if (!done) { return done; }  // it stays, for cancel
    std::size_t const theirs = own.sends ? own.bytes : channel_->incoming.end(own.message);
    release(id);
    if (theirs == own.bytes) { return {}; }
    return comm_failure::different_message(name_of(own), to_id<rank_id>(own.peer), own.bytes,
                                           theirs);
  }

  [[nodiscard]] bool cancel(transfer_id id)
  {
    bool const unused = withdraw(at(id));
    release(id);
    return unused;
  }

 private:
  struct transfer {
    bool sends = false;
    bool under_way = false;
    std::size_t peer = 0;
    std::size_t bytes = 0;
    std::size_t message = 0;         // its number among the channel's, if it receives
    std::vector<MPI_Request> parts;  // if it sends
  };

  [[nodiscard]] static char const* name_of(transfer const& each)
  {
    return each.sends ? "send" : "receive";
  }

  [[nodiscard]] transfer& at(transfer_id id)
  {
    BALLAST_EXPECTS(to_index(id) < all_.size() && all_[to_index(id)].under_way, "transfer ",
                    to_index(id), " is not under way");
    return all_[to_index(id)];
  }

  /// Returns the place of the next transfer.
  [[nodiscard]] transfer& room()
  {
    if (unused_.empty()) {
      unused_.reserve(all_.size() + 1);  // for all to end, which must not allocate
      all_.emplace_back();
      unused_.push_back(all_.size() - 1);
    }
    return all_[unused_.back()];
  }

  [[nodiscard]] transfer_id begin(transfer&& own)
  {
    auto const id = to_id<transfer_id>(unused_.back());
    all_[unused_.back()] = std::move(own);
    unused_.pop_back();
    return id;
  }

  [[nodiscard]] result<bool> test(transfer& own) const
  {
    if (!own.sends) { return channel_->incoming.is_done(own.message); }
    bool done = true;
    for (MPI_Request& part : own.parts) {
      if (part == MPI_REQUEST_NULL) { continue; }
      int ended = 0;
      int const code = MPI_Test(&part, &ended, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) { return mpi_failure("MPI_Test", code); }
      done = done && ended != 0;
    }
    return done;
  }

  /// Ends what is left of a transfer; returns whether MPI no longer uses its bytes.
  [[nodiscard]] bool withdraw(transfer& own) const
  {
    if (!own.sends) { return channel_->incoming.cancel(own.message); }
    bool unused = true;
    for (MPI_Request& part : own.parts) {
      if (part == MPI_REQUEST_NULL) { continue; }
      int ended = 0;
      if (MPI_Test(&part, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended != 0) { continue; }
      unused = false;
      if (part != MPI_REQUEST_NULL) { MPI_Request_free(&part); }
    }
    return unused;
  }

  void release(transfer_id id)
  {
    at(id).under_way = false;
    unused_.push_back(to_index(id));
  }

  std::shared_ptr<mpi_channel> channel_;
  std::size_t largest_;
  std::vector<int> members_;  // their ranks in the channel's communicators
  int tag_ = 0;
  std::vector<transfer> all_;
  std::vector<std::size_t> unused_;  // places among them
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_TRANSFERS_HPP
