// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/placement_limits.hpp>

namespace ballast::inline v0::detail {

/// How many samples places take, as `sample_counts` of the limits says it, in numbers.
///
/// Of n items on m places with equal counts in multiples of k, q = floor(n / k): each gets `least` =
/// floor(q / m) k of them, q mod m places get k more, and one the n mod k that are left.
struct count_limits {
  std::int64_t least = 0;   ///< of items, for each place
  std::int64_t most = 0;    ///< of items, for a place
  std::int64_t fuller = 0;  ///< places with `most`, where counts are equal
  std::int64_t rest = 0;    ///< more than `least` that one place gets, where counts are equal
  bool is_equal = false;
  std::int64_t most_samples = 0;  ///< of a place; an item may be several
  std::int64_t step = 1;          ///< a place has a multiple of so many samples

  [[nodiscard]] static constexpr count_limits any(std::size_t items) noexcept
  {
    auto const all = static_cast<std::int64_t>(items);
    return {0, all, 0, 0, false, std::numeric_limits<std::int64_t>::max()};
  }
  [[nodiscard]] static constexpr count_limits equal(std::size_t items, std::size_t places,
                                                    std::int64_t multiple) noexcept
  {
    auto const all = static_cast<std::int64_t>(items);
    auto const bags = static_cast<std::int64_t>(places);
    std::int64_t const whole = all / multiple;
    count_limits limits = any(items);
    limits.is_equal = true;
    limits.least = whole / bags * multiple;
    limits.fuller = whole % bags;
    limits.rest = all % multiple;
    limits.most = limits.least + (limits.fuller > 0 ? multiple : limits.rest);
    return limits;
  }

  /// Whether a place of so many items may have `more` of another's, or fewer, so that equal counts
  /// stay equal. In multiples only swaps keep them.
  [[nodiscard]] constexpr bool may_move(std::int64_t from, std::int64_t to,
                                        std::int64_t more) const noexcept
  {
    if (more == 0) { return true; }
    if (more < 0) { return may_move(to, from, -more); }
    if (!is_equal) { return from - more >= least && to + more <= most; }
    return more == 1 && rest == 0 && most == least + 1 && from == most && to == least;
  }
  [[nodiscard]] constexpr bool is_any(std::size_t items) const noexcept
  {
    return !is_equal && least == 0 && most >= static_cast<std::int64_t>(items) &&
           most_samples == std::numeric_limits<std::int64_t>::max() && step == 1;
  }
};

/// A multiple of all speeds, in which times of lanes of any speed are whole; no_cost if it is that
/// large. O(lanes)
[[nodiscard]] inline std::int64_t common_speed(std::span<std::uint32_t const> speeds)
{
  std::int64_t common = 1;
  for (std::int64_t const speed : speeds) {
    std::int64_t const more = speed / std::gcd(common, speed);
    if (common > no_cost / more) { return no_cost; }
    common *= more;
  }
  return common;
}

/// Items with sizes that go to places with speeds and room, under limits.
///
/// Several places can make one lane, whose loads are sums over its places: microbatches of a rank.
/// Microbatches are rows of places, one for each bag: place % row is the bag.
///
/// Shapes      costs[n D], item after item; starts[r D], or empty; lane_of[m], or empty where each
///             place is a lane of its own; speeds[r]; refused[n bags], or empty.
/// Expects     `items` has lengths, gpus and, where asked for, homes and rules of apart samples;
///             its gpus are those of places, its costs and speeds are not read; sums of costs,
///             starts and what items take are below 2^63.
struct placement_problem {
  /// One thing that places have a limited amount of.
  struct limit {
    std::span<std::int64_t const> takes;  ///< [n] of each item
    std::span<std::int64_t const> room;   ///< [m]
    bool is_soft = false;
  };

  /// A rule of the user's for what lies together, and the samples of items.
  struct mixing {
    mix_filter allows;
    std::span<std::uint32_t const> first;  ///< [n + 1] of each item, or empty where each is one
    std::span<sample_id const> samples;
    std::span<sample_id> asked;  ///< room to list those of a place
  };

  partition_problem const& items;
  std::size_t quantities;
  std::span<cost_units const> costs;
  std::span<cost_units const> starts;
  std::span<std::uint32_t const> speeds;
  std::span<std::uint32_t const> lane_of;
  std::span<limit const> limits;
  std::span<bool const> refused;  ///< item after item: bags that a call of the user refuses
  count_limits counts;
  mixing mixes = {};
  std::size_t row = 0;     ///< bags; 0: each place is one
  bool sums_rows = false;  ///< bags meet after each row: a step takes the sum of the rows' latest

  [[nodiscard]] std::size_t size() const noexcept { return costs.size() / quantities; }
  [[nodiscard]] std::size_t places() const noexcept { return items.gpus.size(); }
  [[nodiscard]] std::size_t lanes() const noexcept { return speeds.size(); }
  [[nodiscard]] std::size_t lane(std::size_t place) const
  {
    return lane_of.empty() ? place : lane_of[place];
  }
  [[nodiscard]] std::size_t bags() const noexcept { return row == 0 ? places() : row; }
  [[nodiscard]] std::size_t bag(std::size_t place) const noexcept { return place % bags(); }
  [[nodiscard]] cost_units cost(std::size_t item, std::size_t d) const
  {
    return costs[item * quantities + d];
  }
  [[nodiscard]] bool fits(std::size_t item, std::size_t place) const
  {
    return items.fits(item, place) && (refused.empty() || !refused[item * bags() + bag(place)]);
  }
  /// Whether every item may go to every place that has room for it, as sums and counts say it.
  [[nodiscard]] bool is_open() const
  {
    if (has_groups() || !refused.empty() || !mixes.allows.empty() || counts.step > 1 ||
        std::any_of(limits.begin(), limits.end(), [](limit const& of) { return of.is_soft; })) {
      return false;
    }
    std::uint32_t const largest = *std::max_element(items.gpus.begin(), items.gpus.end());
    return largest == 1 ||
           std::all_of(items.lengths.begin(), items.lengths.end(),
                       [&](tokens length) { return partition_problem::splits(length, largest); });
  }
  [[nodiscard]] bool has_one_speed() const
  {
    return std::all_of(speeds.begin(), speeds.end(),
                       [this](std::uint32_t speed) { return speed == speeds.front(); });
  }
  [[nodiscard]] bool has_groups() const
  {
    return items.rules != nullptr && !items.rules->first_group.empty();
  }
  [[nodiscard]] std::int64_t samples_of(std::size_t item) const
  {
    bool const are_one = items.rules == nullptr || items.rules->sample_counts.empty();
    return are_one ? 1 : items.rules->sample_counts[item];
  }
  [[nodiscard]] tokens moved(std::size_t item, std::size_t place) const
  {
    if (items.home.empty()) { return 0; }
    return items.tokens_of(item) - items.tokens_at(item, to_id<bag_id>(bag(place)));
  }
  /// Whether the item takes more than each place that it fits has, of something that is soft.
  [[nodiscard]] bool stands_alone(std::size_t item) const
  {
    return std::any_of(limits.begin(), limits.end(),
                       [&](limit const& of) { return of.is_soft && !finds_room(item, of); });
  }
  /// Whether sums and single items show that no plan keeps the limits. O(items places limits)
  [[nodiscard]] bool is_impossible() const
  {
    std::int64_t samples = 0;
    for (std::size_t item = 0; item < size(); ++item) { samples += samples_of(item); }
    if (counts.least > static_cast<std::int64_t>(size() / places()) || samples % counts.step != 0) {
      return true;
    }
    return std::any_of(limits.begin(), limits.end(), [this](limit const& of) {
      if (of.is_soft) { return false; }
      uint128 left = 0;
      for (std::int64_t const takes : of.takes) { left += static_cast<std::uint64_t>(takes); }
      for (std::int64_t const room : of.room) {
        left -= std::min<uint128>(left, static_cast<std::uint64_t>(room));
      }
      bool fits_all = left == 0;
      for (std::size_t item = 0; item < size() && fits_all; ++item) {
        fits_all = finds_room(item, of);
      }
      return !fits_all;
    });
  }
  [[nodiscard]] bool finds_room(std::size_t item, limit const& of) const
  {
    for (std::size_t place = 0; place < places(); ++place) {
      if (of.takes[item] <= of.room[place] && fits(item, place)) { return true; }
    }
    return false;
  }
};

/// A plan that grows and shrinks by items: what places hold, and which item may go there.
///
/// Ensures     (1) a plan of all items, each admitted when it was put, keeps the limits, but for
///                 least counts, which is_whole() asks for
/// Complexity  admits: O(D + limits + the items that have to be apart from this one); put, take:
///             O(D + limits); 29 n + (8 D + 8 limits + 24) m bytes of scratch.
class plan_state {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  plan_state(placement_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        loads_(scratch.take<cost_units>(problem.lanes() * problem.quantities)),
        most_(scratch.take<cost_units>(loads_.size())),
        held_(scratch.take<std::int64_t>(problem.limits.size() * problem.places())),
        counts_(scratch.take<std::int64_t>(problem.places())),
        samples_(scratch.take<std::int64_t>(problem.places())),
        first_(scratch.take<std::size_t>(problem.places())),
        owner_(scratch.take<std::uint32_t>(problem.size())),
        next_(scratch.take<std::size_t>(problem.size())),
        before_(scratch.take<std::size_t>(problem.size())),
        alone_(scratch.take<bool>(problem.size()))
  {
    std::fill(loads_.begin(), loads_.end(), 0);
    std::copy(problem.starts.begin(), problem.starts.end(), loads_.begin());
    std::fill(most_.begin(), most_.end(), no_cost);
    std::fill(held_.begin(), held_.end(), 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    std::fill(samples_.begin(), samples_.end(), 0);
    std::fill(first_.begin(), first_.end(), none);
    std::fill(owner_.begin(), owner_.end(), static_cast<std::uint32_t>(problem.places()));
    for (std::size_t item = 0; item < alone_.size(); ++item) {
      alone_[item] = problem.stands_alone(item);
    }
  }

  [[nodiscard]] placement_problem const& problem() const noexcept { return problem_; }
  [[nodiscard]] std::size_t items() const noexcept { return owner_.size(); }
  [[nodiscard]] std::size_t places() const noexcept { return counts_.size(); }
  [[nodiscard]] std::size_t lanes() const noexcept { return problem_.lanes(); }
  [[nodiscard]] std::size_t owner(std::size_t item) const { return owner_[item]; }
  [[nodiscard]] std::span<std::uint32_t const> owners() const noexcept { return owner_; }
  [[nodiscard]] bool stands_alone(std::size_t item) const { return alone_[item]; }
  [[nodiscard]] std::int64_t count(std::size_t place) const { return counts_[place]; }
  [[nodiscard]] std::int64_t samples(std::size_t place) const { return samples_[place]; }
  /// How many samples a place lacks for a multiple.
  [[nodiscard]] std::int64_t lacks(std::size_t place) const
  {
    std::int64_t const over = samples_[place] % problem_.counts.step;
    return over == 0 ? 0 : problem_.counts.step - over;
  }
  [[nodiscard]] std::int64_t held(std::size_t limit, std::size_t place) const
  {
    return held_[limit * places() + place];
  }
  /// The items of a place, one after the other, up to none.
  [[nodiscard]] std::size_t first(std::size_t place) const { return first_[place]; }
  [[nodiscard]] std::size_t next(std::size_t item) const { return next_[item]; }

  [[nodiscard]] cost_units load(std::size_t lane, std::size_t d) const
  {
    return loads_[lane * problem_.quantities + d];
  }
  /// The most that a lane may do of a quantity; no_cost at first.
  [[nodiscard]] cost_units most_load(std::size_t lane, std::size_t d) const
  {
    return most_[lane * problem_.quantities + d];
  }
  /// A lane does no more of a quantity from now on.
  void settle(std::size_t lane, std::size_t d, cost_units most)
  {
    most_[lane * problem_.quantities + d] = most;
  }
  void lift_loads() { std::fill(most_.begin(), most_.end(), no_cost); }
  /// Lanes do no more of these quantities from now on than they do until then.
  void settle(std::uint64_t quantities, ratio until, std::uint32_t per_million = 0)
  {
    for (std::size_t d = 0; d < problem_.quantities; ++d) {
      if ((quantities >> d & 1U) == 0) { continue; }
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        cost_units& most = most_[lane * problem_.quantities + d];
        most = std::min(most, work_within(until, per_million, problem_.speeds[lane]));
      }
    }
  }

  /// Whether the limits admit these items there, some of that place left out.
  [[nodiscard, gnu::always_inline]] bool admits(std::span<std::uint32_t const> items,
                                                std::size_t place,
                                                std::span<std::uint32_t const> without = {}) const
  {
    if (items.empty()) { return true; }
    auto const net = [&](auto const& of) {
      std::int64_t more = 0;
      for (std::uint32_t const item : items) { more += of(item); }
      for (std::uint32_t const item : without) { more -= of(item); }
      return more;
    };
    bool is_alone = false;
    for (std::uint32_t const item : items) {
      if (!problem_.fits(item, place)) { return false; }
      is_alone = is_alone || alone_[item];
    }
    std::int64_t const count = counts_[place] + static_cast<std::int64_t>(items.size()) -
                               static_cast<std::int64_t>(without.size());
    if (count > problem_.counts.most || (is_alone && count != 1)) { return false; }
    auto const samples = [this](std::uint32_t item) { return problem_.samples_of(item); };
    if (net(samples) > problem_.counts.most_samples - samples_[place]) { return false; }
    std::size_t const lane = problem_.lane(place);
    for (std::size_t d = 0; d < problem_.quantities; ++d) {
      auto const costs = [&](std::uint32_t item) { return problem_.cost(item, d); };
      if (net(costs) > most_[lane * problem_.quantities + d] - load(lane, d)) { return false; }
    }
    for (std::size_t at = 0; at < problem_.limits.size(); ++at) {
      placement_problem::limit const& limit = problem_.limits[at];
      if (is_alone && limit.is_soft && !problem_.finds_room(items[0], limit)) { continue; }
      auto const takes = [&](std::uint32_t item) { return limit.takes[item]; };
      if (net(takes) > limit.room[place] - held(at, place)) { return false; }
    }
    bool const are_apart =
        !problem_.has_groups() || std::all_of(items.begin(), items.end(), [&](std::uint32_t item) {
          return is_apart(item, place, without);
        });
    return are_apart && (problem_.mixes.allows.empty() || may_mix(items, place, without));
  }
  [[nodiscard]] bool admits(std::size_t item, std::size_t place) const
  {
    // What most places lack, where all do, first.
    bool const is_alone = alone_[item];
    for (std::size_t at = 0; at < problem_.limits.size() && !is_alone; ++at) {
      placement_problem::limit const& limit = problem_.limits[at];
      if (limit.takes[item] > limit.room[place] - held(at, place)) { return false; }
    }
    auto const one = static_cast<std::uint32_t>(item);
    return admits({&one, 1}, place);
  }

  /// Whether these items of two places may change them.
  [[nodiscard]] bool admits_exchange(std::span<std::uint32_t const> given, std::size_t from,
                                     std::span<std::uint32_t const> taken, std::size_t to) const
  {
    auto const more =
        static_cast<std::int64_t>(given.size()) - static_cast<std::int64_t>(taken.size());
    if (problem_.counts.step > 1) {
      std::int64_t samples = 0;
      for (std::uint32_t const item : given) { samples += problem_.samples_of(item); }
      for (std::uint32_t const item : taken) { samples -= problem_.samples_of(item); }
      if (samples % problem_.counts.step != 0) { return false; }
    }
    return problem_.counts.may_move(counts_[from], counts_[to], more) && admits(given, to, taken) &&
           admits(taken, from, given);
  }
  /// The same of an item, and `back`, if any.
  [[nodiscard]] bool admits_exchange(std::size_t item, std::size_t back, std::size_t to) const
  {
    std::array<std::uint32_t, 2> const both{static_cast<std::uint32_t>(item),
                                            static_cast<std::uint32_t>(back)};
    std::span<std::uint32_t const> const all(both);
    return admits_exchange(all.first(1), owner(item), all.subspan(1, back == none ? 0 : 1), to);
  }

  void put(std::size_t item, std::size_t place)
  {
    owner_[item] = static_cast<std::uint32_t>(place);
    next_[item] = first_[place];
    before_[item] = none;
    if (first_[place] != none) { before_[first_[place]] = item; }
    first_[place] = item;
    add(item, place, 1);
  }

  void take(std::size_t item)
  {
    std::size_t const place = owner(item);
    std::size_t const last = before_[item];
    (last == none ? first_[place] : next_[last]) = next_[item];
    if (next_[item] != none) { before_[next_[item]] = last; }
    owner_[item] = static_cast<std::uint32_t>(places());
    add(item, place, -1);
  }

  /// The item goes there, and `back`, if any, to where it was.
  void exchange(std::size_t item, std::size_t back, std::size_t to)
  {
    std::size_t const from = owner(item);
    take(item);
    if (back != none) {
      take(back);
      put(back, from);
    }
    put(item, to);
  }

  void clear()
  {
    for (std::size_t item = 0; item < items(); ++item) {
      if (owner_[item] != places()) { take(item); }
    }
  }

  /// Puts items without a place where these say, until the limits refuse one. Returns whether none
  /// was refused.
  template <class Place>
  bool put_all(std::span<Place const> owners)
  {
    for (std::size_t item = 0; item < owners.size(); ++item) {
      auto const place = static_cast<std::size_t>(owners[item]);
      if (place >= places() || !admits(item, place)) { return false; }
      put(item, place);
    }
    return true;
  }

  void restore(std::span<std::uint32_t const> owners)
  {
    for (std::size_t item = 0; item < owners.size(); ++item) {
      if (owner_[item] == owners[item]) { continue; }
      if (owner_[item] != places()) { take(item); }
      if (owners[item] != places()) { put(item, owners[item]); }
    }
  }

  [[nodiscard]] bool is_complete() const
  {
    return std::find(owner_.begin(), owner_.end(), places()) == owner_.end();
  }

  /// Whether each place has as many items as the limits want.
  [[nodiscard]] bool is_whole() const
  {
    count_limits const& wanted = problem_.counts;
    for (std::size_t place = 0; place < places(); ++place) {
      if (lacks(place) != 0) { return false; }
    }
    std::int64_t fuller = 0;
    std::int64_t odd = 0;
    for (std::int64_t const count : counts_) {
      if (count < wanted.least) { return false; }
      if (!wanted.is_equal || count == wanted.least) { continue; }
      bool const is_odd = wanted.rest > 0 && count == wanted.least + wanted.rest;
      if (!is_odd && count != wanted.most) { return false; }
      ++(is_odd ? odd : fuller);
    }
    return !wanted.is_equal || (odd == (wanted.rest > 0 ? 1 : 0) && fuller == wanted.fuller);
  }

  [[nodiscard]] tokens moved() const
  {
    tokens all = 0;
    for (std::size_t item = 0; item < items(); ++item) { all += problem_.moved(item, owner(item)); }
    return all;
  }

 private:
  [[nodiscard]] bool may_mix(std::span<std::uint32_t const> items, std::size_t place,
                             std::span<std::uint32_t const> without) const
  {
    auto const& [allows, first, samples, asked] = problem_.mixes;
    std::size_t count = 0;
    auto const list = [&](std::size_t item) {
      if (first.empty()) { return void(asked[count++] = to_id<sample_id>(item)); }
      for (std::size_t at = first[item]; at < first[item + 1]; ++at) {
        asked[count++] = samples[at];
      }
    };
    for (std::uint32_t const item : items) { list(item); }
    for (std::size_t item = first_[place]; item != none; item = next_[item]) {
      if (std::find(without.begin(), without.end(), item) == without.end()) { list(item); }
    }
    return allows(asked.first(count));
  }

  [[nodiscard]] bool is_apart(std::size_t item, std::size_t place,
                              std::span<std::uint32_t const> without) const
  {
    auto const& rules = *problem_.items.rules;
    for (std::size_t at = rules.first_group[item]; at < rules.first_group[item + 1]; ++at) {
      std::size_t const group = rules.groups[at];
      for (std::size_t each = rules.first_member[group]; each < rules.first_member[group + 1];
           ++each) {
        std::uint32_t const other = rules.members[each];
        bool const leaves = std::find(without.begin(), without.end(), other) != without.end();
        if (other != item && !leaves && owner(other) == place) { return false; }
      }
    }
    return true;
  }

  void add(std::size_t item, std::size_t place, int sign)
  {
    std::size_t const lane = problem_.lane(place);
    for (std::size_t d = 0; d < problem_.quantities; ++d) {
      loads_[lane * problem_.quantities + d] += sign * problem_.cost(item, d);
    }
    for (std::size_t at = 0; at < problem_.limits.size(); ++at) {
      held_[at * places() + place] += sign * problem_.limits[at].takes[item];
    }
    counts_[place] += sign;
    samples_[place] += sign * problem_.samples_of(item);
  }

  placement_problem const& problem_;
  std::span<cost_units> loads_;
  std::span<cost_units> most_;
  std::span<std::int64_t> held_;
  std::span<std::int64_t> counts_;
  std::span<std::int64_t> samples_;
  std::span<std::size_t> first_;
  std::span<std::uint32_t> owner_;
  std::span<std::size_t> next_;
  std::span<std::size_t> before_;
  std::span<bool> alone_;
};

}  // namespace ballast::inline v0::detail
