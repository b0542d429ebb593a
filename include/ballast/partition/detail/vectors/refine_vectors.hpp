// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/vectors/enumerate_vectors.hpp>
#include <ballast/partition/detail/vectors/place_vectors_within_capacity.hpp>
#include <ballast/partition/detail/vectors/vector_bin_contents.hpp>

namespace ballast::inline v0::detail {

/// Quantities in which the loads of bins are limited while others become smaller.
template <std::size_t D>
struct settled_loads {
  std::span<cost_vector<D> const> costs = {};  ///< of each sample; 0 in quantities without limits
  std::span<cost_vector<D>> room = {};         ///< of each bin; a search keeps it up to date
};

/// Which samples bins may hold: those that fit, up to their capacities, and up to their room in
/// settled quantities. Places may be free ones, whose sample is no_sample.
template <std::size_t D>
class vector_rooms {
 public:
  using place = bin_place<D>;

  vector_rooms(cost_vector_problem<D> const& problem, std::span<bag_id const> owner,
               settled_loads<D> const& settled, workspace::frame& scratch)
      : problem_(problem),
        settled_(settled),
        room_(scratch.take<std::int64_t>(problem.capacities.size()))
  {
    std::copy(problem.capacities.begin(), problem.capacities.end(), room_.begin());
    for (std::size_t sample = 0; sample < problem.weights.size(); ++sample) {
      room_[to_index(owner[sample])] -= problem.weights[sample];
    }
  }

  /// Whether every bin is open to every sample.
  [[nodiscard]] bool admit_all() const { return open_; }

  /// Whether what leaves one bin for the other fits there and has room.
  template <std::size_t N>
  [[nodiscard]] bool admit(std::uint32_t heavy, std::array<place, N> const& given,
                           std::uint32_t light, std::array<place, N> const& taken) const
  {
    if (open_) { return true; }
    std::int64_t moved = 0;
    cost_vector<D> settled{};
    auto const move = [&](place const& each, std::uint32_t to, std::int64_t sign) {
      if (each.sample == place::no_sample) { return true; }
      if (!room_.empty()) { moved += sign * problem_.weights[each.sample]; }
      if (!settled_.room.empty()) { add(settled, settled_.costs[each.sample], sign); }
      return problem_.fits(each.sample, to);
    };
    for (place const& each : given) {
      if (!move(each, light, 1)) { return false; }
    }
    for (place const& each : taken) {
      if (!move(each, heavy, -1)) { return false; }
    }
    auto const has_room = [](std::int64_t more, std::int64_t in_light, std::int64_t in_heavy) {
      return more > 0 ? more <= in_light : -more <= in_heavy;
    };
    if (!room_.empty() && !has_room(moved, room_[light], room_[heavy])) { return false; }
    for (std::size_t d = 0; d < D && !settled_.room.empty(); ++d) {
      if (!has_room(settled[d], settled_.room[light][d], settled_.room[heavy][d])) { return false; }
    }
    return true;
  }

  void move(std::uint32_t sample, std::uint32_t from, std::uint32_t to)
  {
    if (!room_.empty()) {
      room_[from] += problem_.weights[sample];
      room_[to] -= problem_.weights[sample];
    }
    if (!settled_.room.empty()) {
      add(settled_.room[from], settled_.costs[sample], 1);
      add(settled_.room[to], settled_.costs[sample], -1);
    }
  }

 private:
  static void add(cost_vector<D>& to, cost_vector<D> const& what, std::int64_t sign)
  {
    for (std::size_t d = 0; d < D; ++d) { to[d] += sign * what[d]; }
  }

  cost_vector_problem<D> problem_;
  settled_loads<D> settled_;
  bool open_ = problem_.any_bag_is_open() && settled_.room.empty();
  std::span<std::int64_t> room_;  // by bin, or empty where bins hold everything
};

/// Bins in order of their loads per speed, in every dimension by itself, while loads change two at
/// a time.
///
/// Shapes      loads[m]; speeds[m], or empty where all bins are equally fast.
/// Ensures     (1) lightest_first(d) are all bins by when they finish in dimension d, equal ones by
///                 number
/// Complexity  O(D m log m) to build; exchange: O(D m), all of it in memmoves; 4 D bytes of scratch
///             per bin.
template <std::size_t D>
class bins_by_load {
 public:
  bins_by_load(std::span<cost_vector<D>> loads, workspace::frame& scratch,
               std::span<std::uint32_t const> speeds = {})
      : loads_(loads), speeds_(speeds)
  {
    for (std::size_t d = 0; d < D; ++d) {
      order_[d] = scratch.take<std::uint32_t>(loads.size());
      std::iota(order_[d].begin(), order_[d].end(), std::uint32_t{0});
      std::sort(order_[d].begin(), order_[d].end(), lighter{loads_, speeds_, d});
    }
  }

  [[nodiscard]] std::span<std::uint32_t const> lightest_first(std::size_t dimension) const noexcept
  {
    return order_[dimension];
  }

  /// The dimension in which a bin is the last to finish; of equals the first.
  [[nodiscard]] std::size_t heaviest_dimension() const noexcept
  {
    std::size_t heaviest = 0;
    for (std::size_t d = 1; d < D; ++d) {
      if (latest_finish(d) > latest_finish(heaviest)) { heaviest = d; }
    }
    return heaviest;
  }

  [[nodiscard]] ratio finish(std::size_t bin, std::size_t dimension) const noexcept
  {
    return {loads_[bin][dimension], speeds_.empty() ? 1 : speeds_[bin]};
  }

  [[nodiscard]] ratio latest_finish(std::size_t dimension) const noexcept
  {
    return finish(order_[dimension].back(), dimension);
  }

  /// Takes work from one bin and gives it to another; parts of it may be negative.
  void transfer(std::uint32_t from, std::uint32_t to, cost_vector<D> const& work) noexcept
  {
    for (std::size_t d = 0; d < D; ++d) {
      reload(from, d, loads_[from][d] - work[d]);
      reload(to, d, loads_[to][d] + work[d]);
    }
  }

 private:
  struct lighter {
    std::span<cost_vector<D> const> loads;
    std::span<std::uint32_t const> speeds;
    std::size_t dimension;
    bool operator()(std::uint32_t a, std::uint32_t b) const noexcept
    {
      cost_units const load_a = loads[a][dimension];
      cost_units const load_b = loads[b][dimension];
      if (speeds.empty()) { return precedes(load_a, load_b, a, b); }
      return precedes(ratio{load_a, speeds[a]}, ratio{load_b, speeds[b]}, a, b);
    }
  };

  void reload(std::uint32_t bin, std::size_t d, cost_units load) noexcept
  {
    auto const& order = order_[d];
    auto const from =
        std::lower_bound(order.begin(), order.end(), bin, lighter{loads_, speeds_, d});
    bool const grows = load > loads_[bin][d];
    loads_[bin][d] = load;
    if (grows) {
      auto const to = std::lower_bound(from + 1, order.end(), bin, lighter{loads_, speeds_, d});
      *std::move(from + 1, to, from) = bin;
    } else {
      auto const to = std::lower_bound(order.begin(), from, bin, lighter{loads_, speeds_, d});
      std::move_backward(to, from, from + 1);
      *to = bin;
    }
  }

  std::span<cost_vector<D>> loads_;
  std::span<std::uint32_t const> speeds_;
  std::array<std::span<std::uint32_t>, D> order_;
};

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

/// Exchanges samples, as `vector_search` does, with work_per_sample pairs to look at per sample and
/// as if there were 100 samples more; from random exchanges on as well, unless told not to.
template <std::size_t D>
void search_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                    std::span<bag_id> owner, std::uint64_t work_per_sample, workspace& memory,
                    bool random = true, settled_loads<D> const& settled = {})
{
  auto scratch = memory.open();
  ratio const target = least_finish<D>(problem, sum_of<D>(loads), loads.size());
  work_budget work(work_per_sample * (owner.size() + 100));
  vector_search<D>(problem, loads, owner, work, scratch, memory, settled).run(target, random);
}

/// Searches also from plans in which slow bins hold what is little work for its weight, and keeps
/// the best plan. That work is what a sample costs in one dimension, and a little of what it costs
/// in others: without that the slow bins would get what is heavy there. Where that ends far from
/// the bound, work may not follow from weight at all: at last it begins with the plan that is made
/// by weight alone, with as much work as all these starts had.
template <std::size_t D>
void try_dense_starts(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                      std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                      std::uint64_t work_per_sample, workspace& memory)
{
  ratio const bound = cost_vector_lower_bound<D>(problem, loads.size(), memory, starts);
  auto const is_near = [&](int part) {  // of the bound, as a power of 2: no further above it
    ratio const finish = finish_of<D>(problem, loads);
    return finish <=
           ratio{bound.numerator + std::min(bound.numerator >> part, no_cost - bound.numerator),
                 bound.denominator};
  };
  auto scratch = memory.open();
  std::span<cost_units> const work = scratch.take<cost_units>(owner.size());
  std::span<cost_vector<D>> const other_loads = scratch.take<cost_vector<D>>(loads.size());
  std::span<bag_id> const other_owner = scratch.take<bag_id>(owner.size());
  std::span<priced_sample> const by_weight = scratch.take<priced_sample>(owner.size());
  auto const search_on = [&](std::uint64_t work_of_each) {
    search_vectors<D>(problem, other_loads, other_owner, work_of_each, memory);
    if (finish_of<D>(problem, other_loads) < finish_of<D>(problem, loads)) {
      std::copy(other_loads.begin(), other_loads.end(), loads.begin());
      std::copy(other_owner.begin(), other_owner.end(), owner.begin());
    }
  };
  for (std::size_t start = 0; start < 4 * D && !is_near(11); ++start) {
    std::size_t const dimension = start / 4;
    int const others = start % 2 == 0 ? 4 : 3;  // as a power of 2: what other dimensions count
    auto const choice = start % 4 < 2 ? dense_choice::speed : dense_choice::slack;
    std::transform(problem.costs.begin(), problem.costs.end(), work.begin(),
                   [dimension, others](cost_vector<D> const& cost) {
                     cost_units sum = cost[dimension] / 2;  // so that the sums below fit
                     for (std::size_t d = 0; d < D; ++d) {
                       if (d != dimension) { sum += cost[d] / cost_units{2 * D} >> others; }
                     }
                     return sum;
                   });
    if (fill_vectors_by_density<D>(problem, work, choice, bound, starts, other_loads, other_owner,
                                   memory)) {
      search_on(work_per_sample);
    }
  }
  if (is_near(4)) { return; }
  descending_order_into(by_weight, problem.weights, memory);
  if (fill_vectors_by_weight<D>(problem, starts, by_weight, other_loads, other_owner, memory)) {
    search_on(4 * D * work_per_sample);
  }
}

/// Improves a plan by several quantities until its last bag finishes at the mean or the work is
/// spent. Returns a time before which no plan finishes, or 0 where it has proven none.
///
/// Where the plan overruns capacities, or leaves samples without a bag, the search begins with one
/// that does not: `place_vectors_within_capacity`. Where capacities leave what it finds more than
/// 1/2048 above the bound, it begins anew up to 4 D times, with plans in which slow bags hold what
/// is little work for its weight: `fill_vectors_by_density`; 1/16 above it, also with one that is
/// made by weight alone. With few samples it tries all plans at last, until it has looked at 256
/// work_per_sample bags: `enumerate_vectors`.
///
/// Shapes      starts[m]: what bags have at the start; loads[m], owner[n].
/// Ensures     (1) those of `refine` for several quantities
template <std::size_t D>
ratio refine_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                     std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                     std::uint64_t work_per_sample, workspace& memory)
{
  constexpr std::size_t few = 16;
  if (!problem.capacities.empty() && !keeps_to_capacities<D>(problem, owner, memory) &&
      !place_vectors_within_capacity<D>(problem, starts, loads, owner, memory)) {
    return {};
  }
  if (work_per_sample == 0) { return {}; }
  search_vectors<D>(problem, loads, owner, work_per_sample, memory);
  if (!problem.capacities.empty()) {
    try_dense_starts<D>(problem, starts, loads, owner, work_per_sample, memory);
  }
  if (owner.empty() || owner.size() > few) { return {}; }
  return enumerate_vectors<D>(problem, starts, loads, owner, 256 * work_per_sample, memory);
}

/// Makes small, one after the other, the largest loads of the dimensions that do not bind. The one
/// that binds, in which the plan ends last, is settled: its bins keep to when it ends. A search
/// lowers the others until the latest of these binds, which is settled too, and so on.
///
/// Shapes      starts[m]: what bags have at the start
/// Expects     a plan that keeps to its capacities.
/// Ensures     (1) the times at which dimensions finish, the latest first, do not become later in
///                 the first that changes
/// Complexity  D - 1 searches; 16 D bytes of scratch per sample and per bag.
template <std::size_t D>
void settle_others(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                   std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                   std::uint64_t work_per_sample, workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_vector<D>> const costs = scratch.take<cost_vector<D>>(owner.size());
  std::span<cost_vector<D>> const settled = scratch.take<cost_vector<D>>(owner.size());
  std::span<cost_vector<D>> const room = scratch.take<cost_vector<D>>(loads.size());
  std::copy(problem.costs.begin(), problem.costs.end(), costs.begin());
  std::fill(settled.begin(), settled.end(), cost_vector<D>{});
  std::fill(room.begin(), room.end(), cost_vector<D>{});
  cost_vector_problem<D> others = problem;
  others.costs = costs;
  for (std::size_t left = D - 1; left > 0; --left) {
    finishes<D> const latest = finishes_of<D>(problem, loads);
    auto const binding =
        static_cast<std::size_t>(std::max_element(latest.begin(), latest.end()) - latest.begin());
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      settled[sample][binding] += std::exchange(costs[sample][binding], 0);
    }
    for (std::size_t bin = 0; bin < loads.size(); ++bin) {
      cost_units const load = std::exchange(loads[bin][binding], 0);
      room[bin][binding] += work_until(latest[binding], problem.speed(bin)) - load;
    }
    search_vectors<D>(others, loads, owner, work_per_sample, memory, /*random=*/false,
                      {settled, room});
  }
  std::copy(starts.begin(), starts.end(), loads.begin());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    for (std::size_t d = 0; d < D; ++d) {
      loads[to_index(owner[sample])][d] += problem.costs[sample][d];
    }
  }
}

}  // namespace ballast::inline v0::detail
