// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_REQUESTS_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_REQUESTS_HPP

#include <ballast/comm/deadline.hpp>
#include <ballast/comm/detail/mpi/mpi_failure.hpp>
#include <ballast/comm/detail/mpi/mpi_incoming.hpp>
#include <ballast/comm/detail/mpi/mpi_missing_ranks.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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
    return before > 0 ? call_roll(operation, standing(), mpi_missing_ranks::nobody, false)
                      : result<void>{};
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
    return watch(operation, mpi_missing_ranks::everybody, [&] { return open == 0; }, test);
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
        bool const in_operation = awaited == mpi_missing_ranks::everybody;
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

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_REQUESTS_HPP
