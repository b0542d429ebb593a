// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_MISSING_RANKS_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_MISSING_RANKS_HPP

#include <ballast/core/quantities.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Finds out which ranks are missing when a wait has reached its deadline. The ranks of a group
/// send each other messages with the group's tag on an MPI communicator that serves nothing else;
/// mpi_requests decides when to wait for these messages, and how long.
///
/// A rank calls the roll for the operation in which it waits, by that operation's number. Peers
/// that wait too reply that they are here. A rank that finds a roll call when it begins its next
/// operation replies that it is here if it has finished the operation of the roll call, else that
/// it is late. A rank that is not heard in time is missing. The others send it a message that says
/// so, and from then on it counts as late for all of them. So all ranks name the same ranks if
/// messages arrive in time. A rank that has finished the operation and computes is as silent as one
/// that hangs: it is missing too, unless it begins its next operation in time.
///
/// A rank may begin the operation just before the roll call reaches it. So each reply says how long
/// the rank has been waiting: if all are here, those that came last are named.
///
/// A rank that waits for a transfer waits for one rank only, which may wait for another one. So
/// each message says for whom its sender waits, too. As soon as one waits for a transfer, those are
/// missing that wait for nobody and hold up a rank that has reached its deadline, directly or
/// through others; who is silent waits for nobody. So a rank that computes is named only where
/// others need it.
///
/// Expects     it stays until all its messages have been sent: it is not destroyed once the roll
///             has been called while MPI runs. The roll is called once.
/// Ensures     (1) ranks that have heard each other agree on who is late
///             (2) nothing but open() and missing() throws
///             (3) messages of ranks that are not in the group change nothing
/// Complexity  O(P) messages for call(), and for each reply; is_settled() and missing() O(P).
class mpi_missing_ranks {
 public:
  enum class presence : int { unheard, here, late };

  /// What a rank may wait for beside a rank: nothing, and all that do not wait for this too.
  static constexpr int nobody = -1;
  static constexpr int everybody = -2;

  /// The group has these ranks of `control`, in this order, and this process is number `rank`.
  void open(MPI_Comm control, int tag, std::vector<int> members, std::size_t rank)
  {
    roll_.assign(members.size(), presence::unheard);
    waited_.assign(members.size(), elsewhere);
    waits_for_.assign(members.size(), nobody);
    overdue_.assign(members.size(), false);
    messages_ = std::make_unique<messages>();
    members_ = std::move(members);
    rank_ = rank;
    tag_ = tag;
    control_ = control;
  }
  [[nodiscard]] bool is_open() const noexcept { return control_ != MPI_COMM_NULL; }

  /// Posts the receive of the next message; returns MPI's code.
  [[nodiscard]] int hear(MPI_Request& request)
  {
    return MPI_Irecv(&messages_->heard, message_ints, MPI_INT, MPI_ANY_SOURCE, tag_, control_,
                     &request);
  }

  /// Notes a message that has arrived.
  void take_down(MPI_Status const& status)
  {
    auto const sender = std::find(members_.begin(), members_.end(), status.MPI_SOURCE);
    if (sender == members_.end()) { return; }  // left over from a group that had this tag before
    message const heard = messages_->heard;
    if (heard_ == 0 || is_after(heard.number, called_)) { called_ = heard.number; }
    ++heard_;
    if (heard.kind == missed) {
      roll_[rank_] = presence::late;
      return;
    }
    auto const peer = static_cast<std::size_t>(sender - members_.begin());
    roll_[peer] = static_cast<presence>(heard.kind);
    waited_[peer] = heard.waited;
    waits_for_[peer] = heard.waits_for;
    overdue_[peer] = heard.overdue != 0;
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

  /// The same for a rank that is between operations.
  [[nodiscard]] presence standing_between() const noexcept
  {
    return is_after((operation_ + 1) % numbers, called_) ? presence::here : presence::late;
  }

  /// Whom this rank waits for from now on, and whether it has reached its deadline: for call().
  void wait_for(int awaited, bool overdue)
  {
    waits_for_[rank_] = awaited;
    overdue_[rank_] = overdue;
  }

  /// Tells all peers that this rank is `own`, or that it is late if a peer has reported it missing.
  /// It has been waiting for as long as `waited`; wait_for() has said for whom.
  void call(presence own, std::chrono::milliseconds waited)
  {
    if (heard_ == 0) { called_ = operation_; }
    if (roll_[rank_] == presence::unheard) { roll_[rank_] = own; }
    constexpr std::chrono::milliseconds longest(std::numeric_limits<int>::max());
    // One that has finished the operation has not begun another: it has the same number.
    bool const in_it = operation_ == called_ && waits_for_[rank_] == everybody;
    waited_[rank_] = in_it ? static_cast<int>(std::min(waited, longest).count()) : elsewhere;
    tell_all(messages_->first);
  }

  /// Tells them again, if a peer has reported this rank missing since.
  void correct()
  {
    if (roll_[rank_] != told_) { tell_all(messages_->corrected); }
  }

  /// Whether every rank has been heard and one of them is late. If none is late, this rank may be
  /// the late one, and a peer's message that says so may still be on its way.
  [[nodiscard]] bool is_settled() const
  {
    return std::count(roll_.begin(), roll_.end(), presence::unheard) == 0 &&
           (std::count(roll_.begin(), roll_.end(), presence::late) > 0 || has_transfers());
  }

  /// Returns the ranks that are not here, after sending each of them that it is missing. If all are
  /// here, returns those that have waited for less than half as long as another one: for them the
  /// others have waited. Empty if all have waited for about as long, or in a circle.
  [[nodiscard]] std::vector<rank_id> missing()
  {
    if (has_transfers()) { return ranks_that_hold_up_others(); }
    std::vector<rank_id> ranks;
    ranks.reserve(roll_.size());
    messages_->missed = {missed, called_, elsewhere, nobody, 0};
    for (std::size_t peer = 0; peer < roll_.size(); ++peer) {
      if (roll_[peer] == presence::here) { continue; }
      ranks.push_back(to_id<rank_id>(peer));
      if (peer != rank_) { tell(peer, messages_->missed); }
    }
    if (!ranks.empty()) { return ranks; }
    int const longest = *std::max_element(waited_.begin(), waited_.end());
    for (std::size_t peer = 0; peer < waited_.size(); ++peer) {
      if (waited_[peer] != elsewhere && waited_[peer] < longest / 2) {
        ranks.push_back(to_id<rank_id>(peer));
      }
    }
    return ranks;
  }

 private:
  // Numbers of operations start again at 0; their order is known for ranks less than 4096
  // operations apart.
  static constexpr int numbers = 8192;
  static constexpr int missed = 3;      // a kind of message, beside those that tell a presence
  static constexpr int elsewhere = -1;  // waits in a later operation, or not at all

  struct message {
    int kind;
    int number;
    int waited;  // milliseconds
    int waits_for;
    int overdue;
  };
  static constexpr int message_ints = 5;
  static_assert(sizeof(message) == message_ints * sizeof(int));

  // MPI reads and writes them at any time, so they stay in place, and each is written once.
  struct messages {
    message heard{};
    message first{};
    message corrected{};
    message missed{};
  };

  [[nodiscard]] static constexpr bool is_after(int number, int other) noexcept
  {
    int const ahead = (number - other + numbers) % numbers;
    return ahead > 0 && ahead < numbers / 2;
  }

  [[nodiscard]] bool has_transfers() const
  {
    return std::any_of(waits_for_.begin(), waits_for_.end(), [](int rank) { return rank >= 0; });
  }

  [[nodiscard]] std::vector<rank_id> ranks_that_hold_up_others() const
  {
    std::vector<bool> found = overdue_;
    bool more = true;
    while (more) {
      more = false;
      for (std::size_t rank = 0; rank < found.size(); ++rank) {
        if (!found[rank]) { continue; }
        for (std::size_t peer = 0; peer < found.size(); ++peer) {
          bool const holds_up = std::cmp_equal(waits_for_[rank], peer) ||
                                (waits_for_[rank] == everybody && waits_for_[peer] != everybody);
          more = more || (holds_up && !found[peer]);
          found[peer] = found[peer] || holds_up;
        }
      }
    }
    std::vector<rank_id> ranks;
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      if (found[rank] && waits_for_[rank] == nobody) { ranks.push_back(to_id<rank_id>(rank)); }
    }
    return ranks;
  }

  void tell_all(message& text)
  {
    told_ = roll_[rank_];
    text = {static_cast<int>(told_), called_, waited_[rank_], waits_for_[rank_],
            overdue_[rank_] ? 1 : 0};
    for (std::size_t peer = 0; peer < roll_.size(); ++peer) {
      if (peer != rank_) { tell(peer, text); }
    }
  }

  void tell(std::size_t peer, message const& text) const
  {
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Isend(&text, message_ints, MPI_INT, members_[peer], tag_, control_, &sent);
    if (sent != MPI_REQUEST_NULL) { MPI_Request_free(&sent); }
  }

  MPI_Comm control_ = MPI_COMM_NULL;
  int tag_ = 0;
  std::vector<int> members_;  // their ranks in control_
  std::size_t rank_ = 0;
  std::vector<presence> roll_;
  std::vector<int> waited_;
  std::vector<int> waits_for_;  // of each rank, as it has said
  std::vector<bool> overdue_;
  std::unique_ptr<messages> messages_;
  presence told_ = presence::unheard;
  std::size_t heard_ = 0;
  int operation_ = 0;  // of this rank
  int called_ = 0;     // of the roll call
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_MISSING_RANKS_HPP
