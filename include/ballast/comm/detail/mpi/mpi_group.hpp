// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_GROUP_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_GROUP_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/detail/host_scratch.hpp>
#include <ballast/comm/detail/mpi/mpi_requests.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Returns whether MPI may be called: after MPI_Init and before MPI_Finalize.
[[nodiscard]] inline bool mpi_is_running()
{
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

/// The ranks of an mpi_communicator: an MPI communicator for their bytes, another for their roll
/// calls, and the comparison with which each operation begins.
///
/// Ensures     (1) with `verify`, no operation moves bytes unless all ranks have made the same call
///             (2) after a failure other than a mismatch each further operation returns that
///                 failure
///             (3) after an operation that ended with an exception each further one returns
///                 peer_lost, with this rank
class mpi_group {
 public:
  /// Frees a group, unless it is broken: if an operation did not end, MPI may still use the group's
  /// memory, and peers may still send to it. Such a group is never freed.
  struct release {
    void operator()(mpi_group* group) const
    {
      if (!group->is_broken()) { delete group; }
    }
  };
  using handle = std::unique_ptr<mpi_group, release>;

  mpi_group(mpi_group const&) = delete;
  mpi_group& operator=(mpi_group const&) = delete;
  ~mpi_group()
  {
    if (!mpi_is_running()) { return; }
    requests_.stop_listening();
    MPI_Comm_free(&control_);
    MPI_Comm_free(&data_);
  }

  /// Makes a group of the ranks of `borrowed`. Collective.
  [[nodiscard]] static result<handle> over(MPI_Comm borrowed, mpi_communicator_options options)
  {
    return make(options, [&](mpi_group& made) { return made.duplicate(borrowed, made.data_); });
  }

  /// Makes a group of the ranks of this one that gave the same colour, in order. Collective.
  [[nodiscard]] result<handle> part(std::uint32_t colour)
  {
    if (auto gathered = gather("split", colour); !gathered) {
      return tl::unexpected(std::move(gathered).error());
    }
    // MPI's colours end at 2^31 - 1, so the number of the first rank that gave a colour stands for
    // it.
    auto const first =
        std::find(words_.begin(), words_.end(), std::uint64_t{colour}) - words_.begin();
    return make(options_, [&](mpi_group& made) {
      int const code =
          MPI_Comm_split(data_, static_cast<int>(first), static_cast<int>(rank_), &made.data_);
      return code == MPI_SUCCESS ? result<void>{} : mpi_failure("MPI_Comm_split", code);
    });
  }

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] MPI_Comm data() const noexcept { return data_; }
  [[nodiscard]] mpi_requests& requests() noexcept { return requests_; }
  [[nodiscard]] std::size_t largest_message() const noexcept { return options_.largest_message; }
  [[nodiscard]] result<void> state() const
  {
    if (failure_) { return tl::unexpected(*failure_); }
    if (under_way_) { return comm_failure::peer_lost("an earlier call", {to_id<rank_id>(rank_)}); }
    return {};
  }

  /// Runs one operation: all ranks meet and compare their calls, then each runs move().
  template <class Move>
  [[nodiscard]] result<void> run(collective_call call, std::span<std::size_t const> send_bytes,
                                 std::span<std::size_t const> receive_bytes, Move move)
  {
    if (is_broken()) { return state(); }
    under_way_ = true;
    result<void> done = requests_.enter(name_of(call.operation));
    if (done) { done = meet(call, send_bytes, receive_bytes); }
    if (done) { done = move(); }
    if (!done && done.error().code != error_code::mismatch) { failure_ = done.error(); }
    under_way_ = false;
    return done;
  }

  /// Host memory, which does not move until more is asked for.
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    if (is_broken() && bytes > scratch_.size()) { std::swap(retired_.emplace_back(), scratch_); }
    return scratch_.take(bytes);
  }

 private:
  explicit mpi_group(mpi_communicator_options options)
      : options_(options), requests_(options.deadline)
  {}

  template <class MakeData>
  [[nodiscard]] static result<handle> make(mpi_communicator_options options, MakeData make_data)
  {
    handle made(new mpi_group(options));
    result<void> done = make_data(*made);
    if (done) { done = made->open(); }
    if (!done) { return tl::unexpected(std::move(done).error()); }
    made->under_way_ = false;
    return made;
  }

  [[nodiscard]] bool is_broken() const noexcept { return failure_ || under_way_; }

  [[nodiscard]] result<void> duplicate(MPI_Comm from, MPI_Comm& to)
  {
    requests_.started("MPI_Comm_idup", MPI_Comm_idup(from, &to, requests_.next()));
    return requests_.wait("MPI_Comm_idup");
  }

  [[nodiscard]] result<void> open()
  {
    MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);
    int number = 0;
    MPI_Comm_rank(data_, &number);
    rank_ = static_cast<std::size_t>(number);
    MPI_Comm_size(data_, &number);
    size_ = static_cast<std::size_t>(number);
    words_.resize(size_);
    if (auto done = duplicate(data_, control_); !done) { return done; }
    return requests_.listen(control_);
  }

  [[nodiscard]] result<void> meet(collective_call call, std::span<std::size_t const> send_bytes,
                                  std::span<std::size_t const> receive_bytes)
  {
    bool const always =
        call.operation == collective::barrier || call.operation == collective::split;
    if (!options_.verify && !always) { return {}; }
    word_ = check_word(to_id<rank_id>(rank_), size_, call, send_bytes, receive_bytes);
    requests_.started("MPI_Iallreduce", MPI_Iallreduce(&word_, &sum_, 1, MPI_UINT64_T, MPI_SUM,
                                                       data_, requests_.next()));
    if (auto met = requests_.wait(name_of(call.operation)); !met) { return met; }
    return sum_ == 0 ? result<void>{} : disagreement(call, send_bytes, receive_bytes);
  }

  // Every rank knows that something differs; together they find out what.
  [[nodiscard]] result<void> disagreement(collective_call call,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::size_t const> receive_bytes)
  {
    char const* const name = name_of(call.operation);
    if (auto gathered = gather(name, call.word()); !gathered) { return gathered; }
    if (auto differing = dissenters(words_); !differing.empty()) {
      return comm_failure::different_calls(name, std::move(differing));
    }
    // Only all_to_all_v has more to compare: the ranks of each pair exchange both of their counts.
    counts_.clear();
    for (std::size_t peer = 0; peer < size_; ++peer) {
      counts_.insert(counts_.end(), {send_bytes[peer], receive_bytes[peer]});
    }
    theirs_.resize(counts_.size());
    requests_.started("MPI_Ialltoall",
                      MPI_Ialltoall(counts_.data(), 2, MPI_UINT64_T, theirs_.data(), 2,
                                    MPI_UINT64_T, data_, requests_.next()));
    if (auto told = requests_.wait(name); !told) { return told; }
    std::vector<rank_id> differing;
    for (std::size_t peer = 0; peer < size_; ++peer) {
      if (theirs_[2 * peer] != receive_bytes[peer] || theirs_[2 * peer + 1] != send_bytes[peer]) {
        differing.push_back(to_id<rank_id>(peer));
      }
    }
    return comm_failure::different_counts(name, std::move(differing));
  }

  // Gathers every rank's word in words_.
  [[nodiscard]] result<void> gather(char const* operation, std::uint64_t word)
  {
    word_ = word;
    requests_.started("MPI_Iallgather", MPI_Iallgather(&word_, 1, MPI_UINT64_T, words_.data(), 1,
                                                       MPI_UINT64_T, data_, requests_.next()));
    return requests_.wait(operation);
  }

  mpi_communicator_options options_;
  mpi_requests requests_;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm control_ = MPI_COMM_NULL;
  std::size_t rank_ = 0;
  std::size_t size_ = 0;
  std::optional<error> failure_;
  bool under_way_ = true;  // an operation runs, or the group is being made; stays true after an
                           // exception

  // Members, since MPI may use them after the call that gave it these arrays has returned.
  std::uint64_t word_ = 0;
  std::uint64_t sum_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> theirs_;
  host_scratch scratch_;
  std::vector<host_scratch> retired_;  // MPI may still write there
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_GROUP_HPP
