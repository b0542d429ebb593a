// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_COMPARISON_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_COMPARISON_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/detail/mpi/mpi_messages.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// How the ranks of an mpi_group find out whether they have made the same call, and the words that
/// they tell each other. MPI may use these after a failure.
///
/// Ensures     every rank gets the same outcome
/// Errors      mismatch, where ranks differ; those of mpi_messages.
class mpi_comparison {
 public:
  explicit mpi_comparison(std::size_t most_ranks) { words_.reserve(most_ranks); }

  void open(std::size_t ranks) { words_.resize(ranks); }

  /// What gather() was told by each rank.
  [[nodiscard]] std::span<std::uint64_t const> words() const noexcept { return span_of(words_); }

  /// Whether words have not come as they should: not even a mismatch leaves all as it was then.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

  /// Gathers every rank's word.
  [[nodiscard]] result<void> gather(mpi_messages& messages, char const* operation,
                                    std::uint64_t word)
  {
    words_[messages.rank()] = word;
    auto done = messages.all_gather(operation, std::as_writable_bytes(mutable_span_of(words_)),
                                    sizeof(word));
    failed_ = failed_ || !done;
    return done;
  }

  /// Compares a call.
  [[nodiscard]] result<void> run(mpi_messages& messages, collective_call call,
                                 std::span<std::size_t const> send_bytes,
                                 std::span<std::size_t const> receive_bytes)
  {
    auto const word =
        check_word(to_id<rank_id>(messages.rank()), words_.size(), call, send_bytes, receive_bytes);
    if (auto met = gather(messages, name_of(call.operation), word); !met) { return met; }
    std::uint64_t const sum = std::reduce(words_.begin(), words_.end());
    return sum == 0 ? result<void>{} : disagreement(messages, call, send_bytes, receive_bytes);
  }

  /// Compares what each rank was made with.
  [[nodiscard]] result<void> run(mpi_messages& messages, mpi_communicator_options options)
  {
    struct option {
      char const* name;
      std::uint64_t value;
    };
    std::array const all{option{"verify", options.verify ? 1U : 0U},
                         option{"deadline", static_cast<std::uint64_t>(options.deadline.count())},
                         option{"largest_message", options.largest_message}};
    digest together;
    for (option const& each : all) { together.add(each.value); }
    if (auto told = gather(messages, "over", together.value()); !told) { return told; }
    if (dissenters(words_).empty()) { return {}; }
    for (option const& each : all) {
      if (auto told = gather(messages, "over", each.value); !told) { return told; }
      if (auto differing = dissenters(words_); !differing.empty()) {
        return comm_failure::different_options("over", each.name, std::move(differing));
      }
    }
    return {};
  }

 private:
  // Every rank knows that something differs; together they find out what.
  [[nodiscard]] result<void> disagreement(mpi_messages& messages, collective_call call,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::size_t const> receive_bytes)
  {
    char const* const name = name_of(call.operation);
    if (auto told = gather(messages, name, call.word()); !told) { return told; }
    if (auto differing = dissenters(words_); !differing.empty()) {
      return comm_failure::different_calls(name, std::move(differing));
    }
    if (auto told = gather(messages, name, call.content); !told) { return told; }
    if (auto found = dissent_on_content(words_); !found.ranks.empty()) {
      return comm_failure::different_content(name, found.in_arrays, std::move(found.ranks));
    }
    // Only all_to_all_v has more to compare: the ranks of each pair exchange both of their counts.
    counts_.clear();
    for (std::size_t peer = 0; peer < words_.size(); ++peer) {
      counts_.insert(counts_.end(), {send_bytes[peer], receive_bytes[peer]});
    }
    theirs_.resize(counts_.size());
    auto const pair_of = [](std::span<std::uint64_t> counts, std::size_t peer) {
      return std::as_writable_bytes(counts.subspan(2 * peer, 2));
    };
    auto const told = messages.all_to_all(
        name, [&](std::size_t peer) { return pair_of(counts_, peer); },
        [&](std::size_t peer) { return pair_of(theirs_, peer); });
    if (!told) { return tl::unexpected(told.error()); }
    std::vector<rank_id> differing;
    for (std::size_t peer = 0; peer < words_.size(); ++peer) {
      if (theirs_[2 * peer] != receive_bytes[peer] || theirs_[2 * peer + 1] != send_bytes[peer]) {
        differing.push_back(to_id<rank_id>(peer));
      }
    }
    return comm_failure::different_counts(name, std::move(differing));
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> theirs_;
  bool failed_ = false;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_COMPARISON_HPP
