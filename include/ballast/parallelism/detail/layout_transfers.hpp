// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LAYOUT_TRANSFERS_HPP
#define BALLAST_PARALLELISM_DETAIL_LAYOUT_TRANSFERS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/layout_problem.hpp>

#include <cstddef>
#include <cstdint>

/// What GPUs take to send, where each sends its part and receives as fast at the same time.
namespace ballast::inline v0::detail {

inline constexpr std::uint64_t picoseconds_per_second = 1'000'000'000'000;

/// Rounded up; no_cost where it does not fit.
[[nodiscard]] inline time_units sending_time(layout_problem const& problem, uint128 bytes,
                                             std::uint64_t gpus)
{
  constexpr uint128 most = ~uint128{0} / picoseconds_per_second;
  if (bytes > most) { return no_cost; }
  uint128 const time = divided_up(bytes * picoseconds_per_second,
                                  static_cast<uint128>(problem.bytes_per_second) * gpus);
  return time < static_cast<uint128>(no_cost) ? static_cast<time_units>(time) : no_cost;
}

/// Whether what a module gives to the next one takes time.
[[nodiscard]] inline bool sends(layout_problem const& problem, std::size_t module) noexcept
{
  return problem.bytes_per_second > 0 && module + 1 < problem.modules.size() &&
         problem.modules[module].boundary_bytes > 0;
}

/// What so many GPUs take to send, or to receive, what a module gives for so many tokens or items.
///
/// Expects     sends(problem, module).
[[nodiscard]] inline time_units sending_time(layout_problem const& problem, std::size_t module,
                                             tokens all, std::uint64_t gpus)
{
  return sending_time(problem,
                      static_cast<uint128>(problem.modules[module].boundary_bytes) *
                          static_cast<std::uint64_t>(all),
                      gpus);
}

/// What the all-reduce of the gradients of a stage of so many layers takes, in a ring of its
/// replicas; of a degree of a module. The sp GPUs of a group that have the same weights reduce their
/// gradients first, inside a node, and then each its part with the other replicas.
[[nodiscard]] inline time_units reducing_time(layout_problem const& problem,
                                              profiled_degree const& degree, std::uint32_t layers,
                                              std::uint32_t dp)
{
  if (problem.bytes_per_second == 0 || dp == 1) { return 0; }
  auto const [share, whole] = problem.gradient_share;
  uint128 const bytes = divided_up(
      static_cast<uint128>(degree.memory.state(layers)) * static_cast<std::uint64_t>(share),
      static_cast<std::uint64_t>(whole));
  // Below 2^64 2^32 2: rounded up once more.
  std::uint64_t const ranks = std::uint64_t{dp} * degree.sp;
  return sending_time(problem, divided_up(2 * bytes * (dp - 1), ranks), 1);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LAYOUT_TRANSFERS_HPP
