// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/dissenters.hpp>

#include <bit>

namespace ballast::inline v0 {

/// The samples of all ranks: those of rank 0, then those of rank 1, and so on. A `sample_id` is an
/// index into them.
template <class Sample>
struct gathered_samples {
  std::vector<Sample> samples = {};
  std::vector<rank_id> source = {};  ///< the rank that has read each sample
  std::size_t ranks = 0;             ///< of the job, also those that have read none
  /// So many of a rank's are gathered at once: as many as a rank has had before, the same on all.
  std::size_t room = 0;

  friend bool operator==(gathered_samples const& a, gathered_samples const& b)
  {
    return a.samples == b.samples && a.source == b.source && a.ranks == b.ranks;
  }
};

namespace detail {

/// What all ranks have read, in the communicator's scratch: of each rank its count and the size of
/// a sample in one word, and then `room` samples.
struct read_bytes {
  std::span<std::byte const> all;
  std::size_t sample = 0;  ///< bytes of one
  std::size_t room = 0;    ///< samples of a message

  [[nodiscard]] std::size_t message() const noexcept
  {
    return sizeof(std::uint64_t) + room * sample;
  }
  [[nodiscard]] std::uint64_t word_of(std::size_t rank) const
  {
    std::uint64_t word = 0;
    std::memcpy(&word, &all[rank * message()], sizeof(word));
    return word;
  }
  [[nodiscard]] std::uint64_t count_of(std::size_t rank) const
  {
    return word_of(rank) << 16U >> 16U;
  }
  [[nodiscard]] std::uint64_t size_of(std::size_t rank) const { return word_of(rank) >> 48U; }
  [[nodiscard]] std::span<std::byte const> of(std::size_t rank) const
  {
    return all.subspan(rank * message() + sizeof(std::uint64_t), count_of(rank) * sample);
  }
};

/// gather_samples of samples of so many bytes; `room` is 0 where it fails.
[[nodiscard]] BALLAST_ONCE result<read_bytes> gather_bytes(any_communicator comm,
                                                           std::size_t sample,
                                                           std::span<std::byte const> mine,
                                                           std::size_t& room);

}  // namespace detail

/// Tells every rank what all ranks have read, in one small collective: the only communication that
/// planning needs. This is the form for a training loop.
///
/// A sample is what the plan depends on: a length, or one length per modality. Ranks may have
/// different numbers of samples, and none knows how many others have. A message has room for as many
/// as a rank has had in a step before, so that a second collective is only needed by the first step
/// and by one in which a rank has more.
///
///     gathered_samples<tokens> all;  // kept from step to step
///     if (auto done = gather_samples(all, comm, mine); !done) { ... }
///
/// Shapes      mine[m], m >= 0; all: n samples, the sum of m over all ranks.
/// Expects     all.room is the same on every rank, as it is where all gather in the same order.
/// In, out     all is overwritten; its memory is used again in the next step.
/// Ensures     (1) all ranks have the same samples, in rank order
///             (2) no rank waits for another that has returned: all of them see the same counts
/// Errors      mismatch, on every rank, where samples are of different sizes. Also the errors of the
///             communicator, and std::bad_alloc.
/// Complexity  one all_gather of 8 + all.room x sizeof(Sample) bytes a rank, and another where a rank
///             has more; O(n + ranks x all.room). The room is 16 or a larger power of two.
template <communicator C, class Sample>
  requires(std::is_trivially_copyable_v<Sample> && std::default_initializable<Sample>)
[[nodiscard]] result<void> gather_samples(gathered_samples<Sample>& all, C& comm,
                                          std::span<std::type_identity_t<Sample> const> mine)
{
  static_assert(sizeof(Sample) < std::size_t{1} << 16U);
  auto const read = detail::gather_bytes(comm, sizeof(Sample), std::as_bytes(mine), all.room);
  if (!read) { return tl::unexpected(read.error()); }
  all.samples.clear();
  all.source.clear();
  all.ranks = comm.size();
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    std::size_t const before = all.samples.size();
    std::span<std::byte const> const bytes = read->of(rank);
    std::size_t const own = bytes.size() / sizeof(Sample);
    all.samples.resize(before + own);
    if (own > 0) { std::memcpy(&all.samples[before], bytes.data(), bytes.size()); }
    all.source.resize(before + own, to_id<rank_id>(rank));
  }
  all.room = read->room;
  return {};
}

/// The same, once: returns new samples.
///
///     auto const all = gather_samples(comm, mine).value();
template <communicator C, std::ranges::contiguous_range Samples>
[[nodiscard]] auto gather_samples(C& comm, Samples const& mine)
    -> result<gathered_samples<std::ranges::range_value_t<Samples>>>
{
  gathered_samples<std::ranges::range_value_t<Samples>> all;
  if (auto done = ballast::gather_samples(all, comm, mine); !done) {
    return tl::unexpected(done.error());
  }
  return all;
}

/// A word that all ranks should have, such as a plan's digest, and what an error calls it.
struct agreed_word {
  std::uint64_t word = 0;
  std::string_view what;
};

namespace detail {

[[nodiscard]] BALLAST_ONCE result<void> agree_on(any_communicator comm,
                                                 std::span<agreed_word const> words);

}  // namespace detail

/// Compares several words over all ranks in one exchange, such as the digests of the plans of which
/// a step is composed, and says which of them differs:
///
///     std::array const plans{agreed_word{encoder.digest(), "the plan of the encoder"},
///                            agreed_word{model.digest(), "the plan of the language model"}};
///     if (auto same = agree(comm, plans); !same) { ... }
///
/// Collective, one all_gather of 8 bytes for each word.
///
/// Expects     as many words on every rank.
/// Errors      mismatch, on every rank, of the first word that differs: `ranks` are those whose
///             word is not the most common one, and of equally common ones not that of the lowest
///             rank; the same list on every rank. It does not say whose word is right. Also the
///             errors of the communicator.
/// Complexity  O(ranks x words).
template <communicator C>
[[nodiscard]] result<void> agree(C& comm, std::span<agreed_word const> words)
{
  return detail::agree_on(comm, words);
}

/// The same of one word. Call it before the first byte moves:
///
///     if (auto same = agree(comm, plan.digest(), "the plan"); !same) { ... }
template <communicator C>
[[nodiscard]] result<void> agree(C& comm, std::uint64_t word, std::string_view what)
{
  agreed_word const one{word, what};
  return agree(comm, std::span(&one, 1));
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0::detail {

[[nodiscard]] BALLAST_ONCE result<read_bytes> gather_bytes(any_communicator comm,
                                                           std::size_t sample,
                                                           std::span<std::byte const> mine,
                                                           std::size_t& room)
{
  std::uint64_t const own = mine.size() / sample;
  std::uint64_t const word = std::uint64_t{sample} << 48U | own;
  read_bytes read{{}, sample, std::exchange(room, 0)};  // where a call fails, ranks begin anew
  for (std::uint64_t largest = 0; read.all.empty() || largest > read.room;) {
    if (largest > read.room) { read.room = std::bit_ceil(std::max<std::size_t>(largest, 16)); }
    std::size_t const message = read.message();
    std::span<std::byte> const memory = comm.scratch(message * (comm.size() + 1));
    std::span<std::byte> const sent = memory.first(message);
    std::span<std::byte> const received = memory.subspan(message, message * comm.size());
    read.all = received;
    std::size_t const bytes = own <= read.room ? mine.size() : 0;
    std::memcpy(sent.data(), &word, sizeof(word));
    if (bytes > 0) { std::memcpy(&sent[sizeof(word)], mine.data(), bytes); }
    std::memset(sent.data() + sizeof(word) + bytes, 0, message - sizeof(word) - bytes);
    if (auto gathered = comm.all_gather(sent, received); !gathered) {
      return tl::unexpected(gathered.error());
    }
    if (auto done = comm.wait(); !done) { return tl::unexpected(done.error()); }
    largest = 0;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      if (read.size_of(rank) != sample) {
        std::vector<std::uint64_t> sizes(comm.size());
        for (std::size_t each = 0; each < sizes.size(); ++each) {
          sizes[each] = read.size_of(each);
        }
        return comm_failure::mismatch("gather_samples", "the size of a sample", dissenters(sizes),
                                      "give samples of the same type", "no sample was read");
      }
      largest = std::max(largest, read.count_of(rank));
    }
  }
  return read;
}

[[nodiscard]] BALLAST_ONCE result<void> agree_on(any_communicator comm,
                                                 std::span<agreed_word const> words)
{
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  std::size_t const bytes = word_bytes * words.size();
  std::span<std::byte> const memory = comm.scratch(bytes * (comm.size() + 1));
  for (std::size_t at = 0; at < words.size(); ++at) {
    std::memcpy(&memory[at * word_bytes], &words[at].word, word_bytes);
  }
  std::span<std::byte> const all = memory.subspan(bytes);
  if (auto gathered = comm.all_gather(memory.first(bytes), all); !gathered) { return gathered; }
  if (auto done = comm.wait(); !done) { return done; }
  auto differing = words.empty() ? std::nullopt : dissent_on_words(all, comm.size());
  if (!differing) { return {}; }
  return comm_failure::mismatch("agree", words[differing->word].what, std::move(differing->ranks));
}

}  // namespace ballast::inline v0::detail

#endif
