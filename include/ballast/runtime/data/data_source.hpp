// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_DATA_SOURCE_HPP
#define BALLAST_RUNTIME_DATA_DATA_SOURCE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// A sample as its loader gives it: its length in each module, and what the model trains on.
struct loaded_sample {
  std::vector<tokens> lengths;
  std::vector<std::byte> bytes;
};

/// Where samples come from: the user's part of a data pipeline.
///
///   load(sample)      fetches and decodes a sample. An error says that it cannot be decoded, and
///                     why; an exception ends the loader, and the sample goes to another one
///   lengths(sample)   optional: the lengths, as std::vector<tokens>, without decoding the sample,
///                     so that windows are planned before anything is decoded. They may be
///                     estimates; steps are planned by those of load()
///
/// Expects     both depend on the sample alone, and may be called by several threads at a time.
template <class S>
concept data_source = requires(S const& source, std::uint64_t sample) {
  { source.load(sample) } -> std::same_as<result<loaded_sample>>;
};

/// One that has lengths() too.
template <class S>
concept data_source_with_lengths =
    data_source<S> && requires(S const& source, std::uint64_t sample) {
      { source.lengths(sample) } -> std::same_as<std::vector<tokens>>;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_DATA_SOURCE_HPP
