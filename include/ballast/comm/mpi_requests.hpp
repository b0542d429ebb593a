// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_MPI_REQUESTS_HPP
#define BALLAST_COMM_MPI_REQUESTS_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// MPI's own code and text.
[[nodiscard]] inline tl::unexpected<error> mpi_failure(std::string_view call, int code)
{
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return comm_failure::transport(call, code, {text.data(), static_cast<std::size_t>(length)});
}

/// The requests of one rank that are under way, waited for with a deadline that ends in names.
///
/// A rank that has waited in vain calls the roll: an empty message to each peer, on a communicator
/// that serves nothing else. Peers that are waiting too hear it, since each wait tests for it as
/// well, and answer alike. Who has not been heard within the grace period is missing, and is told
/// so, for when it goes on. A rank that finds a roll call when it comes to its next operation
/// answers that it is late, and counts as missing too. So all name the same ranks, as far as
/// messages come in time.
///
/// Ensures     (1) wait() ends within the deadline, from the last message that came, plus the grace
///             (2) once a roll has been called no later operation of this rank begins
///             (3) after as many requests as before nothing is allocated
/// Errors      timed_out: `ranks` are missing, which may be none where all wait for something that
///             no one sends. transport: MPI refused a request, or a request failed.
class mpi_requests {
 public:
  explicit mpi_requests(std::chrono::milliseconds deadline)
      : deadline_(deadline),
        grace_(std::clamp<std::chrono::milliseconds>(deadline / 4, std::chrono::milliseconds(100),
                                                     std::chrono::seconds(5))),
        requests_{MPI_REQUEST_NULL}
  {}

  /// From here on, hears roll calls on `control`, which is used for nothing else.
  [[nodiscard]] result<void> listen(MPI_Comm control)
  {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(control, &rank);
    MPI_Comm_size(control, &size);
    control_ = control;
    rank_ = static_cast<std::size_t>(rank);
    roll_.assign(static_cast<std::size_t>(size), presence::unheard);
    return hear();
  }

  void stop_listening()
  {
    MPI_Cancel(requests_.data());
    MPI_Wait(requests_.data(), MPI_STATUS_IGNORE);
  }

  /// Before an operation: fails if a roll has been called without this rank.
  [[nodiscard]] result<void> enter(std::string_view operation)
  {
    looked_ = clock::now();
    if (auto polled = poll(); !polled) { return tl::unexpected(polled.error()); }
    return answers_ > 0 ? call_roll(operation, presence::late) : result<void>{};
  }

  /// Where the next request goes, or the next receive; receives come before all others.
  [[nodiscard]] MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  [[nodiscard]] MPI_Request* next_receive()
  {
    ++receives_;
    return next();
  }

  /// Takes the code that starting a request gave; wait() reports the first that is a failure.
  void started(char const* call, int code)
  {
    if (code == MPI_SUCCESS || refused_code_ != MPI_SUCCESS) { return; }
    refused_call_ = call;
    refused_code_ = code;
  }

  /// Until all requests are done; there are none afterwards, whatever the answer.
  [[nodiscard]] result<void> wait(std::string_view operation)
  {
    result<void> done = refused_code_ == MPI_SUCCESS ? until_done(operation)
                                                     : mpi_failure(refused_call_, refused_code_);
    if (!done) { take_back_receives(); }
    requests_.resize(1);  // MPI keeps what cannot be taken back
    receives_ = 0;
    return done;
  }

 private:
  using clock = std::chrono::steady_clock;
  // Those after the first are tags of messages as well; `missed` is only that.
  enum class presence : int { unheard, waiting, late, missed };

  // Posts the receive that a roll call completes; it stays in front of all requests.
  [[nodiscard]] result<void> hear()
  {
    int const code =
        MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, control_, requests_.data());
    return code == MPI_SUCCESS ? result<void>{} : mpi_failure("MPI_Irecv", code);
  }

  // How many requests came to their end, roll calls aside, which are taken down.
  [[nodiscard]] result<std::size_t> poll()
  {
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
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
      ++answers_;
      auto const tag = static_cast<presence>(status.MPI_TAG);
      if (tag == presence::missed) {
        roll_[rank_] = presence::late;
      } else {
        roll_[static_cast<std::size_t>(status.MPI_SOURCE)] = tag;
      }
      if (auto heard = hear(); !heard) { return tl::unexpected(heard.error()); }
    }
    return done;
  }

  [[nodiscard]] result<void> until_done(std::string_view operation)
  {
    std::size_t open = requests_.size() - 1;
    auto heard = clock::now();  // when the last request was done
    for (std::size_t looks = 1; open > 0; ++looks) {
      auto const done = poll();
      if (!done) { return tl::unexpected(done.error()); }
      open -= *done;
      auto const now = clock::now();
      // Whoever was stopped, perhaps with the whole job, has not waited in that time.
      bool const was_stopped = now - std::exchange(looked_, now) > grace_;
      if (was_stopped || *done > 0) {
        heard = now;
        continue;
      }
      // In whole milliseconds, since the longest of deadlines has no count of nanoseconds.
      bool const over =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - heard) >= deadline_;
      if (answers_ > 0 || over) { return call_roll(operation, presence::waiting); }
      // MPI gives way at each test where it knows that cores are shared. It cannot know of all.
      if (looks % 64 == 0) { std::this_thread::yield(); }
    }
    return {};
  }

  // Their arrays belong to the caller, who may soon give them back.
  void take_back_receives()
  {
    for (std::size_t receive = 1; receive <= receives_; ++receive) {
      if (requests_[receive] == MPI_REQUEST_NULL) { continue; }
      MPI_Cancel(&requests_[receive]);
      MPI_Request_free(&requests_[receive]);
    }
  }

  [[nodiscard]] result<void> call_roll(std::string_view operation, presence own)
  {
    if (control_ == MPI_COMM_NULL) { return comm_failure::timed_out(operation, deadline_, {}); }
    if (roll_[rank_] == presence::unheard) { roll_[rank_] = own; }
    for (std::size_t peer = 0; peer < roll_.size(); ++peer) {
      if (peer != rank_) { tell(peer, own); }
    }
    auto const count = [&](presence which) { return std::ranges::count(roll_, which); };
    // Where nobody seems to be missing this rank may be the one, and has yet to be told. Looks are
    // counted, not time: what stops all processes of a machine for a while makes nobody missing.
    auto looks = grace_.count();
    while (looks > 0 && (count(presence::unheard) > 0 || count(presence::late) == 0)) {
      std::size_t const before = answers_;
      if (auto polled = poll(); !polled) { return tl::unexpected(polled.error()); }
      if (answers_ != before) { continue; }  // the next may be there already
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --looks;
    }
    std::vector<rank_id> missing;
    for (std::size_t peer = 0; peer < roll_.size(); ++peer) {
      if (roll_[peer] == presence::waiting) { continue; }
      missing.push_back(to_id<rank_id>(peer));
      if (peer != rank_) { tell(peer, presence::missed); }
    }
    return comm_failure::timed_out(operation, deadline_, std::move(missing));
  }

  void tell(std::size_t peer, presence what)
  {
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(peer), static_cast<int>(what), control_,
              &sent);
    if (sent != MPI_REQUEST_NULL) { MPI_Request_free(&sent); }
  }

  std::chrono::milliseconds deadline_;
  std::chrono::milliseconds grace_;
  clock::time_point looked_ = clock::now();  // when requests were last tested
  MPI_Comm control_ = MPI_COMM_NULL;
  std::size_t rank_ = 0;
  std::vector<presence> roll_;
  std::size_t answers_ = 0;  // messages of a roll call that this rank has heard
  std::vector<MPI_Request> requests_;
  std::size_t receives_ = 0;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  char const* refused_call_ = "";
  int refused_code_ = MPI_SUCCESS;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_MPI_REQUESTS_HPP
