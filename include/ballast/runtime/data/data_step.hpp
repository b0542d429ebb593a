// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_DATA_STEP_HPP
#define BALLAST_RUNTIME_DATA_DATA_STEP_HPP

#include <ballast/core/random.hpp>
#include <ballast/core/quantities.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// A step of training as every rank sees it: which samples, how long they are, who computes them.
///
/// Shapes      samples[n], lengths[n x modules], a row of each sample; owner[n].
struct data_step {
  std::uint64_t number = 0;    ///< counts steps over all epochs
  std::uint64_t epoch = 0;     ///< counts from 0
  std::uint64_t position = 0;  ///< of the step in its epoch
  std::uint64_t left_out = 0;  ///< samples that were left out up to this step, since the start
  bool ends_epoch = false;
  std::size_t modules = 1;  ///< lengths of each sample
  std::vector<std::uint64_t> samples = {};
  std::vector<tokens> lengths = {};
  std::vector<rank_id> owner = {};     ///< as the plan says; empty until it is made
  std::vector<std::string> news = {};  ///< a sentence for each sample left out or loader lost
  std::string saved = {};              ///< what save() returns

  /// What data_proxy::restore needs to go on after this step, and to see whether it is given the
  /// same data, setup and windows.
  [[nodiscard]] std::string const& save() const noexcept { return saved; }

  [[nodiscard]] std::span<tokens const> lengths_of(std::size_t entry) const
  {
    return {lengths.data() + entry * modules, modules};
  }

  /// One word of what trains in this step. It does not depend on who computes what, so it is the
  /// same for other numbers of ranks and loaders.
  [[nodiscard]] std::uint64_t digest() const
  {
    return ballast::digest{}
        .add(number)
        .add(epoch)
        .add(position)
        .add(left_out)
        .add(std::span(samples))
        .add(std::span(lengths))
        .value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_DATA_STEP_HPP
