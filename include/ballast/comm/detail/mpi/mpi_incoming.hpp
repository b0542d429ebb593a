// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_INCOMING_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_INCOMING_HPP

#include <ballast/comm/detail/mpi/mpi_failure.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Messages that are expected, and whose size nobody has compared yet: those of all groups of a
/// channel, each cut into parts of `largest` bytes and a shorter one, perhaps empty, which is last.
///
/// MPI is given a receiver's array only for a part that is known to fit (a matched probe). A receive
/// for less than is sent would not do: from another process of the machine and over TCP, Open MPI
/// 4.1 copies the whole message, also past the end of the array, and says MPI_ERR_TRUNCATE then.
///
/// The first receive from a rank takes that rank's first message, and so on. So look() is to be
/// called wherever a rank of the channel waits: until then a large message stays with its sender.
///
/// Expects     a message is expected once, and ended or cancelled once.
/// Ensures     (1) nothing is written past the end of a receiver's array, whatever is sent
///             (2) a message of another size is received as well, to its end, so that it does not
///                 meet a later receive
///             (3) all functions may be called from several threads
///             (4) begin() allocates only where there were never as many messages, or never as large
///                 ones, and the rest only for messages that are longer than expected
class mpi_incoming {
 public:
  /// Begins to receive from a rank of `comm`; returns the number of the message here.
  [[nodiscard]] std::size_t begin(MPI_Comm comm, int source, int tag, std::span<std::byte> bytes,
                                  std::size_t largest)
  {
    std::lock_guard const lock(mutex_);
    if (unused_.empty()) {
      waiting_.reserve(all_.size() + 1);
      unused_.reserve(all_.size() + 1);  // for all to end, which must not allocate
      all_.emplace_back();
      unused_.push_back(all_.size() - 1);
    }
    std::size_t const number = unused_.back();
    message& own = all_[number];
    own.parts.clear();
    own.parts.reserve(bytes.size() / largest + 1);
    unused_.pop_back();
    own = {comm, source, tag, bytes, largest, 0, false, MPI_SUCCESS, std::move(own.parts)};
    own.is_first = std::none_of(waiting_.begin(), waiting_.end(),
                                [&](std::size_t each) { return are_from_one(own, all_[each]); });
    waiting_.push_back(number);
    ++expected_;
    if (own.is_first) { look_for(number); }
    return number;
  }

  /// Receives what has come.
  void look()
  {
    if (expected_ == 0) { return; }
    std::lock_guard const lock(mutex_);
    // A message that has come makes way for the next one of its sender, further on.
    for (std::size_t place = 0; place < waiting_.size();) {
      std::size_t const number = waiting_[place];
      if (!all_[number].is_first || !look_for(number)) { ++place; }
    }
  }

  /// Whether all of the message has come; look() does not come first.
  [[nodiscard]] result<bool> is_done(std::size_t number)
  {
    std::lock_guard const lock(mutex_);
    message& own = all_[number];
    bool done = own.has_come();
    for (part& each : own.parts) {
      if (own.code != MPI_SUCCESS) { return mpi_failure("MPI_Imrecv", own.code); }
      if (each.request == MPI_REQUEST_NULL) { continue; }
      int ended = 0;
      own.code = MPI_Test(&each.request, &ended, MPI_STATUS_IGNORE);
      done = done && ended != 0;
    }
    if (own.code != MPI_SUCCESS) { return mpi_failure("MPI_Improbe", own.code); }
    return done;
  }

  /// After is_done(): returns how many bytes the message had, and forgets it.
  [[nodiscard]] std::size_t end(std::size_t number)
  {
    std::lock_guard const lock(mutex_);
    unused_.push_back(number);
    return all_[number].received;
  }

  /// Expects the message no longer; returns whether MPI does not use the array.
  [[nodiscard]] bool cancel(std::size_t number)
  {
    std::lock_guard const lock(mutex_);
    message& own = all_[number];
    if (auto const place = std::find(waiting_.begin(), waiting_.end(), number);
        place != waiting_.end()) {
      stop_waiting(place);
    }
    bool unused = true;
    for (part& each : own.parts) {
      int ended = 0;
      if (each.request == MPI_REQUEST_NULL ||
          (MPI_Test(&each.request, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended != 0)) {
        continue;
      }
      unused = false;
      if (each.request != MPI_REQUEST_NULL) { MPI_Request_free(&each.request); }
      (void)new std::vector<std::byte>(std::move(each.elsewhere));  // MPI may still write there
    }
    unused_.push_back(number);
    return unused;
  }

 private:
  struct part {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> elsewhere;  // its bytes, where the array has no room
  };

  struct message {
    MPI_Comm comm = MPI_COMM_NULL;
    int source = 0;
    int tag = 0;
    std::span<std::byte> bytes;
    std::size_t largest = 0;
    std::size_t received = 0;  // or on their way here
    bool is_first = false;     // of those that wait for this sender
    int code = MPI_SUCCESS;
    std::vector<part> parts;  // that have begun to arrive
    bool has_last = false;    // part among them

    [[nodiscard]] bool has_come() const noexcept { return has_last || code != MPI_SUCCESS; }
  };

  [[nodiscard]] static bool are_from_one(message const& one, message const& other)
  {
    return one.comm == other.comm && one.source == other.source && one.tag == other.tag;
  }

  /// Receives the parts that have come; returns whether the message waits for none.
  [[nodiscard]] bool look_for_parts(message& own)
  {
    while (!own.has_come()) {
      int found = 0;
      MPI_Message next = MPI_MESSAGE_NULL;
      MPI_Status status{};
      own.code = MPI_Improbe(own.source, own.tag, own.comm, &found, &next, &status);
      if (own.code != MPI_SUCCESS || found == 0) { break; }
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      auto const size = static_cast<std::size_t>(count);
      part& into = own.parts.emplace_back();
      auto room = own.bytes.subspan(std::min(own.received, own.bytes.size()));
      if (size > room.size()) {
        into.elsewhere.resize(size);
        room = std::span(into.elsewhere.data(), size);
      }
      own.code = MPI_Imrecv(room.data(), count, MPI_BYTE, &next, &into.request);
      own.received += size;
      own.has_last = size < own.largest;
    }
    return own.has_come();
  }

  /// The same; such a message waits no longer.
  bool look_for(std::size_t number)
  {
    if (!look_for_parts(all_[number])) { return false; }
    stop_waiting(std::find(waiting_.begin(), waiting_.end(), number));
    return true;
  }

  void stop_waiting(std::vector<std::size_t>::iterator place)
  {
    message const& own = all_[*place];
    auto const after = waiting_.erase(place);
    --expected_;
    if (!own.is_first) { return; }
    auto const next = std::find_if(after, waiting_.end(),
                                   [&](std::size_t each) { return are_from_one(own, all_[each]); });
    if (next != waiting_.end()) { all_[*next].is_first = true; }
  }

  std::mutex mutex_;
  std::vector<message> all_;
  std::vector<std::size_t> unused_;        // places among them
  std::vector<std::size_t> waiting_;       // for a part, in the order in which they were begun
  std::atomic<std::size_t> expected_ = 0;  // as many
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_INCOMING_HPP
