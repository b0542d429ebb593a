// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_EXCHANGE_HPP
#define BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_EXCHANGE_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/units.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/vectors/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Something of one bin for something of another, and when the later of the bins then finishes.
struct vector_exchange {
  ratio finish;
  std::size_t given = 0;  ///< position among what the heavy bin offers
  std::size_t taken = 0;  ///< position among what the light bin offers
};

/// The loads of two bins, of which the first is to become lighter in one dimension.
template <std::size_t D>
struct bin_pair {
  cost_vector<D> heavy;
  cost_vector<D> light;
  std::size_t dimension;
  std::uint32_t heavy_speed = 1;
  std::uint32_t light_speed = 1;

  /// When the later of the two bins finishes, in any dimension, after an exchange.
  [[nodiscard]] ratio finish(cost_vector<D> const& given,
                             cost_vector<D> const& taken) const noexcept
  {
    cost_units left = 0;
    cost_units right = 0;
    for (std::size_t d = 0; d < D; ++d) {
      cost_units const moved = given[d] - taken[d];
      left = std::max(left, heavy[d] - moved);
      right = std::max(right, light[d] + moved);
    }
    return std::max(ratio{left, heavy_speed}, ratio{right, light_speed});
  }
};

/// The exchange after which the two bins finish earliest, if before best.finish; of equals the
/// first.
///
/// The work that moves is bounded from both sides in the pair's dimension: enough for the heavy bin
/// to finish before the best one so far, and not so much that the light bin does not. So for each
/// thing given, those to take lie in a window, and the window of the next one never lies before it.
/// What two bins may hold is a number of whole units, so most pairs are refused without a division.
///
/// Shapes      given and taken have a member `cost`, a cost_vector<D>; allowed(g, t) says whether
///             the bins may exchange these two.
/// In, out     best enters as the time to beat. work pays for each thing given and each pair that
///             is priced.
/// Expects     given and taken are in order of their costs in the pair's dimension, not increasing;
///             best.finish is not later than the heavy bin in that dimension.
/// Ensures     (1) true, and best.finish earlier than before, exactly where an exchange that is
///                 allowed is better
/// Complexity  O(given + taken + pairs in windows), O(given taken) at worst.
template <std::size_t D, class Thing, class Allowed>
bool improve_exchange(vector_exchange& best, bin_pair<D> const& bins, std::span<Thing const> given,
                      std::span<Thing const> taken, work_budget& work, Allowed const& allowed)
{
  std::size_t const d = bins.dimension;
  cost_units most_heavy = work_before(best.finish, bins.heavy_speed);
  cost_units most_light = work_before(best.finish, bins.light_speed);
  bool improved = false;
  std::size_t first = 0;
  for (std::size_t out = 0; out < given.size(); ++out) {
    cost_vector<D> const& gives = given[out].cost;
    while (first < taken.size() && taken[first].cost[d] > gives[d] - (bins.heavy[d] - most_heavy)) {
      ++first;
    }
    std::size_t in = first;
    for (; in < taken.size() && taken[in].cost[d] >= gives[d] - (most_light - bins.light[d]);
         ++in) {
      cost_vector<D> const& takes = taken[in].cost;
      bool better = true;
      for (std::size_t e = 0; e < D; ++e) {
        cost_units const moved = gives[e] - takes[e];
        better =
            better && bins.heavy[e] - moved <= most_heavy && bins.light[e] + moved <= most_light;
      }
      if (!better || !allowed(given[out], taken[in])) { continue; }
      best = {bins.finish(gives, takes), out, in};
      most_heavy = work_before(best.finish, bins.heavy_speed);
      most_light = work_before(best.finish, bins.light_speed);
      improved = true;
    }
    work.spend(1 + in - first);
  }
  return improved;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_EXCHANGE_HPP
