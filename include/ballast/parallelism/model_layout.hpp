// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_MODEL_LAYOUT_HPP
#define BALLAST_PARALLELISM_MODEL_LAYOUT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// How one module is spread over GPUs: dp replicas, each a pipeline of pp stages, each of a group
/// of tp x sp x ep GPUs that compute a microbatch together (parallel_degree).
///
/// Ensures     (1) ordered by tp, then pp, then dp, then sp, then ep
struct module_layout {
  std::uint32_t tp = 1;
  std::uint32_t pp = 1;
  std::uint32_t dp = 1;
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  /// Of a stage of one replica.
  [[nodiscard]] constexpr std::uint32_t group() const noexcept { return tp * sp * ep; }

  [[nodiscard]] constexpr std::uint64_t gpus() const noexcept
  {
    return std::uint64_t{group()} * pp * dp;
  }

  friend bool operator==(module_layout const&, module_layout const&) = default;
  friend std::strong_ordering operator<=>(module_layout const&, module_layout const&) = default;
};

/// A layout of so many stages and replicas at a degree.
[[nodiscard]] constexpr module_layout layout_at(parallel_degree const& degree, std::uint32_t pp,
                                                std::uint32_t dp) noexcept
{
  return {degree.tp, pp, dp, degree.sp, degree.ep};
}

/// "tp 4 pp 2 dp 8", or "tp 4 sp 2 pp 2 dp 8".
[[nodiscard]] inline std::string text_of(module_layout const& layout)
{
  return detail::concat(text_of(degree_of(layout)), " pp ", layout.pp, " dp ", layout.dp);
}

/// A layout of a whole model, and what a step then takes.
///
/// Units       step: picoseconds; memory_bytes: of the GPU that holds most.
struct model_layout {
  std::vector<module_layout> modules;  ///< in the order of the pipeline: encoders, then the LLM
  std::uint32_t microbatches = 1;  ///< of each replica of the last module; orchestrated: the LLM
  time_units step = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t virtual_stages = 1;  ///< of a stage of the last module; orchestrated: not said here

  /// Those that the modules get; of an orchestration maybe fewer than there are.
  [[nodiscard]] std::uint64_t gpus() const noexcept
  {
    std::uint64_t sum = 0;
    for (module_layout const& each : modules) { sum += each.gpus(); }
    return sum;
  }

  friend bool operator==(model_layout const&, model_layout const&) = default;
};

/// The units that a policy chose, the kind of GPUs that each module gets, and how many layouts of
/// modules it has priced for them. The microbatches are those of each replica of the LLM.
struct orchestration {
  model_layout layout;
  std::vector<std::size_t> kinds;
  std::uint64_t evaluated = 0;

  friend bool operator==(orchestration const&, orchestration const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_MODEL_LAYOUT_HPP
