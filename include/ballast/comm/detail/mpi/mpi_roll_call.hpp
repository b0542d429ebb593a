// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_ROLL_CALL_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_ROLL_CALL_HPP

#include <ballast/core/ids.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ballast::inline v0::detail {

/// Finds out which ranks are missing when a wait has reached its deadline. Ranks send each other
/// empty messages on an MPI communicator that serves nothing else; mpi_requests decides when to
/// wait for these messages, and how long.
///
/// A rank calls the roll for the operation in which it waits, by that operation's number. Peers
/// that wait too reply that they are here. A rank that finds a roll call when it begins its next
/// operation replies that it is here if it has finished the operation of the roll call, else that
/// it is late. A rank that is not heard in time is missing. The others send it a message that says
/// so, and from then on it counts as late for all of them. So all ranks name the same ranks if
/// messages arrive in time. A rank that has finished the operation and computes is as silent as one
/// that hangs: it is missing too, unless it begins its next operation in time.
///
/// Ensures     (1) ranks that have heard each other agree on who is late
///             (2) nothing but open() and missing() throws
/// Complexity  O(P) messages for call(), and for each reply; is_settled() and missing() O(P).
class mpi_roll_call {
 public:
  enum class presence : int { unheard, here, late };

  void open(MPI_Comm control)
  {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(control, &rank);
    MPI_Comm_size(control, &size);
    roll_.assign(static_cast<std::size_t>(size), presence::unheard);
    rank_ = static_cast<std::size_t>(rank);
    control_ = control;
  }
  [[nodiscard]] bool is_open() const noexcept { return control_ != MPI_COMM_NULL; }

  /// Posts the receive of the next message; returns MPI's code.
  [[nodiscard]] int hear(MPI_Request& request) const
  {
    return MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &request);
  }

  /// Notes a message that has arrived.
  void take_down(MPI_Status const& message)
  {
    int const number = message.MPI_TAG / kinds;
    if (heard_ == 0 || is_after(number, called_)) { called_ = number; }
    ++heard_;
    int const kind = message.MPI_TAG % kinds;
    if (kind == missed) {
      roll_[rank_] = presence::late;
    } else {
      roll_[static_cast<std::size_t>(message.MPI_SOURCE)] = static_cast<presence>(kind);
    }
  }

  /// How many messages have arrived; a roll call has begun as soon as there is one.
  [[nodiscard]] std::size_t heard() const noexcept { return heard_; }

  /// This rank begins its next operation.
  void come() noexcept { operation_ = (operation_ + 1) % numbers; }

  /// Whether it is here or late for the roll call that has begun in the meantime.
  [[nodiscard]] presence standing() const noexcept
  {
    return is_after(operation_, called_) ? presence::here : presence::late;
  }

  /// Tells all peers that this rank is `own`, or that it is late if a peer has reported it missing.
  void call(presence own)
  {
    if (heard_ == 0) { called_ = operation_; }
    if (roll_[rank_] == presence::unheard) { roll_[rank_] = own; }
    tell_all();
  }

  /// Tells them again, if a peer has reported this rank missing since.
  void correct()
  {
    if (roll_[rank_] != told_) { tell_all(); }
  }

  /// Whether every rank has been heard and one of them is late. If none is late, this rank may be
  /// the late one, and a peer's message that says so may still be on its way.
  [[nodiscard]] bool is_settled() const
  {
    return std::count(roll_.begin(), roll_.end(), presence::unheard) == 0 &&
           std::count(roll_.begin(), roll_.end(), presence::late) > 0;
  }

  /// Returns the ranks that are not here, after sending each of them that it is missing.
  [[nodiscard]] std::vector<rank_id> missing() const
  {
    std::vector<rank_id> ranks;
    for (std::size_t peer = 0; peer < roll_.size(); ++peer) {
      if (roll_[peer] == presence::here) { continue; }
      ranks.push_back(to_id<rank_id>(peer));
      if (peer != rank_) { tell(peer, missed); }
    }
    return ranks;
  }

 private:
  // A tag is a presence, or `missed`, and the number of an operation. MPI guarantees tags below
  // 2^15, so numbers start again at 0; their order is known for ranks less than 4096 operations
  // apart.
  static constexpr int missed = 3;
  static constexpr int kinds = 4;
  static constexpr int numbers = 8192;

  [[nodiscard]] static constexpr bool is_after(int number, int other) noexcept
  {
    int const ahead = (number - other + numbers) % numbers;
    return ahead > 0 && ahead < numbers / 2;
  }

  void tell_all()
  {
    told_ = roll_[rank_];
    for (std::size_t peer = 0; peer < roll_.size(); ++peer) {
      if (peer != rank_) { tell(peer, static_cast<int>(told_)); }
    }
  }

  void tell(std::size_t peer, int kind) const
  {
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(peer), called_ * kinds + kind, control_,
              &sent);
    if (sent != MPI_REQUEST_NULL) { MPI_Request_free(&sent); }
  }

  MPI_Comm control_ = MPI_COMM_NULL;
  std::size_t rank_ = 0;
  std::vector<presence> roll_;
  presence told_ = presence::unheard;
  std::size_t heard_ = 0;
  int operation_ = 0;  // of this rank
  int called_ = 0;     // of the roll call
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_ROLL_CALL_HPP
