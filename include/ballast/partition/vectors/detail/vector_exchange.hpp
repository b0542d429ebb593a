// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_EXCHANGE_HPP
#define BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_EXCHANGE_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/units.hpp>
#include <ballast/partition/vectors/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// Something of one bin for something of another, and what the larger of the bins' loads then is.
struct vector_exchange {
  cost_units largest_load;
  std::size_t given = 0;  ///< position among what the heavy bin offers
  std::size_t taken = 0;  ///< position among what the light bin offers
};

/// The loads of two bins, of which the first is to become lighter in one dimension.
template <std::size_t D>
struct bin_pair {
  cost_vector<D> heavy;
  cost_vector<D> light;
  std::size_t dimension;

  /// The largest load of the two bins in any dimension after an exchange.
  [[nodiscard]] cost_units largest_load(cost_vector<D> const& given,
                                        cost_vector<D> const& taken) const noexcept
  {
    cost_units largest = 0;
    for (std::size_t d = 0; d < D; ++d) {
      cost_units const moved = given[d] - taken[d];
      largest = std::max({largest, heavy[d] - moved, light[d] + moved});
    }
    return largest;
  }
};

/// The exchange that leaves the two bins' largest load the least, if below best.largest_load; of
/// equals the first.
///
/// The work that moves has to be more than heavy - best and less than best - light in the pair's
/// dimension. So for each thing given, those to take lie in a window, and the window of the next one
/// never lies before it.
///
/// Shapes      given and taken have a member `cost`, a cost_vector<D>.
/// In, out     best enters as the load to beat. work pays for each thing given and each pair that
///             is priced.
/// Expects     given and taken are in order of their costs in the pair's dimension, not increasing;
///             best.largest_load is not above the heavy bin's load in that dimension.
/// Ensures     (1) true, and best.largest_load less than before, exactly where an exchange is
///                 better
/// Complexity  O(given + taken + pairs in windows), O(given taken) at worst.
template <std::size_t D, class Thing>
bool improve_exchange(vector_exchange& best, bin_pair<D> const& bins, std::span<Thing const> given,
                      std::span<Thing const> taken, work_budget& work)
{
  std::size_t const d = bins.dimension;
  bool improved = false;
  std::size_t first = 0;
  for (std::size_t out = 0; out < given.size(); ++out) {
    cost_units const cost = given[out].cost[d];
    while (first < taken.size() &&
           taken[first].cost[d] >= cost - (bins.heavy[d] - best.largest_load)) {
      ++first;
    }
    std::size_t in = first;
    for (; in < taken.size() && taken[in].cost[d] > cost - (best.largest_load - bins.light[d]);
         ++in) {
      cost_units const largest = bins.largest_load(given[out].cost, taken[in].cost);
      if (largest < best.largest_load) {
        best = {largest, out, in};
        improved = true;
      }
    }
    work.spend(1 + in - first);
  }
  return improved;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_EXCHANGE_HPP
