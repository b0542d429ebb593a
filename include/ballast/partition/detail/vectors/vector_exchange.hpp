// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_EXCHANGE_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_EXCHANGE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>

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

  /// What the two bins do after an exchange, each in the dimension in which it does most.
  struct work {
    cost_units heavy = 0;
    cost_units light = 0;
  };
  [[nodiscard]] work work_after(cost_vector<D> const& given,
                                cost_vector<D> const& taken) const noexcept
  {
    work most;
    for (std::size_t d = 0; d < D; ++d) {
      cost_units const moved = given[d] - taken[d];
      most.heavy = std::max(most.heavy, heavy[d] - moved);
      most.light = std::max(most.light, light[d] + moved);
    }
    return most;
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
  std::uint64_t pairs = 0;
  std::size_t first = 0;
  for (std::size_t out = 0; out < given.size(); ++out) {
    cost_vector<D> const& gives = given[out].cost;
    cost_units const least_moved = bins.heavy[d] - most_heavy;
    while (first < taken.size() && gives[d] - taken[first].cost[d] < least_moved) { ++first; }
    std::size_t in = first;
    for (; in < taken.size() && gives[d] - taken[in].cost[d] <= most_light - bins.light[d]; ++in) {
      auto const [left, right] = bins.work_after(gives, taken[in].cost);
      // Few are: what follows must not take registers from the loops.
      if (left > most_heavy || right > most_light || !allowed(given[out], taken[in])) [[likely]] {
        continue;
      }
      best = {std::max(ratio{left, bins.heavy_speed}, ratio{right, bins.light_speed}), out, in};
      most_heavy = work_before(best.finish, bins.heavy_speed);
      most_light = work_before(best.finish, bins.light_speed);
      improved = true;
    }
    pairs += in - first;
  }
  work.spend(given.size() + pairs);
  return improved;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_EXCHANGE_HPP
