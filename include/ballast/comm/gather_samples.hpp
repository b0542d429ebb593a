// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_GATHER_SAMPLES_HPP
#define BALLAST_COMM_GATHER_SAMPLES_HPP

#include <ballast/comm/concepts.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace ballast::inline v0 {

/// The samples of all ranks: those of rank 0, then those of rank 1, and so on. A `sample_id` is an
/// index into them.
template <class Sample>
struct gathered_samples {
  std::vector<Sample> samples = {};
  std::vector<rank_id> source = {};  ///< the rank that has read each sample

  friend bool operator==(gathered_samples const&, gathered_samples const&) = default;
};

/// Tells every rank what all ranks have read, in one small collective: the only communication that
/// planning needs.
///
/// A sample is what the plan depends on: a length, or one length per modality. Ranks may have
/// different numbers of samples, up to a capacity that all of them know beforehand: so the
/// collective has a fixed size, and no second one is needed for the counts.
///
///     gathered_samples<tokens> all;
///     if (auto done = gather_samples_into(all, comm, mine, 64); !done) { ... }
///
/// Shapes      mine[m], 0 <= m; all: n samples, the sum of m over all ranks.
/// Expects     capacity >= 1, the same on every rank.
/// In, out     all is overwritten; its memory is used again in the next step.
/// Ensures     all ranks have the same samples, in rank order
/// Errors      out_of_range, on every rank, if some rank has more samples than `capacity`;
///             `position` is that rank. out_of_range, before anything is sent, if the messages of
///             all ranks would be more bytes than an array can have; `position` is the capacity.
///             Also the errors of the communicator, and std::bad_alloc.
/// Complexity  one all_gather of 8 + capacity x sizeof(Sample) bytes a rank; O(n + ranks).
template <communicator C, class Sample>
  requires(std::is_trivially_copyable_v<Sample> && std::default_initializable<Sample>)
[[nodiscard]] result<void> gather_samples_into(gathered_samples<Sample>& all, C& comm,
                                               std::span<std::type_identity_t<Sample> const> mine,
                                               std::size_t capacity)
{
  BALLAST_EXPECTS(capacity >= 1);
  std::uint64_t const count = mine.size();
  constexpr std::size_t largest_array = std::numeric_limits<std::size_t>::max() / 4;
  if (capacity > (largest_array / (comm.size() + 1) - sizeof(count)) / sizeof(Sample)) {
    return fail(error_code::out_of_range, capacity, "gather_samples: a capacity of ", capacity,
                " samples of ", sizeof(Sample), " bytes on each of ", comm.size(),
                " ranks is more than memory can hold; give the largest number of "
                "samples that a rank reads in a step");
  }
  std::size_t const message = sizeof(count) + capacity * sizeof(Sample);
  std::span<std::byte> const memory = comm.scratch(message * (comm.size() + 1));
  std::span<std::byte> const sent = memory.first(message);
  std::span<std::byte> const received = memory.subspan(message, message * comm.size());
  bool const fits = mine.size() <= capacity;
  std::size_t const bytes = fits ? mine.size_bytes() : 0;
  std::memcpy(sent.data(), &count, sizeof(count));
  if (bytes > 0) { std::memcpy(&sent[sizeof(count)], mine.data(), bytes); }
  std::memset(sent.data() + sizeof(count) + bytes, 0, message - sizeof(count) - bytes);
  if (auto gathered = comm.all_gather(sent, received); !gathered) { return gathered; }
  if (auto done = comm.wait(); !done) { return done; }

  all.samples.clear();
  all.source.clear();
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    std::byte const* const from = &received[rank * message];
    std::uint64_t samples = 0;
    std::memcpy(&samples, from, sizeof(samples));
    if (samples > capacity) {
      return fail(error_code::out_of_range, rank, "rank ", rank, " has ", samples,
                  " samples and the gather has room for ", capacity,
                  "; raise the capacity on every rank");
    }
    if (samples == 0) { continue; }
    std::size_t const before = all.samples.size();
    all.samples.resize(before + samples);
    std::memcpy(&all.samples[before], from + sizeof(samples), samples * sizeof(Sample));
    all.source.resize(before + samples, to_id<rank_id>(rank));
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_GATHER_SAMPLES_HPP
