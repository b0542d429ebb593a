// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_SEARCH_HPP
#define BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_SEARCH_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/bins_by_load.hpp>
#include <ballast/partition/vectors/detail/vector_bin_contents.hpp>
#include <ballast/partition/vectors/detail/vector_exchange.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Exchanges samples between the bin with the largest load and lighter ones: one for one, and where
/// no such exchange helps, two for two.
///
/// Partners are tried from the lightest on, in the dimension of the largest load. A bin has free
/// places, so an exchange with one of them is a move, and a pair may be a single sample.
///
/// Ensures     (1) loads and owner belong together after every exchange
///             (2) no exchange leaves its two bins with a load as large as the largest was
template <std::size_t D>
class vector_search {
 public:
  vector_search(vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                std::span<bin_id> owner, work_budget& work, workspace::frame& scratch,
                workspace& memory)
      : loads_(loads),
        owner_(owner),
        work_(work),
        contents_(problem, owner, loads.size(), free_places, scratch, memory),
        bins_(loads, scratch),
        given_(scratch.take<bundle>(most_bundles)),
        taken_(scratch.take<bundle>(most_bundles))
  {}

  /// Searches until the largest load is the target, nothing helps or the work is spent.
  void run(cost_units target)
  {
    while (!work_.spent()) {
      std::size_t const d = bins_.heaviest_dimension();
      if (bins_.heaviest_load(d) <= target) { break; }
      if (!exchange_ones(d) && !exchange_pairs(d)) { break; }
    }
  }

 private:
  using place = bin_place<D>;

  static constexpr std::size_t free_places = 2;
  static constexpr std::size_t bundled_places = 24;  ///< the lightest of a bin
  static constexpr std::size_t most_bundles = bundled_places * (bundled_places - 1) / 2;

  /// Two places of a bin, as positions in its list.
  struct bundle {
    cost_vector<D> cost;
    std::uint32_t first;
    std::uint32_t second;
  };

  /// Calls try_partner(bin) for lighter bins, lightest first, until it returns true.
  template <class TryPartner>
  bool any_partner(std::size_t d, TryPartner const& try_partner)
  {
    cost_units const largest = bins_.heaviest_load(d);
    for (std::uint32_t const light : bins_.lightest_first(d)) {
      // A bin that is one unit below would take that unit and be as large.
      if (loads_[light][d] + 1 >= largest || work_.spent()) { break; }
      if (try_partner(light)) { return true; }
    }
    return false;
  }

  bool exchange_ones(std::size_t d)
  {
    std::uint32_t const heavy = bins_.lightest_first(d).back();
    return any_partner(d, [&](std::uint32_t light) {
      auto const given = contents_.places(heavy, d);
      auto const taken = contents_.places(light, d);
      vector_exchange best{bins_.heaviest_load(d)};
      bin_pair<D> const pair{loads_[heavy], loads_[light], d};
      if (!improve_exchange(best, pair, given, taken, work_)) { return false; }
      exchange(heavy, given[best.given], light, taken[best.taken]);
      return true;
    });
  }

  bool exchange_pairs(std::size_t d)
  {
    std::uint32_t const heavy = bins_.lightest_first(d).back();
    std::span<bundle const> const given = bundles(heavy, d, given_);
    return any_partner(d, [&](std::uint32_t light) {
      std::span<bundle const> const taken = bundles(light, d, taken_);
      vector_exchange best{bins_.heaviest_load(d)};
      bin_pair<D> const pair{loads_[heavy], loads_[light], d};
      if (!improve_exchange(best, pair, given, taken, work_)) { return false; }
      auto const [given_first, given_second] = places_of(heavy, d, given[best.given]);
      auto const [taken_first, taken_second] = places_of(light, d, taken[best.taken]);
      exchange(heavy, given_first, light, taken_first);
      exchange(heavy, given_second, light, taken_second);
      return true;
    });
  }

  /// All pairs of a bin's lightest places, heaviest pair first.
  std::span<bundle const> bundles(std::uint32_t bin, std::size_t d, std::span<bundle> memory)
  {
    auto const places = contents_.places(bin, d);
    std::size_t count = 0;
    auto const from = places.size() - std::min(places.size(), bundled_places);
    for (std::size_t first = from; first < places.size(); ++first) {
      for (std::size_t second = first + 1; second < places.size(); ++second) {
        bundle& both = memory[count++];
        both = {places[first].cost, static_cast<std::uint32_t>(first),
                static_cast<std::uint32_t>(second)};
        for (std::size_t e = 0; e < D; ++e) { both.cost[e] += places[second].cost[e]; }
      }
    }
    work_.spend(count);
    std::span<bundle> const all = memory.first(count);
    std::sort(all.begin(), all.end(), [d](bundle const& a, bundle const& b) {
      return precedes(b.cost[d], a.cost[d], a.first, b.first, a.second, b.second);
    });
    return all;
  }

  [[nodiscard]] std::array<place, 2> places_of(std::uint32_t bin, std::size_t d,
                                               bundle const& both) const
  {
    auto const places = contents_.places(bin, d);
    return {places[both.first], places[both.second]};
  }

  void exchange(std::uint32_t heavy, place const given, std::uint32_t light, place const taken)
  {
    cost_vector<D> moved;
    for (std::size_t e = 0; e < D; ++e) { moved[e] = given.cost[e] - taken.cost[e]; }
    bins_.transfer(heavy, light, moved);
    contents_.exchange(heavy, given, light, taken);
    if (given.sample != place::no_sample) { owner_[given.sample] = to_id<bin_id>(light); }
    if (taken.sample != place::no_sample) { owner_[taken.sample] = to_id<bin_id>(heavy); }
  }

  std::span<cost_vector<D>> loads_;
  std::span<bin_id> owner_;
  work_budget& work_;
  vector_bin_contents<D> contents_;
  bins_by_load<D> bins_;
  std::span<bundle> given_;
  std::span<bundle> taken_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_SEARCH_HPP
