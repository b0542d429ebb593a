// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_COUNTS_COUNTED_BAGS_HPP
#define BALLAST_PARTITION_DETAIL_COUNTS_COUNTED_BAGS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/greedy/lightest_bags.hpp>
#include <ballast/partition/detail/greedy/loaded_bag.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// Bags that hold a fixed number of samples each. Heaviest first, each sample goes to the bag with
/// a free place that could then finish earliest: with the lightest samples of all in its other
/// places.
///
/// Longest processing time would take the bag that finishes the sample itself earliest. A bag with
/// a giant sample then gets nothing for long, and at the end its free places have to take samples
/// that are too heavy for it.
///
/// With several sizes of bags, a sample goes to no bag that would leave a larger one without enough
/// samples that fit it.
///
/// Shapes      counts[m], loads[m]; every array lives as long as the frame.
/// In, out     loads enters as work that each bag already has and leaves as the total.
/// Expects     counts that `balanced_counts_into` gives: some assignment has them.
/// Ensures     (1) bag b holds counts[b] samples, which fit it, heaviest first
///             (2) of bags of one size and speed a sample goes to the one that can end with least,
///                 of equal ones to the first; of kinds, to the one whose bag then ends earliest,
///                 of equal ones to the smaller, then to the slower
/// Complexity  construction O(n (kinds + log m)); 16 n + 48 m bytes of scratch.
class counted_bags {
 public:
  counted_bags(partition_problem const& problem, std::span<std::uint32_t const> counts,
               std::span<cost_units> loads, workspace::frame& scratch)
      : first_(scratch.take<std::uint32_t>(counts.size() + 1)),
        members_(scratch.take<priced_sample>(problem.heaviest_first.size())),
        loads_(loads)
  {
    first_[0] = 0;
    for (std::size_t bag = 0; bag < counts.size(); ++bag) {
      first_[bag + 1] = first_[bag] + counts[bag];
    }
    BALLAST_EXPECTS(first_.back() == members_.size());
    std::span<std::uint32_t> const next = scratch.take<std::uint32_t>(counts.size());
    std::copy_n(first_.begin(), next.size(), next.begin());

    // What bag b ends with at least. A bag without a free place gets a load above all others, so
    // that it is never the lightest.
    std::span<priced_sample const> const order = problem.heaviest_first;
    std::span<cost_units> const open_loads = scratch.take<cost_units>(counts.size());
    for (std::size_t bag = 0; bag < counts.size(); ++bag) {
      open_loads[bag] = counts[bag] == 0 ? no_cost : loads[bag];
      for (priced_sample const light : order.last(counts[bag])) { open_loads[bag] += light.cost; }
    }
    lightest_bags const bags(problem, open_loads, scratch);
    std::span<identical_bags> const kinds = bags.kinds();
    // spare[k]: samples to come that fit kind k, less the free places of kinds k and larger.
    std::span<std::int64_t> const spare = scratch.take<std::int64_t>(kinds.size());
    std::fill(spare.begin(), spare.end(), 0);
    if (kinds.size() > 1) {
      for (tokens const length : problem.lengths) { ++spare[largest_kind(kinds, length)]; }
      for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        for (loaded_bag const each : kinds[kind].heap) { spare[kind] -= counts[each.index]; }
      }
      for (std::size_t kind = kinds.size() - 1; kind-- > 0;) { spare[kind] += spare[kind + 1]; }
    }

    // A sample takes the place of the heaviest of the light samples that open_loads counts.
    auto const more_in = [&](std::size_t kind, cost_units cost) {
      std::size_t const bag = kinds[kind].lightest().index;
      return cost - order[order.size() - (first_[bag + 1] - next[bag])].cost;
    };

    for (auto const [cost, sample] : order) {
      std::size_t const largest =
          kinds.size() == 1 ? 0 : largest_kind(kinds, problem.lengths[to_index(sample)]);
      std::size_t best = kinds.size();
      ratio best_finish;
      for (std::size_t kind = largest + 1; kind-- > 0;) {
        if (kinds[kind].lightest().load != no_cost) {
          ratio const finish{kinds[kind].lightest().load + more_in(kind, cost), kinds[kind].speed};
          if (best == kinds.size() || finish <= best_finish) {
            best = kind;
            best_finish = finish;
          }
        }
        if (spare[kind] == 0) { break; }
      }
      for (std::size_t kind = best + 1; kind <= largest; ++kind) { --spare[kind]; }
      std::size_t const bag = kinds[best].lightest().index;
      cost_units const more = more_in(best, cost);
      members_[next[bag]++] = {cost, sample};
      loads_[bag] += cost;
      bool const full = next[bag] == first_[bag + 1];
      kinds[best].add_to_lightest(full ? no_cost - kinds[best].lightest().load : more);
    }
  }

  [[nodiscard]] std::span<priced_sample> operator[](std::size_t bag) const noexcept
  {
    return members_.subspan(first_[bag], first_[bag + 1] - first_[bag]);
  }

  [[nodiscard]] std::span<cost_units> loads() const noexcept { return loads_; }
  /// The samples of all bags, bag after bag.
  [[nodiscard]] std::span<priced_sample> members() const noexcept { return members_; }

  /// Swaps as many samples of two bags, given by their places, and keeps both lists heaviest
  /// first. O(samples of both) for each.
  void swap(std::size_t bag, std::span<std::uint32_t const> given, std::size_t other_bag,
            std::span<std::uint32_t const> taken) const
  {
    BALLAST_EXPECTS(given.size() == taken.size());
    for (std::size_t pair = 0; pair < given.size(); ++pair) {
      priced_sample& from = (*this)[bag][given[pair]];
      priced_sample& to = (*this)[other_bag][taken[pair]];
      loads_[bag] += to.cost - from.cost;
      loads_[other_bag] += from.cost - to.cost;
      std::swap(from, to);
    }
    restore_order((*this)[bag]);
    restore_order((*this)[other_bag]);
  }

  /// Writes the bag of every sample.
  void store(std::span<bag_id> owner) const noexcept
  {
    for (std::size_t bag = 0; bag < loads_.size(); ++bag) {
      for (priced_sample const member : (*this)[bag]) {
        owner[to_index(member.sample)] = to_id<bag_id>(bag);
      }
    }
  }

 private:
  [[nodiscard]] static std::size_t largest_kind(std::span<identical_bags const> kinds,
                                                tokens length) noexcept
  {
    std::size_t kind = kinds.size() - 1;
    while (!partition_problem::splits(length, kinds[kind].gpus)) { --kind; }
    return kind;
  }

  static void restore_order(std::span<priced_sample> list) noexcept
  {
    for (std::size_t sorted = 1; sorted < list.size(); ++sorted) {
      priced_sample const moved = list[sorted];
      std::size_t place = sorted;
      for (; place > 0 && list[place - 1].cost < moved.cost; --place) {
        list[place] = list[place - 1];
      }
      list[place] = moved;
    }
  }

  std::span<std::uint32_t> first_;
  std::span<priced_sample> members_;
  std::span<cost_units> loads_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_COUNTS_COUNTED_BAGS_HPP
