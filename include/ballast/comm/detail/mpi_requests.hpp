// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/numbered_places.hpp>
#include <ballast/core/detail/wait_clock.hpp>

#include <mpi.h>

#include <memory>
#include <thread>

namespace ballast::inline v0::detail {

/// Returns the error of a call of MPI, with MPI's code and text.
[[nodiscard]] inline tl::unexpected<error> mpi_failure(std::string_view call, int code)
{
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return comm_failure::transport(call, code, {text.data(), static_cast<std::size_t>(length)});
}

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
    message& own = all_.next();
    waiting_.reserve(all_.all().size());
    own.parts.clear();
    own.parts.reserve(bytes.size() / largest + 1);
    own = {comm, source, tag, bytes, largest, 0, false, MPI_SUCCESS, std::move(own.parts)};
    own.is_first = std::none_of(waiting_.begin(), waiting_.end(),
                                [&](std::size_t each) { return are_from_one(own, all_[each]); });
    std::size_t const number = all_.begin();
    waiting_.push_back(number);
    ++expected_;
    if (own.is_first) { look_for(number); }
    return number;
  }

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
    all_.end(number);
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
    all_.end(number);
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
  numbered_places<message> all_;
  std::vector<std::size_t> waiting_;       // for a part, in the order in which they were begun
  std::atomic<std::size_t> expected_ = 0;  // as many
};

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

  /// The group has these ranks of `control`, in this order, and this process is number `rank`.
  void open(MPI_Comm control, int tag, std::vector<int> members, std::size_t rank)
  {
    roll_.assign(members.size(), presence::unheard);
    waited_.assign(members.size(), elsewhere);
    waits_for_.assign(members.size(), waits_for::nobody);
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
    bool const in_it = operation_ == called_ && waits_for_[rank_] == waits_for::everybody;
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
    if (has_transfers()) { return ranks_that_hold_up(overdue_, waits_for_); }
    std::vector<rank_id> ranks;
    ranks.reserve(roll_.size());
    messages_->missed = {missed, called_, elsewhere, waits_for::nobody, 0};
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

/// One rank's requests to MPI, and a wait for them that ends at a deadline and names missing ranks.
///
/// A rank that has waited until the deadline calls the roll (see mpi_missing_ranks); every wait
/// also tests for roll calls of others. A rank that finds a roll call when it begins its next
/// operation takes part in it. A rank that has not been heard within the grace period is missing.
/// Messages that others expect, of `incoming`, are received meanwhile.
///
/// Ensures     (1) wait() ends within the deadline, counted from the last message that arrived,
///                 plus the grace period
///             (2) after a roll call this rank begins no further operation
///             (3) starting as many requests as expect() was told allocates nothing; waiting for
///                 them allocates only the text of a failure
///             (4) no receive outlives wait(), even if it ends with an exception
/// Errors      timed_out: `ranks` are missing, or came last; empty if all ranks wait for a message
///             that none sends. transport: MPI refused a request, or a request failed.
class mpi_requests {
 public:
  explicit mpi_requests(std::chrono::milliseconds deadline, mpi_incoming* incoming = nullptr)
      : incoming_(incoming),
        deadline_(deadline),
        grace_(std::clamp<std::chrono::milliseconds>(deadline / 4, std::chrono::milliseconds(100),
                                                     std::chrono::seconds(5))),
        requests_{MPI_REQUEST_NULL}
  {
    expect(1);
  }

  /// Receives roll calls from now on, of a group that mpi_missing_ranks::open describes.
  [[nodiscard]] result<void> listen(MPI_Comm control, int tag, std::vector<int> members,
                                    std::size_t rank)
  {
    roll_.open(control, tag, std::move(members), rank);
    return hear();
  }

  void stop_listening()
  {
    if (requests_.front() == MPI_REQUEST_NULL) { return; }
    MPI_Cancel(requests_.data());
    MPI_Wait(requests_.data(), MPI_STATUS_IGNORE);
  }

  /// Before an operation: fails if a roll has been called without this rank.
  [[nodiscard]] result<void> enter(std::string_view operation)
  {
    roll_.come();
    return look(operation, [this] { return roll_.standing(); });
  }

  /// The same between operations.
  [[nodiscard]] result<void> look(std::string_view operation)
  {
    return look(operation, [this] { return roll_.standing_between(); });
  }

  /// Makes room for this many requests before the next wait(); there is always room for one.
  void expect(std::size_t requests)
  {
    if (requests < statuses_.size()) { return; }
    requests_.reserve(requests + 1);
    indices_.resize(requests + 1);
    statuses_.resize(requests + 1);
  }

  /// Returns where to put the next request, or the next receive; start receives before all others.
  [[nodiscard]] MPI_Request* next()
  {
    BALLAST_EXPECTS(requests_.size() < statuses_.size());
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }
  [[nodiscard]] MPI_Request* next_receive()
  {
    ++receives_;
    return next();
  }

  /// Takes the code with which MPI started a request; wait() reports the first failure.
  void started(char const* call, int code)
  {
    if (code == MPI_SUCCESS || refused_code_ != MPI_SUCCESS) { return; }
    refused_call_ = call;
    refused_code_ = code;
  }

  /// Waits until all requests are done; afterwards there are none, whatever it returns. It waits
  /// for `open` more events too, of which more() returns how many have come.
  template <class More>
  [[nodiscard]] result<void> wait(std::string_view operation, std::size_t open, More more)
  {
    struct closing {
      mpi_requests& requests;
      ~closing() { requests.close(); }
    } const at_end{*this};
    if (refused_code_ != MPI_SUCCESS) { return mpi_failure(refused_call_, refused_code_); }
    return until_done(operation, open, more);
  }
  [[nodiscard]] result<void> wait(std::string_view operation)
  {
    return wait(operation, 0, [] { return result<std::size_t>(0); });
  }

  /// Waits for one transfer with `peer`: until is_done() returns true, which tests it.
  template <class Done>
  [[nodiscard]] result<void> wait_for(std::string_view operation, std::size_t peer, Done is_done)
  {
    bool over = false;
    auto const test = [&]() -> result<std::size_t> {
      auto const polled = poll();
      if (!polled) { return polled; }
      result<bool> const done = is_done();
      if (!done) { return tl::unexpected(done.error()); }
      over = *done;
      return over ? std::size_t{1} : std::size_t{0};
    };
    return watch(operation, static_cast<int>(peer), [&] { return over; }, test);
  }

 private:
  using clock = wait_clock;
  using presence = mpi_missing_ranks::presence;

  // Posts the receive that a roll call completes; it stays in front of all requests.
  [[nodiscard]] result<void> hear()
  {
    int const code = roll_.hear(requests_.front());
    return code == MPI_SUCCESS ? result<void>{} : mpi_failure("MPI_Irecv", code);
  }

  // Returns how many requests have ended, without roll calls, which it notes.
  [[nodiscard]] result<std::size_t> poll()
  {
    int ended = 0;
    int const code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &ended,
                                  indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
      return mpi_failure("MPI_Testsome", code);
    }
    std::size_t done = 0;
    for (std::size_t event = 0; event < static_cast<std::size_t>(std::max(ended, 0)); ++event) {
      MPI_Status const& status = statuses_[event];
      if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) {
        return mpi_failure("MPI_Testsome", status.MPI_ERROR);
      }
      if (indices_[event] != 0) {
        ++done;
        continue;
      }
      roll_.take_down(status);
      if (auto heard = hear(); !heard) { return tl::unexpected(heard.error()); }
    }
    return done;
  }

  template <class Standing>
  [[nodiscard]] result<void> look(std::string_view operation, Standing standing)
  {
    looked_ = clock::now();
    came_ = looked_;
    std::size_t before = 0;
    do {
      before = roll_.heard();
      // MPI may fetch a message in the first test and report it only in the second.
      for (int test = 0; test < 2; ++test) {
        if (auto polled = poll(); !polled) { return tl::unexpected(polled.error()); }
      }
    } while (roll_.heard() != before);
    return before > 0 ? call_roll(operation, standing(), waits_for::nobody, false) : result<void>{};
  }

  template <class More>
  [[nodiscard]] result<void> until_done(std::string_view operation, std::size_t open, More more)
  {
    open += requests_.size() - 1;
    auto const test = [&]() -> result<std::size_t> {
      auto const done = poll();
      if (!done) { return done; }
      return more().map([&](std::size_t ended) {
        open -= *done + ended;
        return *done + ended;
      });
    };
    return watch(operation, waits_for::everybody, [&] { return open == 0; }, test);
  }

  /// Calls test(), which polls and returns how many requests have ended, until is_over(), or until
  /// the deadline.
  template <class Over, class Test>
  [[nodiscard]] result<void> watch(std::string_view operation, int awaited, Over is_over, Test test)
  {
    clock::watched_wait own;
    auto heard =
        clock::now();  // when the last request was done, later by as long as it was stopped
    for (std::size_t looks = 1; !is_over(); ++looks) {
      if (incoming_ != nullptr) { incoming_->look(); }
      auto const done = test();
      if (!done) { return tl::unexpected(done.error()); }
      auto const now = clock::now();
      // A process that was stopped, perhaps with the whole job, has not waited in that time.
      auto const absence = now - std::exchange(looked_, now);
      bool const was_stopped = absence > grace_;
      if (was_stopped) {
        came_ += absence;
        heard = std::min(now, heard + absence);
      }
      if (*done > 0) { heard = now; }
      if (was_stopped || *done > 0) { continue; }
      // In whole milliseconds, since the longest deadlines overflow in nanoseconds.
      bool const over =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - heard) >= deadline_;
      if (roll_.heard() > 0 || over) {
        bool const in_operation = awaited == waits_for::everybody;
        return call_roll(operation, in_operation ? presence::here : roll_.standing_between(),
                         awaited, over);
      }
      // MPI yields at each test if it knows that processes share cores. It does not always know.
      if (looks % 64 == 0) {
        own.look_in_vain();
        std::this_thread::yield();
      }
    }
    return {};
  }

  // The caller may free the arrays of receives soon, so these are cancelled. What cannot be
  // cancelled MPI keeps.
  void close() noexcept
  {
    for (std::size_t receive = 1; receive <= receives_; ++receive) {
      if (requests_[receive] == MPI_REQUEST_NULL) { continue; }
      MPI_Cancel(&requests_[receive]);
      MPI_Request_free(&requests_[receive]);
    }
    requests_.resize(1);
    receives_ = 0;
  }

  [[nodiscard]] result<void> call_roll(std::string_view operation, presence own, int awaited,
                                       bool overdue)
  {
    if (!roll_.is_open()) { return comm_failure::timed_out(operation, deadline_, {}); }
    roll_.wait_for(awaited, overdue);
    roll_.call(own, std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - came_));
    // Counts looks, not time: if all processes of a machine are stopped for a while, no rank
    // becomes missing by that.
    for (auto looks = grace_.count(); looks > 0 && !roll_.is_settled();) {
      std::size_t const before = roll_.heard();
      if (auto polled = poll(); !polled) { return tl::unexpected(polled.error()); }
      roll_.correct();
      if (roll_.heard() != before) { continue; }  // the next may be there already
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --looks;
    }
    return comm_failure::timed_out(operation, deadline_, roll_.missing());
  }

  mpi_incoming* incoming_;
  std::chrono::milliseconds deadline_;
  std::chrono::milliseconds grace_;
  clock::time_point looked_ = clock::now();  // when requests were last tested
  clock::time_point came_ = looked_;  // to this operation, later by as long as it was stopped
  mpi_missing_ranks roll_;
  std::vector<MPI_Request> requests_;
  std::size_t receives_ = 0;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  char const* refused_call_ = "";
  int refused_code_ = MPI_SUCCESS;
};

}  // namespace ballast::inline v0::detail
