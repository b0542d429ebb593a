// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_DATA_SETUP_HPP
#define BALLAST_RUNTIME_DATA_DATA_SETUP_HPP

#include <ballast/core/contract.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// What becomes of a sample that cannot be decoded.
enum class undecodable : std::uint8_t {
  left_out,  ///< it is named, left out with all of its group, and counted
  stops,     ///< its step is an error that names it
};

/// What a data pipeline deals, and in which order. Steps depend on this alone: not on how many
/// ranks, loaders and threads there are, nor on how fast they are.
struct data_setup {
  /// Samples of an epoch; they are 0, 1, ..., below 2^32.
  std::size_t samples = 0;
  /// The most samples of a step, of all ranks together. Steps are that full, but the last of an
  /// epoch, steps without room for a whole group, and steps of which samples were left out.
  std::size_t step_samples = 1;
  /// How many lengths a sample has.
  std::size_t modules = 1;
  std::uint64_t epochs = 1;
  std::uint64_t seed = 1;
  /// Empty, or the group of each sample: samples of a group train in one step, and are left out
  /// together. Their numbers are arbitrary.
  std::vector<std::uint32_t> together = {};
  undecodable when_undecodable = undecodable::left_out;
  /// For how many steps samples may be fetched that have not been taken, beside the window's: the
  /// bound of all queues together, at least 1.
  std::size_t fetched_ahead = 2;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_DATA_SETUP_HPP
