// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_SEARCH_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/vectors/bins_by_load.hpp>
#include <ballast/partition/detail/vectors/vector_bin_contents.hpp>
#include <ballast/partition/detail/vectors/vector_exchange.hpp>
#include <ballast/partition/detail/vectors/vector_rooms.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Exchanges samples between the bin that finishes last and others: one for one, and where no such
/// exchange helps, two for two.
///
/// Partners are tried from the one that finishes first on, in the dimension of the latest finish. A
/// bin has free places, so an exchange with one of them is a move, and a pair may be a single
/// sample.
///
/// Expects     every sample has a bin that it fits.
/// Ensures     (1) loads and owner belong together after every exchange
///             (2) after an exchange both of its bins finish before the latest did
///             (3) samples fit their bins, and no bin weighs more than its capacity that did not
///                 from the start, nor has more than its room in settled quantities
template <std::size_t D>
class vector_search {
 public:
  vector_search(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                std::span<bag_id> owner, work_budget& work, workspace::frame& scratch,
                workspace& memory, settled_loads<D> const& settled = {})
      : problem_(problem),
        loads_(loads),
        owner_(owner),
        work_(work),
        contents_(problem, owner, loads.size(), free_places, scratch, memory),
        bins_(loads, scratch, problem.speeds),
        rooms_(problem, owner, settled, scratch),
        undo_(scratch.take<made_exchange>(most_undone)),
        given_(scratch.take<bundle>(most_bundles)),
        taken_(scratch.take<bundle>(most_bundles))
  {}

  /// Searches until no bin finishes after the target or the work is spent. Where nothing helps, it
  /// makes a few random exchanges, unless told not to, searches on, and takes all back where that
  /// ends later.
  void run(ratio target, bool randomly)
  {
    while (improve(target, true)) { made_ = 0; }
    random_source random(owner_.size());
    while (randomly && is_late(target) && loads_.size() > 1 && !owner_.empty()) {
      ratio const before = latest();
      made_ = 0;
      shake(random);
      while (made_ + 1 < most_undone && improve(target, owner_.size() <= most_in_pairs)) {}
      if (latest() > before) { take_back(); }
    }
  }

 private:
  using place = bin_place<D>;

  struct made_exchange {
    place given;
    place taken;
    std::uint32_t heavy;
    std::uint32_t light;
  };

  static constexpr std::size_t most_undone = 128;
  // After random exchanges of more samples, single ones alone get further with the same work.
  static constexpr std::size_t most_in_pairs = 1024;

  [[nodiscard]] ratio latest() const { return bins_.latest_finish(bins_.heaviest_dimension()); }

  [[nodiscard]] bool is_late(ratio target) const { return !work_.spent() && latest() > target; }

  bool improve(ratio target, bool in_pairs)
  {
    return is_late(target) && (exchange_ones() || (in_pairs && exchange_pairs()));
  }

  /// Exchanges a place of the latest bin for one of another, and one to three times a place of any
  /// for one of another. Where places do not fit or find no room, it draws again, a few times.
  void shake(random_source& random)
  {
    std::size_t const wanted = 2 + random.below(3);
    auto heavy = bins_.lightest_first(bins_.heaviest_dimension()).back();
    for (std::size_t draws = 4 * wanted; draws > 0 && made_ < wanted; --draws) {
      auto const other = static_cast<std::uint32_t>(random.below(loads_.size() - 1));
      std::uint32_t const light = other < heavy ? other : other + 1;
      auto const places = contents_.places(heavy, 0);
      auto const others = contents_.places(light, 0);
      place const given = places[random.below(places.size())];
      place const taken = others[random.below(others.size())];
      work_.spend(places.size() + others.size());
      if (given.sample != taken.sample &&
          rooms_.template admit<1>(heavy, {given}, light, {taken})) {
        exchange(heavy, given, light, taken);
      }
      heavy = static_cast<std::uint32_t>(random.below(loads_.size()));
    }
  }

  void take_back()
  {
    while (made_ > 0) {
      made_exchange const last = undo_[--made_];
      exchange(last.heavy, last.taken, last.light, last.given);
      --made_;
    }
  }

  static constexpr std::size_t free_places = 2;
  static constexpr std::size_t bundled_places = 24;  ///< the lightest of a bin
  static constexpr std::size_t most_bundles = bundled_places * (bundled_places - 1) / 2;

  /// Two places of a bin, as positions in its list.
  struct bundle {
    cost_vector<D> cost;
    std::uint32_t first;
    std::uint32_t second;
  };

  /// Calls try_partner(bin) for bins that finish earlier, earliest first, until it returns true.
  template <class TryPartner>
  bool any_partner(std::size_t d, TryPartner const& try_partner)
  {
    ratio const latest = bins_.latest_finish(d);
    for (std::uint32_t const light : bins_.lightest_first(d)) {
      if (bins_.finish(light, d) >= latest || work_.spent()) { break; }
      // A bin that is one unit below would take that unit and be as late.
      if (ratio{loads_[light][d] + 1, problem_.speed(light)} >= latest) { continue; }
      if (try_partner(light)) { return true; }
    }
    return false;
  }

  [[nodiscard]] bin_pair<D> pair_of(std::uint32_t heavy, std::uint32_t light, std::size_t d) const
  {
    return {loads_[heavy], loads_[light], d, problem_.speed(heavy), problem_.speed(light)};
  }

  bool exchange_ones()
  {
    std::size_t const d = bins_.heaviest_dimension();
    std::uint32_t const heavy = bins_.lightest_first(d).back();
    return any_partner(d, [&](std::uint32_t light) {
      auto const given = contents_.places(heavy, d);
      auto const taken = contents_.places(light, d);
      vector_exchange best{bins_.latest_finish(d)};
      auto const allowed = [&](place const& gives, place const& takes) {
        return rooms_.template admit<1>(heavy, {gives}, light, {takes});
      };
      if (!improve_exchange(best, pair_of(heavy, light, d), given, taken, work_, allowed)) {
        return false;
      }
      exchange(heavy, given[best.given], light, taken[best.taken]);
      return true;
    });
  }

  bool exchange_pairs()
  {
    std::size_t const d = bins_.heaviest_dimension();
    std::uint32_t const heavy = bins_.lightest_first(d).back();
    std::span<bundle const> const given = bundles(heavy, d, given_);
    return any_partner(d, [&](std::uint32_t light) {
      std::span<bundle const> const taken = bundles(light, d, taken_);
      vector_exchange best{bins_.latest_finish(d)};
      auto const allowed = [&](bundle const& gives, bundle const& takes) {
        return rooms_.admit_all() ||
               rooms_.admit(heavy, places_of(heavy, d, gives), light, places_of(light, d, takes));
      };
      if (!improve_exchange(best, pair_of(heavy, light, d), given, taken, work_, allowed)) {
        return false;
      }
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
    undo_[made_++] = {given, taken, heavy, light};
    cost_vector<D> moved;
    for (std::size_t e = 0; e < D; ++e) { moved[e] = given.cost[e] - taken.cost[e]; }
    bins_.transfer(heavy, light, moved);
    contents_.exchange(heavy, given, light, taken);
    transfer(given.sample, heavy, light);
    transfer(taken.sample, light, heavy);
  }

  void transfer(std::uint32_t sample, std::uint32_t from, std::uint32_t to)
  {
    if (sample == place::no_sample) { return; }
    owner_[sample] = to_id<bag_id>(to);
    rooms_.move(sample, from, to);
  }

  cost_vector_problem<D> problem_;
  std::span<cost_vector<D>> loads_;
  std::span<bag_id> owner_;
  work_budget& work_;
  vector_bin_contents<D> contents_;
  bins_by_load<D> bins_;
  vector_rooms<D> rooms_;
  std::span<made_exchange> undo_;  // the exchanges since the best plan
  std::size_t made_ = 0;
  std::span<bundle> given_;
  std::span<bundle> taken_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_SEARCH_HPP
