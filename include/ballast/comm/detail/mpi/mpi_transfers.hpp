// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_TRANSFERS_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_TRANSFERS_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/detail/mpi/mpi_channel.hpp>
#include <ballast/comm/detail/mpi/mpi_requests.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The transfers between two ranks of a group: non-blocking messages of MPI, tested one transfer at
/// a time. Each is cut into parts of `largest_message` bytes and a shorter one, perhaps empty,
/// which is last: so messages of different sizes differ in a part that both have.
///
/// Expects     what `point_to_point` says; transfers under way when it is destroyed are cancelled.
/// Ensures     (1) a transfer allocates only where there were never as many, or never as large ones
///             (2) what allocates comes before the first message of a transfer
///             (3) a message that is longer than expected does not write past the end
///             (4) MPI does not use the bytes of a transfer that has ended with a mismatch
/// Errors      mismatch, of receives; those of mpi_requests. Where a message has more parts than
///             its receive, later receives from that rank find those that are left; where it has
///             fewer, the receive takes parts of later sends that come before it is waited for.
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
    for (transfer& each : all_) { (void)withdraw(each); }
  }

  void open(int tag, std::vector<int> members)
  {
    members_ = std::move(members);
    tag_ = tag;
  }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, std::size_t peer)
  {
    return begin(true, bytes, peer, [&](std::span<std::byte const> part, MPI_Request* request) {
      return MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, members_[peer], tag_,
                       channel_->pairs, request);
    });
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, std::size_t peer)
  {
    return begin(false, bytes, peer, [&](std::span<std::byte> part, MPI_Request* request) {
      return MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, members_[peer], tag_,
                       channel_->pairs, request);
    });
  }

  /// Whether it has ended; wait_for says how.
  [[nodiscard]] result<bool> is_done(transfer_id id) { return test(at(id)); }

  [[nodiscard]] result<void> wait_for(transfer_id id, mpi_requests& requests)
  {
    transfer& own = at(id);
    auto done = requests.wait_for(name_of(own), own.peer, [&] { return test(own); });
    if (!done) { return done; }  // it stays, for cancel
    bool const differs = own.differs;
    release(id);
    if (!differs) { return {}; }
    std::optional<std::size_t> const theirs =
        own.longer ? std::nullopt : std::optional(own.received);
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
    std::size_t received = 0;
    bool differs = false;  // from what has come
    bool longer = false;   // is what has come
    std::vector<MPI_Request> parts;
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

  template <class Byte, class Start>
  [[nodiscard]] result<transfer_id> begin(bool sends, std::span<Byte> bytes, std::size_t peer,
                                          Start start)
  {
    if (unused_.empty()) {
      unused_.reserve(all_.size() + 1);  // for all to end, which must not allocate
      all_.emplace_back();
      unused_.push_back(all_.size() - 1);
    }
    transfer& own = all_[unused_.back()];
    own.parts.assign(bytes.size() / largest_ + 1, MPI_REQUEST_NULL);
    own = {sends, true, peer, bytes.size(), 0, false, false, std::move(own.parts)};
    auto const id = to_id<transfer_id>(unused_.back());
    unused_.pop_back();
    for (MPI_Request& part : own.parts) {
      auto const size = std::min(bytes.size(), largest_);
      if (int const code = start(bytes.first(size), &part); code != MPI_SUCCESS) {
        return mpi_failure(sends ? "MPI_Isend" : "MPI_Irecv", code);
      }
      bytes = bytes.subspan(size);
    }
    return id;
  }

  [[nodiscard]] result<bool> test(transfer& own) const
  {
    bool const differed = own.differs;
    bool done = true;
    for (MPI_Request& part : own.parts) {
      if (part == MPI_REQUEST_NULL) { continue; }
      MPI_Status status{};
      int ended = 0;
      int const code = MPI_Test(&part, &ended, &status);
      int kind = MPI_SUCCESS;
      if (code != MPI_SUCCESS) { MPI_Error_class(code, &kind); }
      if (kind == MPI_ERR_TRUNCATE) {
        own.differs = true;
        own.longer = true;
        if (part != MPI_REQUEST_NULL) { MPI_Request_free(&part); }  // it is over
      } else if (code != MPI_SUCCESS) {
        return mpi_failure("MPI_Test", code);
      } else if (ended == 0) {
        done = false;
      } else if (!own.sends) {
        take(own, part_bytes(own, &part), status);
      }
    }
    // Those parts that will not come end now, the others when they have come: until then MPI
    // writes.
    if (own.differs && !differed) { cancel_parts(own); }
    return done;
  }

  static void take(transfer& own, std::size_t expected, MPI_Status const& status)
  {
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    if (cancelled != 0) { return; }
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    own.received += static_cast<std::size_t>(count);
    own.differs = own.differs || static_cast<std::size_t>(count) != expected;
  }

  [[nodiscard]] std::size_t part_bytes(transfer const& own, MPI_Request const* part) const
  {
    auto const before = static_cast<std::size_t>(part - own.parts.data()) * largest_;
    return std::min(largest_, own.bytes - before);
  }

  static void cancel_parts(transfer& own)
  {
    for (MPI_Request& part : own.parts) {
      if (part != MPI_REQUEST_NULL) { MPI_Cancel(&part); }
    }
  }

  /// Ends what is left of a transfer; returns whether MPI no longer uses its bytes.
  [[nodiscard]] static bool withdraw(transfer& own)
  {
    if (!own.sends && !own.differs) { cancel_parts(own); }  // if it differs they are cancelled
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
