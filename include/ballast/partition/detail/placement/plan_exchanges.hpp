// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/placement/plan_branch.hpp>

namespace ballast::inline v0::detail {

/// Exchanges items between two lanes of a plan so that both finish before the later one did, in all
/// of some quantities: one for one, and where none helps, two for two. All limits are kept.
///
/// Each place has a list for every quantity: its items, heaviest first, and two free places, which
/// count as items without cost. Moving an item is exchanging it with a free place, a pair may be a
/// single item, and no list changes its length. So what helps a lane in a quantity is a window that
/// slides along the other list, and few pairs are looked at.
///
/// Ensures     (1) the limits are kept, if they were
///             (2) after an exchange both lanes finish before the one to relieve did, and no lane
///                 has more than its most load of any quantity
/// Complexity  D radix sorts to build; an exchange moves O(D (lanes + k)) words in places of k items;
///             (20 + 8 D + 8 limits) D bytes of scratch per item and place.
class plan_exchanges {
 public:
  /// Others may not change the plan meanwhile.
  BALLAST_ONCE plan_exchanges(plan_state& plan, std::uint64_t quantities, work_budget& work,
                              workspace::frame& scratch, workspace& memory);

  /// When the last lane finishes, or all rows have, where bags meet after each.
  [[nodiscard]] ratio latest() const
  {
    if (problem_.sums_rows) { return rows_.of(plan_); }
    std::size_t const d = heaviest();
    return finish(lightest_first(d).back(), d);
  }

  /// Relieves the lane that finishes last until the target is met or nothing helps; then makes a few
  /// random exchanges and goes on, and takes all back where that ends later: until so many times in
  /// a row nothing is gained.
  BALLAST_ONCE void run(ratio target, std::uint64_t most_failures);

  /// Relieves the lane that finishes last, then any, until nothing helps.
  BALLAST_ONCE void level();

 private:
  static constexpr std::uint32_t no_item = ~std::uint32_t{0};
  static constexpr std::uint32_t all_items = no_item - 1;  ///< of a place
  static constexpr std::size_t most_others = 4;
  static constexpr std::size_t free_places = 2;
  static constexpr std::size_t bundled_places = 24;  ///< the lightest of a place
  static constexpr std::size_t most_bundles = bundled_places * (bundled_places - 1) / 2;
  static constexpr std::size_t most_undone = 128;
  static constexpr std::uint64_t work_of_limits = 4;  ///< to look at those that are not sums
  // After random exchanges of more items, single ones alone get further with the same work.
  static constexpr std::size_t most_in_pairs = 1024;

  struct two_places {
    std::size_t from;
    std::size_t to;
  };

  struct exchanged {
    std::uint32_t given;
    std::uint32_t taken;
    std::uint32_t from;
    std::uint32_t to;
  };

  /// What a place offers: vectors of what things cost and take of what is limited, heaviest first in
  /// the quantity in question.
  struct offers {
    cost_units const* costs = nullptr;
    std::size_t size = 0;
    std::size_t first = 0;  ///< of single items: where they lie in the lists
  };

  struct bundles {
    struct bundle {
      cost_units cost;  ///< of what they are sorted by
      std::uint16_t first;
      std::uint16_t second;
    };
    bundles(workspace::frame& scratch, std::size_t width)
        : pairs(scratch.take<bundle>(most_bundles)),
          costs(scratch.take<cost_units>(most_bundles * width))
    {}
    std::span<bundle> pairs;
    std::span<cost_units> costs;
    std::size_t begin = 0;  ///< of the lightest items in the lists
  };

  /// Relieves the lane that finishes last until nothing helps, also where that takes more free places
  /// than lists had.
  void descend(ratio target)
  {
    do {
      if (is_crowded_) { list_places(); }
      while (improve(target, true)) { made_ = 0; }
    } while (is_crowded_ && is_late(target));
  }

  void list_places()
  {
    is_crowded_ = false;
    std::size_t all = 0;
    for (std::size_t place = 0; place < plan_.places(); ++place) {
      first_[place] = all;
      sizes_[place] = static_cast<std::size_t>(plan_.count(place)) + free_places;
      all += sizes_[place];
    }
    for (std::size_t d = 0; d < depth_; ++d) { list_items(d); }
  }

  void list_lanes()
  {
    std::fill(lane_first_.begin(), lane_first_.end(), 0);
    for (std::size_t place = 0; place < plan_.places(); ++place) {
      ++lane_first_[problem_.lane(place) + 1];
    }
    std::partial_sum(lane_first_.begin(), lane_first_.end(), lane_first_.begin());
    std::iota(lane_places_.begin(), lane_places_.end(), std::uint32_t{0});
    std::sort(lane_places_.begin(), lane_places_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return precedes(problem_.lane(a), problem_.lane(b), a, b);
    });
  }

  void list_items(std::size_t d)
  {
    auto sorting = memory_.open();
    std::span<cost_units> const keys = sorting.take<cost_units>(plan_.items());
    std::span<priced_sample> const order = sorting.take<priced_sample>(plan_.items());
    std::span<std::size_t> const next = sorting.take<std::size_t>(plan_.places());
    for (std::size_t item = 0; item < keys.size(); ++item) { keys[item] = problem_.cost(item, d); }
    descending_order_into(order, keys, memory_);
    std::size_t const all = listed();
    std::fill_n(items_.begin() + static_cast<std::ptrdiff_t>(d * all), all, no_item);
    std::fill_n(costs_.begin() + static_cast<std::ptrdiff_t>(d * all * width_), all * width_, 0);
    std::copy_n(first_.begin(), next.size(), next.begin());
    for (priced_sample const each : order) {
      std::size_t const item = to_index(each.sample);
      std::size_t const at = d * all + next[plan_.owner(item)]++;
      items_[at] = static_cast<std::uint32_t>(item);
      for (std::size_t e = 0; e < width_; ++e) { costs_[at * width_ + e] = amount(items_[at], e); }
    }
  }

  [[nodiscard]] std::size_t listed() const { return plan_.items() + free_places * plan_.places(); }
  [[nodiscard]] std::span<std::uint32_t> lightest_first(std::size_t d) const
  {
    return order_.subspan(d * plan_.lanes(), plan_.lanes());
  }
  [[nodiscard]] ratio finish(std::size_t lane, std::size_t d) const
  {
    return {loads_[lane * depth_ + d], problem_.speeds[lane]};
  }
  [[nodiscard]] bool is_lighter(std::size_t d, std::uint32_t a, std::uint32_t b) const
  {
    return precedes(finish(a, d), finish(b, d), a, b);
  }
  [[nodiscard]] bool counts(std::size_t d) const { return (quantities_ >> d & 1U) != 0; }

  /// The quantity in which lanes finish last; of equals the first.
  [[nodiscard]] std::size_t heaviest() const
  {
    std::size_t last = depth_;
    for (std::size_t d = 0; d < depth_; ++d) {
      if (!counts(d)) { continue; }
      if (last == depth_ ||
          finish(lightest_first(last).back(), last) < finish(lightest_first(d).back(), d)) {
        last = d;
      }
    }
    return last;
  }

  [[nodiscard]] bool is_late(ratio target) const { return !work_.spent() && latest() > target; }

  bool improve(ratio target, bool in_pairs)
  {
    if (!is_late(target)) { return false; }
    if (problem_.sums_rows) { return shorten_row(); }
    std::size_t const d = heaviest();
    std::size_t const last = lightest_first(d).back();
    if (relieve(last, in_pairs) || (has_speeds_ && exchange_contents(last, latest()))) {
      return true;
    }
    // The next ones make room for it.
    std::size_t const others = std::min(most_others, plan_.lanes() - 1);
    for (std::size_t at = 1; at <= others; ++at) {
      std::size_t const lane = lightest_first(d)[plan_.lanes() - 1 - at];
      if (finish(lane, d) <= target || work_.spent()) { break; }
      if (relieve(lane, false) || (has_speeds_ && exchange_contents(lane, finish(lane, d)))) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] cost_units time(std::size_t place, cost_units more = 0) const
  {
    return rows_.time(plan_, place, more);
  }
  /// When the row of a place ended before the exchange.
  [[nodiscard]] cost_units height_of(std::size_t place) const
  {
    return rows_.height_at_look(place / problem_.row);
  }
  /// The three latest places of a row, or fewer.
  void list_latest(std::size_t row)
  {
    latest_.fill(plan_state::none);
    for (std::size_t place = row * problem_.row; place < (row + 1) * problem_.row; ++place) {
      std::size_t self = place;
      for (std::size_t& each : latest_) {
        if (each == plan_state::none || time(each) < time(self)) { std::swap(each, self); }
        if (self == plan_state::none) { break; }
      }
    }
  }
  /// When the row of the latest places ends without two places.
  [[nodiscard]] cost_units height_without(std::size_t one, std::size_t other) const
  {
    for (std::size_t const each : latest_) {
      if (each != plan_state::none && each != one && each != other) { return time(each); }
    }
    return 0;
  }
  /// Relieves the latest place of the next row, so that this and the row of what it exchanges with
  /// take less together; where nothing helps, that of another row.
  bool shorten_row()
  {
    rows_.look(plan_);
    auto const idle = [&](std::uint32_t place) { return height_of(place) - time(place); };
    std::size_t const rows = plan_.places() / problem_.row;
    std::iota(by_idle_.begin(), by_idle_.end(), std::uint32_t{0});
    std::sort(by_idle_.begin(), by_idle_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return precedes(idle(b), idle(a), a, b); });
    work_.spend(4 * plan_.places());
    for (std::size_t tried = 0; tried < 2 * rows && !work_.spent(); ++tried) {
      list_latest(next_row_++ % rows);
      auto const late = static_cast<std::uint32_t>(latest_[0]);
      bool const in_pairs = tried >= rows;
      if (in_pairs ? exchange_pairs(late, 0) : exchange_ones(late, 0)) { return true; }
    }
    return false;
  }
  /// What an exchange of a lane with a place has to shorten: its time, or that of their rows.
  [[nodiscard]] ratio until(std::size_t lane, std::size_t to, std::size_t d) const
  {
    if (!problem_.sums_rows) { return finish(lane, d); }
    bool const is_one = lane / problem_.row == to / problem_.row;
    return {height_of(lane) + (is_one ? 0 : height_of(to)), rows_.common()};
  }

  bool relieve(std::size_t lane, bool in_pairs)
  {
    std::size_t last = depth_;
    for (std::size_t d = 0; d < depth_; ++d) {
      if (counts(d) && (last == depth_ || finish(lane, last) < finish(lane, d))) { last = d; }
    }
    return exchange_ones(lane, last) || (in_pairs && exchange_pairs(lane, last));
  }

  template <class TryPlace>
  bool any_partner(std::size_t lane, std::size_t d, TryPlace const& try_place)
  {
    for (std::uint32_t const to : by_idle_) {
      if (work_.spent()) { break; }
      if (to != lane && try_place(to)) { return true; }
    }
    if (problem_.sums_rows) { return false; }
    ratio const latest = finish(lane, d);
    for (std::uint32_t const light : lightest_first(d)) {
      if (finish(light, d) >= latest || work_.spent()) { break; }
      // A lane that is one unit below would take that unit and be as late.
      if (ratio{loads_[light * depth_ + d] + 1, problem_.speeds[light]} >= latest) { continue; }
      for (std::uint32_t const to : places_of(light)) {
        if (try_place(to)) { return true; }
      }
    }
    return false;
  }
  [[nodiscard]] std::span<std::uint32_t const> places_of(std::size_t lane) const
  {
    return lane_places_.subspan(lane_first_[lane], lane_first_[lane + 1] - lane_first_[lane]);
  }

  [[nodiscard]] offers items_of(std::size_t place, std::size_t d) const
  {
    std::size_t const first = d * listed() + first_[place];
    return {costs_.data() + first * width_, sizes_[place], first};
  }

  bool exchange_ones(std::size_t lane, std::size_t d)
  {
    return any_partner(lane, d, [&](std::uint32_t to) {
      ratio best = until(lane, to, d);
      exchanged chosen{};
      bool found = false;
      for (std::uint32_t const from : places_of(lane)) {
        offers const given = items_of(from, d);
        offers const taken = items_of(to, d);
        auto const allows = [&](std::size_t out, std::size_t in) {
          return admits({items_[given.first + out], no_item}, from,
                        {items_[taken.first + in], no_item}, to);
        };
        auto const [out, in] = improve_exchange(best, {from, to}, d, given, taken, allows);
        if (out == given.size) { continue; }
        chosen = {items_[given.first + out], items_[taken.first + in], from, to};
        found = true;
      }
      if (found) { exchange(chosen); }
      return found;
    });
  }

  /// Exchanges all that the latest lane holds for all of a faster one, if both then finish before.
  bool exchange_contents(std::size_t last, ratio latest)
  {
    for (std::size_t lane = 0; lane < plan_.lanes(); ++lane) {
      work_.spend(1);
      if (problem_.speeds[lane] <= problem_.speeds[last]) { continue; }
      bool is_earlier = true;
      for (std::size_t d = 0; d < depth_ && is_earlier; ++d) {
        cost_units const moved = contents(last, d) - contents(lane, d);
        is_earlier =
            !counts(d) ||
            std::max(ratio{loads_[last * depth_ + d] - moved, problem_.speeds[last]},
                     ratio{loads_[lane * depth_ + d] + moved, problem_.speeds[lane]}) < latest;
      }
      if (is_earlier && exchange_all(last, lane)) { return true; }
    }
    return false;
  }
  [[nodiscard]] cost_units contents(std::size_t lane, std::size_t d) const
  {
    return loads_[lane * depth_ + d] -
           (problem_.starts.empty() ? 0 : problem_.starts[lane * depth_ + d]);
  }

  bool exchange_all(std::size_t from, std::size_t to)
  {
    auto const given = all_of(from);
    auto const taken = all_of(to);
    work_.spend(given.size() + taken.size());
    if (!plan_.admits(given, to, taken) || !plan_.admits(taken, from, given)) { return false; }
    exchange(
        {all_items, all_items, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)});
    return true;
  }
  [[nodiscard]] std::span<std::uint32_t const> all_of(std::size_t place) const
  {
    std::span<std::uint32_t const> const all(items_);
    return all.subspan(first_[place], static_cast<std::size_t>(plan_.count(place)));
  }

  bool exchange_pairs(std::size_t lane, std::size_t d)
  {
    for (std::uint32_t const from : places_of(lane)) {
      offers given;
      std::size_t given_by = width_;
      bool const found = any_partner(lane, d, [&](std::uint32_t to) {
        ratio best = until(lane, to, d);
        std::size_t const by = narrowest({from, to}, d, best);
        if (by != given_by) { given = pair_up(from, d, by, given_); }
        given_by = by;
        offers const taken = pair_up(to, d, by, taken_);
        auto const allows = [&](std::size_t out, std::size_t in) {
          return admits(items_of(given_, out), from, items_of(taken_, in), to);
        };
        auto const [out, in] = improve_exchange(best, {from, to}, by, given, taken, allows);
        if (out == given.size) { return false; }
        auto const gives = items_of(given_, out);
        auto const takes = items_of(taken_, in);
        for (std::size_t each : {0U, 1U}) { exchange({gives[each], takes[each], from, to}); }
        return true;
      });
      if (found) { return true; }
    }
    return false;
  }

  [[nodiscard]] std::array<std::uint32_t, 2> items_of(bundles const& of, std::size_t at) const
  {
    auto const* const items = items_.data() + of.begin;
    return {items[of.pairs[at].first], items[of.pairs[at].second]};
  }

  /// Of quantities and limits, the one whose window leaves the smallest part of what two places may
  /// exchange.
  [[nodiscard]] std::size_t narrowest(two_places places, std::size_t d, ratio best)
  {
    bound_exchange(places, best);
    std::size_t chosen = d;
    ratio least{no_cost, 1};
    for (std::size_t at = 0; at < counts_at_; ++at) {
      std::size_t const e = at == 0 ? d : at <= d ? at - 1 : at;  // of equals d
      cost_units heaviest = 1;
      for (std::size_t const place : {places.from, places.to}) {
        offers const all = items_of(place, d);
        for (std::size_t each = all.size - std::min(all.size, bundled_places); each < all.size;
             ++each) {
          heaviest = std::max(heaviest, all.costs[each * width_ + e]);
        }
      }
      cost_units const window =
          std::min(bounds_[width_ + e], heaviest) - std::max(bounds_[e], -heaviest);
      ratio const part{std::max<cost_units>(window, 0), heaviest};
      if (part < least) {
        least = part;
        chosen = e;
      }
    }
    return chosen;
  }

  offers pair_up(std::size_t place, std::size_t d, std::size_t by, bundles& into)
  {
    offers const all = items_of(place, d);
    std::size_t const size = std::min(all.size, bundled_places);
    into.begin = all.first + all.size - size;
    cost_units const* const costs = costs_.data() + into.begin * width_;
    std::size_t count = 0;
    for (std::size_t first = 0; first < size; ++first) {
      for (std::size_t second = first + 1; second < size; ++second) {
        into.pairs[count++] = {costs[first * width_ + by] + costs[second * width_ + by],
                               static_cast<std::uint16_t>(first),
                               static_cast<std::uint16_t>(second)};
      }
    }
    work_.spend(count);
    auto const pairs = into.pairs.first(count);
    std::sort(pairs.begin(), pairs.end(), [](bundles::bundle const& a, bundles::bundle const& b) {
      return a.cost != b.cost ? a.cost > b.cost : precedes(a.first, b.first, a.second, b.second);
    });
    for (std::size_t at = 0; at < count; ++at) {
      for (std::size_t e = 0; e < width_; ++e) {
        into.costs[at * width_ + e] =
            costs[pairs[at].first * width_ + e] + costs[pairs[at].second * width_ + e];
      }
    }
    return {into.costs.data(), count};
  }

  [[nodiscard]] bool admits(std::array<std::uint32_t, 2> given, std::size_t from,
                            std::array<std::uint32_t, 2> taken, std::size_t to) const
  {
    auto const real = [](std::array<std::uint32_t, 2>& items) {
      if (items[0] == no_item) { std::swap(items[0], items[1]); }
      return std::span<std::uint32_t const>(items).first(items[0] == no_item   ? 0U
                                                         : items[1] == no_item ? 1U
                                                                               : 2U);
    };
    return plan_.admits_exchange(real(given), from, real(taken), to);
  }

  /// The exchange after which the two lanes finish earliest, if before `best`; of equals the first.
  ///
  /// What moves is bounded from both sides, in each quantity: enough for the heavy lane to finish
  /// before the best one so far, and not so much that the light lane does not; in what does not
  /// count, and of what is limited, as much as lanes may do and places have room for. So for each thing given, those to take lie in a window, and
  /// the window of the next one never lies before it. What lanes may do is a number of whole units,
  /// so most pairs are refused without a division.
  ///
  /// Returns     their positions, or the sizes for none.
  template <class Allows>
  std::pair<std::size_t, std::size_t> improve_exchange(ratio& best, two_places places,
                                                       std::size_t d, offers const& given,
                                                       offers const& taken, Allows const& allows)
  {
    switch (width_) {
      case 1: return improve_exchange<1>(best, places, d, given, taken, allows);
      case 2: return improve_exchange<2>(best, places, d, given, taken, allows);
      case 3: return improve_exchange<3>(best, places, d, given, taken, allows);
      default: return improve_exchange<0>(best, places, d, given, taken, allows);
    }
  }

  template <std::size_t Width, class Allows>
  std::pair<std::size_t, std::size_t> improve_exchange(ratio& best, two_places places,
                                                       std::size_t d, offers const& given,
                                                       offers const& taken, Allows const& allows)
  {
    std::size_t const width = Width == 0 ? width_ : Width;
    std::size_t const heavy = problem_.lane(places.from);
    std::size_t const light = problem_.lane(places.to);
    bound_exchange(places, best);
    cost_units* const least = bounds_.data();
    cost_units* const most = least + width;
    std::pair<std::size_t, std::size_t> chosen(given.size, taken.size);
    std::uint64_t pairs = 0;
    std::size_t first = 0;
    for (std::size_t out = 0; out < given.size; ++out) {
      cost_units const* const gives = given.costs + out * width;
      while (first < taken.size && gives[d] - taken.costs[first * width + d] < least[d]) {
        ++first;
      }
      std::size_t in = first;
      for (; in < taken.size && gives[d] - taken.costs[in * width + d] <= most[d]; ++in) {
        cost_units const* const takes = taken.costs + in * width;
        bool is_within = true;
        for (std::size_t e = 0; e < width; ++e) {
          cost_units const moved = gives[e] - takes[e];
          is_within = is_within && moved >= least[e] && moved <= most[e];
        }
        // Few are: what follows must not take registers from the loops.
        if (!is_within) [[likely]] { continue; }
        if (!is_open_) {
          work_.spend(work_of_limits);
          if (!allows(out, in)) { continue; }
        }
        best = {};
        for (std::size_t e = 0; e < depth_; ++e) {
          if (!counts(e)) { continue; }
          cost_units const moved = gives[e] - takes[e];
          best = std::max(best, ratio{loads_[heavy * depth_ + e] - moved, problem_.speeds[heavy]});
          best = std::max(best, ratio{loads_[light * depth_ + e] + moved, problem_.speeds[light]});
        }
        if (problem_.sums_rows) { best = of_rows(heavy, light, gives[0] - takes[0]); }
        be_before(heavy, light, best);
        chosen = {out, in};
      }
      pairs += in - first;
    }
    work_.spend(given.size + pairs);
    return chosen;
  }

  /// Writes how much may move from a place to another so that both lanes finish before `best`.
  void bound_exchange(two_places places, ratio best)
  {
    std::size_t const heavy = problem_.lane(places.from);
    std::size_t const light = problem_.lane(places.to);
    cost_units* const least = bounds_.data();
    cost_units* const most = least + width_;
    for (std::size_t e = 0; e < depth_; ++e) {
      least[e] = loads_[heavy * depth_ + e] - plan_.most_load(heavy, e);
      most[e] = plan_.most_load(light, e) - loads_[light * depth_ + e];
    }
    for (std::size_t at = 0; at < problem_.limits.size(); ++at) {
      placement_problem::limit const& limit = problem_.limits[at];
      bool const is_soft = limit.is_soft;  // then plan_state::admits says what is refused
      least[depth_ + at] =
          is_soft ? -no_cost : plan_.held(at, places.from) - limit.room[places.from];
      most[depth_ + at] = is_soft ? no_cost : limit.room[places.to] - plan_.held(at, places.to);
    }
    if (counts_at_ < width_) {
      count_limits const& wanted = problem_.counts;
      auto const room = [&](std::size_t place) { return wanted.most - plan_.count(place); };
      auto const spare = [&](std::size_t place) { return plan_.count(place) - wanted.least; };
      bool const only_swaps =
          wanted.is_equal && (wanted.rest > 0 || wanted.most > wanted.least + 1);
      least[counts_at_] = only_swaps ? 0 : -std::min(spare(places.to), room(places.from));
      most[counts_at_] = only_swaps ? 0 : std::min(spare(places.from), room(places.to));
      least[counts_at_ + 1] = plan_.samples(places.from) - wanted.most_samples;
      most[counts_at_ + 1] = wanted.most_samples - plan_.samples(places.to);
    }
    if (problem_.sums_rows) {
      is_apart_ = heavy / problem_.row != light / problem_.row;
      others_ = height_without(heavy, light);
      beside_ = is_apart_ ? height_of(light) : 0;
    }
    be_before(heavy, light, best);
  }
  /// What the rows of two places take when so much has moved from one to the other.
  [[nodiscard]] ratio of_rows(std::size_t heavy, std::size_t light, cost_units moved) const
  {
    cost_units const own = std::max(others_, time(heavy, -moved));
    cost_units const then = time(light, moved);
    return {is_apart_ ? own + std::max(beside_, then) : std::max(own, then), rows_.common()};
  }
  void be_before(std::size_t heavy, std::size_t light, ratio best)
  {
    auto const without = [&](cost_units part) {
      return ratio{std::max<cost_units>(best.numerator - part, 0), best.denominator};
    };
    cost_units const of_heavy = work_before(without(beside_), problem_.speeds[heavy]);
    cost_units const of_light =
        work_before(without(is_apart_ ? others_ : 0), problem_.speeds[light]);
    for (std::size_t e = 0; e < depth_; ++e) {
      if (!counts(e)) { continue; }
      bounds_[e] = std::max(bounds_[e], loads_[heavy * depth_ + e] - of_heavy);
      bounds_[width_ + e] = std::min(bounds_[width_ + e], of_light - loads_[light * depth_ + e]);
    }
  }

  /// Exchanges an item of the latest lane for one of another, and one to three times an item of any
  /// for one of another. Where limits refuse, it draws again, a few times.
  void shake(random_source& random)
  {
    std::size_t const wanted = 2 + random.below(3);
    std::size_t heavy = problem_.sums_rows ? random.below(plan_.lanes())
                                           : std::size_t{lightest_first(heaviest()).back()};
    if (has_speeds_ && random.below(4) == 0) {
      std::size_t const other = random.below(plan_.lanes() - 1);
      if (exchange_all(heavy, other < heavy ? other : other + 1)) { return; }
    }
    auto const place_of = [&](std::size_t lane) {
      auto const places = places_of(lane);
      return places[places.size() == 1 ? 0 : random.below(places.size())];
    };
    for (std::size_t draws = 4 * wanted; draws > 0 && made_ < wanted; --draws) {
      std::size_t const other = random.below(plan_.lanes() - 1);
      std::uint32_t const from = place_of(heavy);
      std::uint32_t const to = place_of(other < heavy ? other : other + 1);
      offers const here = items_of(from, 0);
      offers const there = items_of(to, 0);
      std::uint32_t const given = items_[here.first + random.below(here.size)];
      std::uint32_t const taken = items_[there.first + random.below(there.size)];
      work_.spend(here.size + there.size);
      if (given != taken && admits({given, no_item}, from, {taken, no_item}, to)) {
        exchange({given, taken, from, to});
      }
      heavy = random.below(plan_.lanes());
    }
  }

  void take_back()
  {
    while (made_ > 0) {
      exchanged const last = undo_[--made_];
      exchange({last.taken, last.given, last.from, last.to});
      --made_;
    }
  }

  void exchange(exchanged const& what)
  {
    undo_[made_++] = what;
    std::size_t const heavy = problem_.lane(what.from);
    std::size_t const light = problem_.lane(what.to);
    if (what.given == all_items) {
      for (std::size_t d = 0; d < depth_; ++d) {
        cost_units const moved = contents(heavy, d) - contents(light, d);
        reload(heavy, d, loads_[heavy * depth_ + d] - moved);
        reload(light, d, loads_[light * depth_ + d] + moved);
      }
      auto const given = all_of(what.from);
      for (std::uint32_t const item : given) { plan_.take(item); }
      for (std::uint32_t const item : all_of(what.to)) {
        plan_.exchange(item, plan_state::none, what.from);
      }
      for (std::uint32_t const item : given) { plan_.put(item, what.to); }
      std::swap(first_[what.from], first_[what.to]);
      std::swap(sizes_[what.from], sizes_[what.to]);
      return;
    }
    if (what.given == what.taken) { return; }
    for (std::size_t d = 0; d < depth_; ++d) {
      cost_units const moved = amount(what.given, d) - amount(what.taken, d);
      reload(heavy, d, loads_[heavy * depth_ + d] - moved);
      reload(light, d, loads_[light * depth_ + d] + moved);
      replace(what.from, d, what.given, what.taken);
      replace(what.to, d, what.taken, what.given);
    }
    if (what.given == no_item) {
      plan_.exchange(what.taken, plan_state::none, what.from);
    } else {
      plan_.exchange(what.given, what.taken == no_item ? plan_state::none : what.taken, what.to);
    }
    for (std::uint32_t const place : {what.from, what.to}) {
      is_crowded_ = is_crowded_ || sizes_[place] == static_cast<std::size_t>(plan_.count(place));
    }
  }

  /// What an item costs in a quantity or, from depth_ on, takes of what is limited and counted.
  [[nodiscard]] cost_units amount(std::uint32_t item, std::size_t of) const
  {
    return item == no_item   ? 0
           : of < depth_     ? problem_.cost(item, of)
           : of < counts_at_ ? problem_.limits[of - depth_].takes[item]
           : of > counts_at_ ? problem_.samples_of(item)
                             : 1;
  }

  void reload(std::size_t lane, std::size_t d, cost_units load)
  {
    auto const order = lightest_first(d);
    auto const self = static_cast<std::uint32_t>(lane);
    auto const before = [&](std::uint32_t a, std::uint32_t b) { return is_lighter(d, a, b); };
    auto const from = std::lower_bound(order.begin(), order.end(), self, before);
    bool const grows = load > loads_[lane * depth_ + d];
    loads_[lane * depth_ + d] = load;
    if (grows) {
      auto const to = std::lower_bound(from + 1, order.end(), self, before);
      *std::move(from + 1, to, from) = self;
    } else {
      auto const to = std::lower_bound(order.begin(), from, self, before);
      std::move_backward(to, from, from + 1);
      *to = self;
    }
  }

  void replace(std::size_t place, std::size_t d, std::uint32_t leaves, std::uint32_t comes)
  {
    offers const all = items_of(place, d);
    auto const position = [&](std::uint32_t item) {  // of the first that is not before it
      cost_units const cost = amount(item, d);
      std::size_t from = 0;
      for (std::size_t to = all.size; from < to;) {
        std::size_t const at = from + (to - from) / 2;
        cost_units const there = all.costs[at * width_ + d];
        bool const is_before = there > cost || (there == cost && items_[all.first + at] < item);
        (is_before ? from : to) = is_before ? at + 1 : at;
      }
      return from;
    };
    auto const hole = static_cast<std::ptrdiff_t>(position(leaves));
    auto at = static_cast<std::ptrdiff_t>(position(comes));
    auto const items = items_.begin() + static_cast<std::ptrdiff_t>(all.first);
    auto const costs = costs_.begin() + static_cast<std::ptrdiff_t>(all.first * width_);
    auto const width = static_cast<std::ptrdiff_t>(width_);
    if (at <= hole) {
      std::move_backward(items + at, items + hole, items + hole + 1);
      std::move_backward(costs + at * width, costs + hole * width, costs + (hole + 1) * width);
    } else {
      std::move(items + hole + 1, items + at, items + hole);
      std::move(costs + (hole + 1) * width, costs + at * width, costs + hole * width);
      --at;
    }
    items[at] = comes;
    for (std::size_t e = 0; e < width_; ++e) {
      costs[at * width + static_cast<std::ptrdiff_t>(e)] = amount(comes, e);
    }
  }

  plan_state& plan_;
  placement_problem const& problem_;
  std::uint64_t quantities_;
  std::size_t depth_;      ///< how many quantities there are
  std::size_t counts_at_;  ///< behind quantities and limits: items and samples, where limited
  std::size_t width_;
  work_budget& work_;
  workspace& memory_;
  bool is_crowded_ = false;              ///< the list of some place has had no free place
  bool is_open_;                         ///< to every item, every place with room
  least_row_sum rows_;                   ///< of problems that sum rows
  std::array<std::size_t, 3> latest_{};  ///< places of the row to shorten
  std::span<std::uint32_t> by_idle_;     ///< places, the one that waits longest for its row first
  cost_units others_ = 0;                ///< when the other places of the row to shorten end
  cost_units beside_ = 0;                ///< and the row of what it exchanges with, if another
  bool is_apart_ = false;                ///< it is another
  std::size_t next_row_ = 0;             ///< to shorten
  bool has_speeds_;                      ///< lanes are places, and some faster than others
  std::span<cost_units> loads_;
  std::span<std::uint32_t> order_;  ///< lanes by finish, in each quantity
  std::span<std::size_t> first_;    ///< by place: where its items begin, in each quantity
  std::span<std::size_t> sizes_;    ///< by place: its items and free places
  std::span<std::size_t> lane_first_;
  std::span<std::uint32_t> lane_places_;
  std::span<cost_units> bounds_;  ///< of what may move between two lanes
  std::span<exchanged> undo_;     ///< since the best plan
  std::size_t made_ = 0;
  bundles given_;
  bundles taken_;
  std::span<std::uint32_t> items_;  ///< by quantity and place
  std::span<cost_units> costs_;
};

#ifndef BALLAST_COMPILED

BALLAST_ONCE plan_exchanges::plan_exchanges(plan_state& plan, std::uint64_t quantities,
                                            work_budget& work, workspace::frame& scratch,
                                            workspace& memory)
    : plan_(plan),
      problem_(plan.problem()),
      quantities_(quantities),
      depth_(problem_.quantities),
      counts_at_(depth_ + problem_.limits.size()),
      width_(counts_at_ + (problem_.counts.is_any(plan.items()) ? 0 : 2)),
      work_(work),
      memory_(memory),
      is_open_(problem_.is_open()),
      rows_(problem_, scratch),
      by_idle_(scratch.take<std::uint32_t>(problem_.sums_rows ? plan.places() : 0)),
      has_speeds_(problem_.lane_of.empty() && !problem_.has_one_speed()),
      loads_(scratch.take<cost_units>(plan.lanes() * depth_)),
      order_(scratch.take<std::uint32_t>(plan.lanes() * depth_)),
      first_(scratch.take<std::size_t>(plan.places())),
      sizes_(scratch.take<std::size_t>(plan.places())),
      lane_first_(scratch.take<std::size_t>(plan.lanes() + 1)),
      lane_places_(scratch.take<std::uint32_t>(plan.places())),
      bounds_(scratch.take<cost_units>(2 * width_)),
      undo_(scratch.take<exchanged>(most_undone)),
      given_(scratch, width_),
      taken_(scratch, width_)
{
  list_lanes();
  std::size_t const all = plan.items() + free_places * plan.places();
  items_ = scratch.take<std::uint32_t>(all * depth_);
  costs_ = scratch.take<cost_units>(all * depth_ * width_);
  for (std::size_t lane = 0; lane < plan.lanes(); ++lane) {
    for (std::size_t d = 0; d < depth_; ++d) { loads_[lane * depth_ + d] = plan.load(lane, d); }
  }
  list_places();
  for (std::size_t d = 0; d < depth_; ++d) {
    auto const order = lightest_first(d);
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return is_lighter(d, a, b); });
  }
}

BALLAST_ONCE void plan_exchanges::run(ratio target, std::uint64_t most_failures)
{
  descend(target);
  random_source random(plan_.items());
  for (std::uint64_t failures = 0;
       failures < most_failures && is_late(target) && plan_.lanes() > 1 && plan_.items() > 0;
       ++failures) {
    ratio const before = latest();
    made_ = 0;
    if (is_crowded_) { descend(target); }
    shake(random);
    while (made_ + 1 < most_undone && improve(target, plan_.items() <= most_in_pairs)) {}
    ratio const after = latest();
    if (after > before) { take_back(); }
    if (after < before) { failures = 0; }
  }
}

BALLAST_ONCE void plan_exchanges::level()
{
  for (bool helped = true; helped && !work_.spent();) {
    std::size_t const last = lightest_first(heaviest()).back();
    helped = relieve(last, true);
    for (std::size_t lane = 0; !helped && lane < plan_.lanes(); ++lane) {
      helped = lane != last && relieve(lane, true);
    }
    made_ = 0;
  }
}

#endif

}  // namespace ballast::inline v0::detail
