// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>

namespace ballast::inline v0::detail {

/// One place of a bin: a sample and what it costs, or a free place, which costs nothing.
template <std::size_t D>
struct bin_place {
  cost_vector<D> cost{};
  std::uint32_t sample = no_sample;

  static constexpr std::uint32_t no_sample = ~std::uint32_t{0};
};

/// What lies in each bin, heaviest first in every dimension, for local search.
///
/// Every bin has a few free places, which count as samples without cost. Moving a sample is then
/// exchanging it with a free place, and no bin's list ever changes its length.
///
/// Ensures     (1) places(b, d) are the samples of bin b and its free places, their costs in
///                 dimension d not increasing, equal costs in sample order and free places last
/// Complexity  to build, D radix sorts and O(D (n + m)); exchange: O(D k) for bins of k samples,
///             all of it in one or two memmoves; (16 + 8 D) D bytes of scratch per place.
template <std::size_t D>
class vector_bin_contents {
 public:
  using place = bin_place<D>;

  vector_bin_contents(cost_vector_problem<D> const& problem, std::span<bag_id const> owner,
                      std::size_t bins, std::size_t free_places, workspace::frame& scratch,
                      workspace& memory)
      : first_(scratch.take<std::size_t>(bins + 1))
  {
    std::fill(first_.begin(), first_.end(), 0);
    for (bag_id const bin : owner) { ++first_[to_index(bin) + 1]; }
    for (std::size_t bin = 0; bin < bins; ++bin) { first_[bin + 1] += first_[bin] + free_places; }
    for (auto& each : places_) { each = scratch.take<place>(first_[bins]); }

    auto sorting = memory.open();
    std::span<cost_units> const costs = sorting.take<cost_units>(owner.size());
    std::span<priced_sample> const order = sorting.take<priced_sample>(owner.size());
    std::span<std::size_t> const next = sorting.take<std::size_t>(bins);
    for (std::size_t d = 0; d < D; ++d) {
      std::transform(problem.costs.begin(), problem.costs.end(), costs.begin(),
                     [d](cost_vector<D> const& cost) { return cost[d]; });
      descending_order_into(order, costs, memory);
      std::fill(places_[d].begin(), places_[d].end(), place{});
      std::copy_n(first_.begin(), bins, next.begin());
      for (priced_sample const each : order) {
        std::size_t const sample = to_index(each.sample);
        places_[d][next[to_index(owner[sample])]++] = {problem.costs[sample],
                                                       static_cast<std::uint32_t>(sample)};
      }
    }
  }

  [[nodiscard]] std::span<place const> places(std::size_t bin, std::size_t dimension) const noexcept
  {
    return places_[dimension].subspan(first_[bin], first_[bin + 1] - first_[bin]);
  }

  /// Exchanges what lies in a place of one bin for what lies in a place of another.
  void exchange(std::size_t bin, place const& here, std::size_t other, place const& there) noexcept
  {
    replace(bin, here, there);
    replace(other, there, here);
  }

 private:
  void replace(std::size_t bin, place const& leaves, place const& comes) noexcept
  {
    for (std::size_t d = 0; d < D; ++d) {
      auto const before = [d](place const& a, place const& b) {
        return a.cost[d] > b.cost[d] || (a.cost[d] == b.cost[d] && a.sample < b.sample);
      };
      auto const first = places_[d].begin() + static_cast<std::ptrdiff_t>(first_[bin]);
      auto const last = places_[d].begin() + static_cast<std::ptrdiff_t>(first_[bin + 1]);
      auto const from = std::lower_bound(first, last, leaves, before);
      auto const to = std::lower_bound(first, last, comes, before);
      if (to <= from) {
        std::move_backward(to, from, from + 1);
        *to = comes;
      } else {
        std::move(from + 1, to, from);
        *(to - 1) = comes;
      }
    }
  }

  std::span<std::size_t> first_;  // by bin: where its places begin, in every dimension
  std::array<std::span<place>, D> places_;
};

}  // namespace ballast::inline v0::detail
