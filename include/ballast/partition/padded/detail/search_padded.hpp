// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_SEARCH_PADDED_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_SEARCH_PADDED_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// All plans of a small step, costliest sample first, but for those that differ by the numbers of
/// ranks without a sample or of empty slots, until `work` cells were tried.
///
/// Complexity  O(work).
template <class Problem>
class padded_search {
 public:
  padded_search(Problem const& problem, std::span<std::uint32_t const> costliest_first,
                std::uint64_t work)
      : problem_(problem),
        order_(costliest_first),
        work_(work),
        batches_(problem.cells()),
        loads_(problem.ranks),
        cell_of_(order_.size()),
        rest_(order_.size() + 1)
  {
    for (std::size_t at = order_.size(); at > 0; --at) {
      rest_[at - 1] = rest_[at] + problem.alone(order_[at - 1]);
    }
  }

  /// Writes the best plan whose makespan is below `least`, which it then is. Returns whether it has
  /// tried all.
  [[nodiscard]] bool improve(cost_units& least, std::span<cell_id> owner)
  {
    place(0, 0, 0, least, owner);
    return work_ > 0;
  }

 private:
  struct batch {
    std::size_t samples = 0;
    padded_lengths longest;
    cost_units cost = 0;
  };

  Problem const& problem_;
  std::span<std::uint32_t const> order_;
  std::uint64_t work_;
  std::vector<batch> batches_;
  std::vector<cost_units> loads_;
  std::vector<std::size_t> cell_of_;
  std::vector<cost_units> rest_;  // what samples from here on cost at least

  void place(std::size_t at, std::size_t ranks, cost_units sum, cost_units& least,
             std::span<cell_id> owner)
  {
    if (at == order_.size()) {
      least = *std::max_element(loads_.begin(), loads_.end());
      for (std::size_t sample = 0; sample < at; ++sample) {
        owner[order_[sample]] = to_id<cell_id>(cell_of_[sample]);
      }
      return;
    }
    std::size_t const used = std::min(ranks + 1, problem_.ranks);
    for (std::size_t rank = 0; rank < used; ++rank) {
      bool was_empty = false;
      for (std::size_t slot = 0; slot < problem_.slots && !was_empty; ++slot) {
        if (work_ == 0) { return; }
        --work_;
        std::size_t const cell = slot * problem_.ranks + rank;
        batch const before = batches_[cell];
        was_empty = before.samples == 0;
        batch joined{before.samples + 1, before.longest.with(problem_.lengths[order_[at]])};
        joined.cost = problem_.cost(joined.samples, joined.longest);
        cost_units const more = joined.cost - before.cost;
        auto const spread = static_cast<cost_units>(problem_.ranks);
        cost_units const mean = (sum + more + rest_[at + 1] + spread - 1) / spread;
        if (loads_[rank] + more >= least || mean >= least ||
            !problem_.fits(joined.samples, joined.longest)) {
          continue;
        }
        batches_[cell] = joined;
        loads_[rank] += more;
        cell_of_[at] = cell;
        place(at + 1, std::max(ranks, rank + 1), sum + more, least, owner);
        loads_[rank] -= more;
        batches_[cell] = before;
      }
    }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_SEARCH_PADDED_HPP
