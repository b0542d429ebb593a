// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/placement/plan_branch.hpp>

namespace ballast::inline v0::detail {

/// In which order items get places, and which.
///
///     given      by cost; where a plan to begin with has them, or as by_cost
///     by_cost    by cost; where they finish earliest
///     by_limit   by what they take of what is limited; where they finish earliest
///     evenly     by their largest share of anything; where the largest share of anything is least
///     densely    by work for what they take; where most work can be done for what can be held
///     roomiest   by what they take; where most room is left
///     in_groups  those first that have to be apart from most; where the fewest are
///     limits_in_groups  the same, by what they take
///     tightest   by what they take; where the least room is left
enum class filling : std::uint8_t {
  given,
  by_cost,
  by_limit,
  evenly,
  densely,
  roomiest,
  in_groups,
  limits_in_groups,
  tightest
};

/// Makes plans from nothing that keep the limits.
///
/// Places of one speed stand in an order, by when they end or what they have left, and an item goes
/// to the first that admits it. Where places lie in rows, or there are several quantities, all are
/// looked at. With equal counts a place counts as if the lightest item were in each of its free
/// places, so that one with a giant does not stay empty until the end.
///
/// Ensures     (1) fill() and insist() return whether they made a whole plan
/// Complexity  fill: O(n (log n + m)) at worst; O(n kinds log m) where few places are full;
///             28 n + 40 m bytes of scratch.
/// Source      evenly and densely are the surrogate duals of vector packing: R. Panigrahy et al.,
///             "Heuristics for Vector Bin Packing", Microsoft Research, 2011; equal counts:
///             M. Dell'Amico, S. Martello, "Bounds for the Cardinality Constrained P||Cmax Problem",
///             J. Scheduling 4(3), 2001.
class plan_starts {
 public:
  /// Items cost what they do in the first `ranked` quantities. Places should end at `finish`.
  plan_starts(plan_state& plan, std::size_t ranked, ratio finish, work_budget& work,
              workspace& memory, workspace::frame& scratch)
      : plan_(plan),
        problem_(plan.problem()),
        ranked_(ranked),
        finish_(finish),
        work_(work),
        memory_(memory),
        order_(scratch.take<std::uint32_t>(plan.items())),
        shares_(scratch.take<std::int64_t>(plan.items())),
        keys_(scratch.take<std::int64_t>(plan.items())),
        places_(scratch.take<std::uint32_t>(plan.places())),
        kind_ends_(scratch.take<std::uint32_t>(plan.places())),
        target_(scratch.take<std::int64_t>(plan.places())),
        place_keys_(scratch.take<std::int64_t>(plan.places()))
  {
    set_targets();
    fastest_ = *std::max_element(problem_.speeds.begin(), problem_.speeds.end());
    for (std::size_t at = 0; at < problem_.limits.size(); ++at) {
      placement_problem::limit const& limit = problem_.limits[at];
      auto const sum = [](std::span<std::int64_t const> of) {
        uint128 all = 0;
        for (std::int64_t const each : of) { all += static_cast<std::uint64_t>(each); }
        return std::max<uint128>(all, 1);
      };
      std::int64_t const full = scaled(sum(limit.takes), sum(limit.room));
      if (full > fullest_share_) {
        fullest_share_ = full;
        fullest_ = at;
      }
    }
  }

  /// Densely it is by work of the quantity.
  template <class Goal>
  bool fill(Goal const& goal, filling way, std::span<std::uint32_t const> given = {},
            std::size_t quantity = 0)
  {
    way_ = way;
    dense_ = quantity;
    plan_.clear();
    // Which places get more than others, where they all fit everything, is known before.
    count_limits const& counts = problem_.counts;
    is_flexible_ = counts.is_equal && way != filling::by_cost && counts.most == counts.least + 1 &&
                   counts.rest == 0;
    is_counted_ = counts.least > 0 || counts.step > 1;
    count_places();
    order_items();
    order_places();
    looks_ = 0;
    std::uint64_t const most_looks = (std::uint64_t{1} << 20U) + 32 * order_.size();
    samples_left_ = 0;
    for (std::size_t item = 0; item < plan_.items(); ++item) {
      samples_left_ += problem_.samples_of(item);
    }
    bool all = true;
    for (std::size_t at = 0; at < order_.size(); ++at) {
      if (cancel_scope::is_cancelled() || looks_ > most_looks) { return false; }
      std::uint32_t const item = order_[at];
      must_fill_ = is_counted_ && lacks_items(order_.size() - at);
      samples_left_ -= problem_.samples_of(item);
      std::size_t place = plan_state::none;
      if (way == filling::given && given[item] < plan_.places() && may_grow(given[item]) &&
          plan_.admits(item, given[item])) {
        place = given[item];
      }
      if (place == plan_state::none) { place = choose(goal, item); }
      all = all && place != plan_state::none;
      if (place != plan_state::none) { put(item, place); }
    }
    return all && plan_.is_whole();
  }

  /// Items without a place push others out, which then look for one, for so much work.
  template <class Goal>
  bool insist(Goal const& goal, std::uint64_t work)
  {
    random_source random(problem_.size());
    (void)fill(goal, filling::by_limit);
    must_fill_ = false;
    is_ordered_ = false;
    constexpr std::array ways{filling::by_cost, filling::in_groups, filling::tightest};
    std::uint64_t const kept = work_.left() - std::min(work, work_.left());
    while (work_.left() > kept) {
      std::size_t homeless = plan_state::none;
      std::size_t without = 0;
      for (std::uint32_t const item : order_) {
        if (plan_.owner(item) != plan_.places()) { continue; }
        ++without;
        if (homeless == plan_state::none || random.below(without) == 0) { homeless = item; }
      }
      work_.spend(order_.size() / 8 + 1);
      if (homeless == plan_state::none) {
        if (plan_.is_whole()) { return true; }
        // Counts are wrong: items of places with too many look for another.
        for (std::size_t place = 0; place < plan_.places(); ++place) {
          if (plan_.first(place) != plan_state::none &&
              (problem_.counts.step > 1 ? plan_.lacks(place) > 0
                                        : plan_.count(place) > problem_.counts.least)) {
            plan_.take(plan_.first(place));
          }
        }
        continue;
      }
      auto const item = static_cast<std::uint32_t>(homeless);
      way_ = ways[random.below(ways.size())];
      if (is_counted_) { count_places(); }
      std::size_t place = choose(goal, item);
      std::size_t const lighter = place == plan_state::none ? lighter_one(item, random) : 0;
      if (place == plan_state::none && lighter != plan_state::none) {
        place = plan_.owner(lighter);
        plan_.take(lighter);
      } else if (place == plan_state::none) {
        place = random.below(plan_.places());
        if (!problem_.fits(item, place)) { continue; }
        while (plan_.first(place) != plan_state::none && !plan_.admits(item, place)) {
          // The one in the way: any of the place.
          std::size_t leaving = plan_.first(place);
          for (std::uint64_t skip = random.below(static_cast<std::uint64_t>(plan_.count(place)));
               skip > 0; --skip) {
            leaving = plan_.next(leaving);
          }
          plan_.take(leaving);
          work_.spend(4);
        }
        if (!plan_.admits(item, place)) { continue; }
      }
      plan_.put(item, place);
    }
    return false;
  }

 private:
  static constexpr std::int64_t last_key = no_cost;  ///< of places that get nothing more
  static constexpr unsigned share_bits = 30;

  /// The 2^30th parts of `whole` that `part` is.
  [[nodiscard]] static std::int64_t scaled(uint128 part, uint128 whole)
  {
    constexpr uint128 most = static_cast<std::uint64_t>(no_cost - 1);
    while (part >> (127 - share_bits) != 0) {
      part >>= 1U;
      whole >>= 1U;
    }
    return static_cast<std::int64_t>(
        std::min((part << share_bits) / std::max<uint128>(whole, 1), most));
  }
  [[nodiscard]] static std::int64_t scaled(std::int64_t part, std::int64_t whole)
  {
    return scaled(static_cast<uint128>(std::max<std::int64_t>(part, 0)),
                  static_cast<uint128>(std::max<std::int64_t>(whole, 1)));
  }

  /// Counts of places where they are equal: the fastest get more, of these the least loaded.
  void set_targets()
  {
    count_limits const& counts = problem_.counts;
    std::fill(target_.begin(), target_.end(), counts.is_equal ? counts.least : counts.most);
    if (!counts.is_equal) { return; }
    std::iota(places_.begin(), places_.end(), std::uint32_t{0});
    std::sort(places_.begin(), places_.end(), [this](std::uint32_t a, std::uint32_t b) {
      std::size_t const lane_a = problem_.lane(a);
      std::size_t const lane_b = problem_.lane(b);
      return precedes(problem_.speeds[lane_b], problem_.speeds[lane_a], plan_.load(lane_a, 0),
                      plan_.load(lane_b, 0), a, b);
    });
    auto const fuller = static_cast<std::size_t>(counts.fuller);
    for (std::size_t at = 0; at < fuller; ++at) { target_[places_[at]] = counts.most; }
    if (counts.rest > 0) { target_[places_[fuller]] = counts.least + counts.rest; }
    if (problem_.quantities == 1 && !problem_.costs.empty()) {
      lightest_ = *std::min_element(problem_.costs.begin(), problem_.costs.end());
    }
  }

  void set_shares()
  {
    std::fill(shares_.begin(), shares_.end(), 0);
    for (placement_problem::limit const& limit : problem_.limits) {
      std::int64_t const room = *std::max_element(limit.room.begin(), limit.room.end());
      for (std::size_t item = 0; item < shares_.size(); ++item) {
        shares_[item] = std::max(shares_[item], scaled(limit.takes[item], room));
      }
    }
    has_shares_ = true;
  }

  [[nodiscard]] std::int64_t largest_cost(std::size_t item) const
  {
    cost_units most = 0;
    for (std::size_t d = 0; d < ranked_; ++d) { most = std::max(most, problem_.cost(item, d)); }
    return most;
  }
  [[nodiscard]] std::uint32_t group_of(std::size_t item) const
  {
    auto const* rules = problem_.items.rules;
    if (!problem_.has_groups() || rules->first_group[item] == rules->first_group[item + 1]) {
      return 0;
    }
    std::uint32_t const at = rules->groups[rules->first_group[item]];
    return rules->first_member[at + 1] - rules->first_member[at];
  }

  void order_items()
  {
    auto scratch = memory_.open();
    std::span<priced_sample> const sorted = scratch.take<priced_sample>(order_.size());
    bool const by_cost = way_ == filling::given || way_ == filling::by_cost ||
                         way_ == filling::in_groups || way_ == filling::densely;
    if (!by_cost && !has_shares_) { set_shares(); }
    for (std::size_t item = 0; item < keys_.size(); ++item) {
      switch (way_) {
        case filling::given:
        case filling::by_cost:
        case filling::in_groups: keys_[item] = largest_cost(item); break;
        case filling::evenly: keys_[item] = std::max(cost_share(item), shares_[item]); break;
        case filling::densely: keys_[item] = density(item); break;
        default: keys_[item] = shares_[item]; break;
      }
    }
    descending_order_into(sorted, keys_, memory_);
    std::transform(sorted.begin(), sorted.end(), order_.begin(), [](priced_sample each) {
      return static_cast<std::uint32_t>(to_index(each.sample));
    });
    bool const in_groups = way_ == filling::in_groups || way_ == filling::limits_in_groups;
    bool is_plain = !in_groups;
    for (std::size_t item = 0; item < order_.size() && is_plain; ++item) {
      is_plain = !plan_.stands_alone(item);
    }
    if (is_plain) { return; }
    for (std::size_t at = 0; at < order_.size(); ++at) {
      keys_[order_[at]] = static_cast<std::int64_t>(at);
    }
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(plan_.stands_alone(b), plan_.stands_alone(a), in_groups ? group_of(b) : 0,
                      in_groups ? group_of(a) : 0, keys_[a], keys_[b]);
    });
  }

  [[nodiscard]] std::int64_t cost_share(std::size_t item) const
  {
    return scaled(largest_cost(item), work_until(finish_, fastest_));
  }
  /// Work per what an item takes of the fullest limit; those that take nothing come last.
  [[nodiscard]] std::int64_t density(std::size_t item) const
  {
    std::int64_t const takes = problem_.limits[fullest_].takes[item];
    if (takes == 0) { return 0; }
    // A little of the others: the slow places would get what is heavy in these.
    auto const parts = static_cast<cost_units>(2 * ranked_);
    cost_units work = problem_.cost(item, dense_) / (ranked_ > 1 ? 2 : 1);
    for (std::size_t d = 0; d < ranked_; ++d) {
      if (d != dense_) { work += problem_.cost(item, d) / parts / 16; }
    }
    return scaled(static_cast<uint128>(static_cast<std::uint64_t>(work)),
                  static_cast<uint128>(static_cast<std::uint64_t>(takes)));
  }

  [[nodiscard]] bool ends_by_cost() const
  {
    return way_ == filling::given || way_ == filling::by_cost || way_ == filling::by_limit;
  }

  [[nodiscard]] std::int64_t place_key(std::size_t place) const
  {
    if (plan_.count(place) >= most_items(place)) { return last_key; }
    std::size_t const lane = problem_.lane(place);
    switch (way_) {
      case filling::in_groups:
      case filling::limits_in_groups: return plan_.count(place);
      case filling::evenly: {
        std::int64_t most = largest_share(place);
        for (std::size_t d = 0; d < ranked_; ++d) {
          most = std::max(most,
                          scaled(plan_.load(lane, d), work_until(finish_, problem_.speeds[lane])));
        }
        return most;
      }
      case filling::densely: {
        cost_units const work =
            work_until(finish_, problem_.speeds[lane]) - plan_.load(lane, dense_);
        std::int64_t const room =
            problem_.limits[fullest_].room[place] - plan_.held(fullest_, place);
        if (work <= 0 || room <= 0) { return last_key - 1; }
        return last_key - 1 - scaled(work, room);
      }
      case filling::roomiest: return largest_share(place);
      case filling::tightest: return last_key - 1 - largest_share(place);
      default: {
        std::int64_t const wanted = is_flexible_ ? problem_.counts.least : target_[place];
        std::int64_t const empty = std::max<std::int64_t>(wanted - plan_.count(place), 0);
        return plan_.load(lane, 0) + lightest_ * empty;
      }
    }
  }
  [[nodiscard]] std::int64_t largest_share(std::size_t place) const
  {
    std::int64_t most = 0;
    for (std::size_t at = 0; at < problem_.limits.size(); ++at) {
      most = std::max(most, scaled(plan_.held(at, place), problem_.limits[at].room[place]));
    }
    return most;
  }

  void order_places()
  {
    bool const are_lanes = problem_.row == 0 && problem_.lane_of.empty();
    is_ordered_ = are_lanes && (!ends_by_cost() || problem_.quantities == 1);
    kinds_ = 0;
    if (!is_ordered_) { return; }
    bool const by_speed = ends_by_cost();
    for (std::size_t place = 0; place < places_.size(); ++place) {
      place_keys_[place] = place_key(place);
    }
    std::iota(places_.begin(), places_.end(), std::uint32_t{0});
    std::sort(places_.begin(), places_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(by_speed ? problem_.speeds[a] : 0, by_speed ? problem_.speeds[b] : 0,
                      place_keys_[a], place_keys_[b], a, b);
    });
    for (std::size_t at = 0; at < places_.size(); ++at) {
      bool const is_last =
          at + 1 == places_.size() ||
          (by_speed && problem_.speeds[places_[at]] != problem_.speeds[places_[at + 1]]);
      if (is_last) { kind_ends_[kinds_++] = static_cast<std::uint32_t>(at + 1); }
    }
  }

  /// Counts a place among those that lack items or have more than the least, or no longer.
  void count(std::size_t place, std::int64_t sign)
  {
    std::int64_t const more = plan_.count(place) - problem_.counts.least;
    missing_ += more < 0 ? -more * sign : 0;
    fuller_ += more > 0 ? sign : 0;
    lacking_ += plan_.lacks(place) * sign;
  }
  void count_places()
  {
    missing_ = lacking_ = fuller_ = 0;
    for (std::size_t place = 0; place < plan_.places() && is_counted_; ++place) { count(place, 1); }
  }
  /// Whether the items that are left are no more than places lack.
  [[nodiscard]] bool lacks_items(std::size_t items) const
  {
    return missing_ >= static_cast<std::int64_t>(items) ||
           (problem_.counts.step > 1 && lacking_ + problem_.counts.step > samples_left_);
  }

  /// Whether counts let the place have one more.
  [[nodiscard]] bool may_grow(std::size_t place) const
  {
    std::int64_t const count = plan_.count(place);
    std::int64_t const least = problem_.counts.least;
    if (is_flexible_ && count >= least && (count > least || fuller_ >= problem_.counts.fuller)) {
      return false;
    }
    return count < most_items(place) && (!must_fill_ || count < least || plan_.lacks(place) > 0);
  }
  [[nodiscard]] std::int64_t most_items(std::size_t place) const
  {
    return is_flexible_ ? problem_.counts.most : target_[place];
  }

  void put(std::uint32_t item, std::size_t place)
  {
    std::int64_t const before = place_keys_[place];
    if (is_counted_) { count(place, -1); }
    plan_.put(item, place);
    if (is_counted_) { count(place, 1); }
    if (!is_ordered_) { return; }
    auto const* const kind =
        std::find_if(kind_ends_.data(), kind_ends_.data() + kinds_, [&](std::uint32_t end) {
          return problem_.speeds[places_[end - 1]] == problem_.speeds[place] || kinds_ == 1;
        });
    auto const begin = kind == kind_ends_.data() ? std::size_t{0} : std::size_t{*(kind - 1)};
    auto const order = places_.subspan(begin, *kind - begin);
    auto const self = static_cast<std::uint32_t>(place);
    auto const precede = [this](std::uint32_t a, std::uint32_t b) {
      return precedes(place_keys_[a], place_keys_[b], a, b);
    };
    auto const from = std::lower_bound(order.begin(), order.end(), self, precede);
    std::int64_t const after = place_key(place);
    place_keys_[place] = after;
    if (after > before) {
      auto const to = std::lower_bound(from + 1, order.end(), self, precede);
      *std::move(from + 1, to, from) = self;
    } else {
      auto const to = std::lower_bound(order.begin(), from, self, precede);
      std::move_backward(to, from, from + 1);
      *to = self;
    }
  }

  /// The place that an item goes to, or none.
  template <class Goal>
  [[nodiscard]] std::size_t choose(Goal const& goal, std::uint32_t item)
  {
    std::size_t chosen = is_ordered_ ? first_in_order(item) : plan_state::none;
    if (chosen != plan_state::none || (is_ordered_ && way_ != filling::densely)) { return chosen; }
    goal.look(plan_);
    work_.spend(plan_.places());
    bool const by_key = !ends_by_cost() && way_ != filling::densely;
    auto const key = [&](std::size_t place) { return by_key ? place_key(place) : 0; };
    for (std::size_t place = 0; place < plan_.places(); ++place) {
      if (!may_grow(place) || !plan_.admits(item, place)) { continue; }
      if (chosen == plan_state::none ||
          precedes(key(place), key(chosen), goal.rank(plan_, item, place),
                   goal.rank(plan_, item, chosen), place, chosen)) {
        chosen = place;
      }
    }
    return chosen;
  }

  [[nodiscard]] std::size_t first_in_order(std::uint32_t item)
  {
    std::size_t chosen = plan_state::none;
    ratio finish;
    std::uint64_t looked = 0;
    for (std::size_t kind = 0, at = 0; kind < kinds_; at = kind_ends_[kind++]) {
      for (; at < kind_ends_[kind] && place_keys_[places_[at]] != last_key; ++at) {
        std::size_t const place = places_[at];
        ++looked;
        if (!may_grow(place) || !has_time(item, place) || !plan_.admits(item, place)) { continue; }
        cost_units const cost = problem_.cost(item, 0);  // keys may be near the largest number
        ratio const then{std::min(place_keys_[place], no_cost - cost) + cost,
                         problem_.speeds[place]};
        if (chosen == plan_state::none || precedes(then, finish, place, chosen)) {
          chosen = place;
          finish = then;
        }
        break;
      }
    }
    work_.spend(looked);
    looks_ += looked;
    return chosen;
  }
  [[nodiscard]] bool has_time(std::uint32_t item, std::size_t place) const
  {
    return way_ != filling::densely || plan_.load(place, dense_) + problem_.cost(item, dense_) <=
                                           work_until(finish_, problem_.speeds[place]);
  }

  /// An item that takes less of what limits, any of those whose place admits this one instead.
  [[nodiscard]] std::size_t lighter_one(std::size_t item, random_source& random)
  {
    std::size_t chosen = plan_state::none;
    std::size_t found = 0;
    work_.spend(plan_.items() / 4);
    auto const own = static_cast<std::uint32_t>(item);
    for (std::uint32_t other = 0; other < plan_.items(); ++other) {
      std::size_t const place = plan_.owner(other);
      if (place == plan_.places() || shares_[other] >= shares_[item] ||
          !plan_.admits({&own, 1}, place, {&other, 1})) {
        continue;
      }
      if (random.below(++found) == 0) { chosen = other; }
    }
    return chosen;
  }

  plan_state& plan_;
  placement_problem const& problem_;
  std::size_t ranked_;
  ratio finish_;
  work_budget& work_;
  workspace& memory_;
  std::span<std::uint32_t> order_;
  std::span<std::int64_t>
      shares_;  ///< of the largest room, of the limit that an item takes most of
  std::span<std::int64_t> keys_;
  std::span<std::uint32_t> places_;     ///< kind after kind, by key
  std::span<std::uint32_t> kind_ends_;  ///< of places
  std::span<std::int64_t> target_;      ///< items of a place, at most
  std::span<std::int64_t> place_keys_;
  std::size_t kinds_ = 0;
  std::size_t fullest_ = 0;  ///< limit
  std::int64_t fullest_share_ = -1;
  std::uint32_t fastest_ = 1;
  cost_units lightest_ = 0;
  std::uint64_t looks_ = 0;  ///< at places, of this start: where most are full it gives up
  std::int64_t samples_left_ = 0;
  std::int64_t missing_ = 0;  ///< items of places below the least
  std::int64_t lacking_ = 0;  ///< samples of places without a multiple
  std::int64_t fuller_ = 0;   ///< places above the least
  filling way_ = filling::by_cost;
  std::size_t dense_ = 0;  ///< quantity
  bool has_shares_ = false;
  bool is_ordered_ = false;
  bool is_counted_ = false;
  bool is_flexible_ = false;  ///< any place may have one more than the least
  bool must_fill_ = false;
};

}  // namespace ballast::inline v0::detail
