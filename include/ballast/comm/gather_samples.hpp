// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/collective_check.hpp>
#include <ballast/core.hpp>

#include <cstring>
#include <ranges>

namespace ballast::inline v0 {

/// The samples of all ranks: those of rank 0, then those of rank 1, and so on. A `sample_id` is an
/// index into them.
template <class Sample>
struct gathered_samples {
  std::vector<Sample> samples = {};
  std::vector<rank_id> source = {};  ///< the rank that has read each sample
  std::size_t ranks = 0;             ///< of the job, also those that have read none

  friend bool operator==(gathered_samples const&, gathered_samples const&) = default;
};

namespace detail {

/// Of messages whose first word says how many bytes a sample has: whose differs.
[[nodiscard]] inline tl::unexpected<error> different_samples(std::span<std::byte const> messages,
                                                             std::size_t bytes, std::size_t ranks)
{
  std::vector<std::uint64_t> sizes(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::memcpy(&sizes[rank], &messages[rank * bytes], sizeof(sizes[rank]));
    sizes[rank] >>= 48U;
  }
  return comm_failure::mismatch("gather_samples", "the size of a sample", dissenters(sizes),
                                "give samples of the same type", "no sample was read");
}

}  // namespace detail

/// Tells every rank what all ranks have read, in one small collective: the only communication that
/// planning needs. This is the form for a training loop.
///
/// A sample is what the plan depends on: a length, or one length per modality. Ranks may have
/// different numbers of samples, up to one that all of them know beforehand: so the collective has
/// a fixed size, and no second one is needed for the counts.
///
///     gathered_samples<tokens> all;
///     if (auto done = gather_samples_into(all, comm, mine, 64); !done) { ... }
///
/// Shapes      mine[m], 0 <= m <= most_samples; all: n samples, the sum of m over all ranks.
/// Expects     most_samples >= 1, the same on every rank.
/// In, out     all is overwritten; its memory is used again in the next step.
/// Ensures     all ranks have the same samples, in rank order
/// Errors      out_of_range, on every rank, if some rank has more samples than `most_samples`;
///             `position` is that rank. mismatch, on every rank, where samples are of different
///             sizes. out_of_range, before anything is sent, if the messages of
///             all ranks would be more bytes than an array can have; `position` is most_samples.
///             Also the errors of the communicator, and std::bad_alloc.
/// Complexity  one all_gather of 8 + most_samples x sizeof(Sample) bytes a rank; O(n + ranks).
template <communicator C, class Sample>
  requires(std::is_trivially_copyable_v<Sample> && std::default_initializable<Sample>)
[[nodiscard]] result<void> gather_samples_into(gathered_samples<Sample>& all, C& comm,
                                               std::span<std::type_identity_t<Sample> const> mine,
                                               std::size_t most_samples)
{
  BALLAST_EXPECTS(most_samples >= 1);
  static_assert(sizeof(Sample) < std::size_t{1} << 16U);
  std::uint64_t const count = std::uint64_t{sizeof(Sample)} << 48U | mine.size();
  constexpr std::size_t largest_array = std::numeric_limits<std::size_t>::max() / 4;
  if (most_samples > (largest_array / (comm.size() + 1) - sizeof(count)) / sizeof(Sample)) {
    return fail(error_code::out_of_range, most_samples, "gather_samples_into: most_samples is ",
                most_samples, ", and as many of ", sizeof(Sample), " bytes on each of ",
                detail::counted(comm.size(), "rank"),
                " are more than memory can hold; give the largest number of "
                "samples that a rank reads in a step");
  }
  std::size_t const message = sizeof(count) + most_samples * sizeof(Sample);
  std::span<std::byte> const memory = comm.scratch(message * (comm.size() + 1));
  std::span<std::byte> const sent = memory.first(message);
  std::span<std::byte> const received = memory.subspan(message, message * comm.size());
  bool const fits = mine.size() <= most_samples;
  std::size_t const bytes = fits ? mine.size_bytes() : 0;
  std::memcpy(sent.data(), &count, sizeof(count));
  if (bytes > 0) { std::memcpy(&sent[sizeof(count)], mine.data(), bytes); }
  std::memset(sent.data() + sizeof(count) + bytes, 0, message - sizeof(count) - bytes);
  if (auto gathered = comm.all_gather(sent, received); !gathered) { return gathered; }
  if (auto done = comm.wait(); !done) { return done; }

  all.samples.clear();
  all.source.clear();
  all.ranks = comm.size();
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    std::byte const* const from = &received[rank * message];
    std::uint64_t samples = 0;
    std::memcpy(&samples, from, sizeof(samples));
    if (samples >> 48U != sizeof(Sample)) {
      return detail::different_samples(received, message, comm.size());
    }
    samples &= (std::uint64_t{1} << 48U) - 1;
    if (samples > most_samples) {
      return comm_failure::of_rank(to_id<rank_id>(rank),
                                   fail(error_code::out_of_range, rank, "rank ", rank, " has ",
                                        detail::counted(samples, "sample"), " and most_samples is ",
                                        most_samples, "; raise it on every rank"));
    }
    if (samples == 0) { continue; }
    std::size_t const before = all.samples.size();
    all.samples.resize(before + samples);
    std::memcpy(&all.samples[before], from + sizeof(samples), samples * sizeof(Sample));
    all.source.resize(before + samples, to_id<rank_id>(rank));
  }
  return {};
}

/// The same, once: returns new samples, and needs no number of samples that ranks know beforehand,
/// since it gathers that first.
///
///     auto const all = gather_samples(comm, mine).value();
///
/// Ensures     (1) that of gather_samples_into
///             (2) no rank waits for another that has returned: all of them see the same counts
/// Errors      those of gather_samples_into, but that no rank has too many samples.
/// Complexity  one all_gather of a count, then, where some rank has samples, that of
///             gather_samples_into with the most that a rank has.
template <communicator C, std::ranges::contiguous_range Samples>
[[nodiscard]] auto gather_samples(C& comm, Samples const& mine)
    -> result<gathered_samples<std::ranges::range_value_t<Samples>>>
{
  using sample = std::ranges::range_value_t<Samples>;
  std::span<sample const> const own(mine);
  std::uint64_t const count = own.size();
  gathered_samples<std::uint64_t> counts;
  if (auto done = ballast::gather_samples_into(counts, comm, std::span(&count, 1), 1); !done) {
    return tl::unexpected(done.error());
  }
  std::uint64_t const most = *std::max_element(counts.samples.begin(), counts.samples.end());
  gathered_samples<sample> all;
  all.ranks = comm.size();
  if (most == 0) { return all; }
  if (auto done = ballast::gather_samples_into(all, comm, own, most); !done) {
    return tl::unexpected(done.error());
  }
  return all;
}

/// A word that all ranks should have, such as a plan's digest, and what an error calls it.
struct agreed_word {
  std::uint64_t word = 0;
  std::string_view what;
};

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
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  std::size_t const bytes = word_bytes * words.size();
  std::span<std::byte> const memory = comm.scratch(bytes * (comm.size() + 1));
  for (std::size_t at = 0; at < words.size(); ++at) {
    std::memcpy(&memory[at * word_bytes], &words[at].word, word_bytes);
  }
  std::span<std::byte> const all = memory.subspan(bytes);
  if (auto gathered = comm.all_gather(memory.first(bytes), all); !gathered) { return gathered; }
  if (auto done = comm.wait(); !done) { return done; }
  auto const word_of = [all, bytes](std::size_t rank, std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, &all[rank * bytes + at * word_bytes], word_bytes);
    return word;
  };
  for (std::size_t at = 0; at < words.size(); ++at) {
    bool same = true;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      same = same && word_of(rank, at) == words[at].word;
    }
    if (same) { continue; }
    std::vector<std::uint64_t> of_ranks;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      of_ranks.push_back(word_of(rank, at));
    }
    return comm_failure::mismatch("agree", words[at].what,
                                  detail::dissenters(detail::span_of(of_ranks)));
  }
  return {};
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
