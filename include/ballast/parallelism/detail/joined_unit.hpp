// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_JOINED_UNIT_HPP
#define BALLAST_PARALLELISM_DETAIL_JOINED_UNIT_HPP

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstdint>

namespace ballast::inline v0::detail {

/// A module's stages in a pipeline of all modules: how many microbatches its first stage keeps, the
/// fullest of them, under `interleaved_one_forward_one_backward`, which is 1F1B where no stage has
/// virtual ones.
///
/// `behind` are the microbatches that are on their way behind the module, from its last stage's
/// forward until the gradient is back: 0 for the last module, else `depth` of the next.
///
/// Expects     stages, virtual_stages and microbatches are at least 1; sums fit 64 bits.
/// Ensures     (1) what activation_memory finds for as many microbatches, all equal
///             (2) neither kept() nor depth() falls with `behind` or with the stages
struct joined_unit {
  std::uint64_t stages = 1;
  std::uint64_t virtual_stages = 1;  ///< of a stage
  std::uint64_t microbatches = 1;

  /// Forwards of virtual stages, of which each keeps what its layers need of a microbatch.
  [[nodiscard]] constexpr std::uint64_t kept(std::uint64_t behind) const noexcept
  {
    return std::min(ahead(behind) + 1, virtual_stages * microbatches);
  }

  /// The most `behind` with which no more than `most` are kept; `microbatches` where any number is.
  /// Expects kept(0) <= most.
  [[nodiscard]] constexpr std::uint64_t most_behind(std::uint64_t most) const noexcept
  {
    if (most >= virtual_stages * microbatches) { return microbatches; }
    std::uint64_t const left = most - ahead(0) - 1;
    std::uint64_t const at_once = (virtual_stages - 1) * (group() - 1);
    return left < at_once ? 0 : (left - at_once) / virtual_stages;
  }

  /// The microbatches on their way in the module and behind it.
  [[nodiscard]] constexpr std::uint64_t depth(std::uint64_t behind) const noexcept
  {
    return is_interleaved()
               ? (ahead(behind) + 1 + 2 * (virtual_stages - 1) * group()) / virtual_stages
               : stages + behind;
  }

 private:
  [[nodiscard]] constexpr bool is_interleaved() const noexcept { return virtual_stages > 1; }

  /// The largest group of microbatches that pass a chunk one after the other.
  [[nodiscard]] constexpr std::uint64_t group() const noexcept
  {
    std::uint64_t const groups = std::max<std::uint64_t>(1, microbatches / stages);
    return (microbatches + groups - 1) / groups;
  }

  /// Forwards of the first stage before it alternates.
  [[nodiscard]] constexpr std::uint64_t ahead(std::uint64_t behind) const noexcept
  {
    if (!is_interleaved()) { return stages - 1 + behind; }
    std::uint64_t const others = virtual_stages - 1;
    return 2 * (stages - 1) + others * group() +
           (behind == 0 ? 0 : virtual_stages * behind + others * (group() - 1));
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_JOINED_UNIT_HPP
