// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/pipeline/order_search.hpp>

#include <bit>
#include <functional>

namespace ballast::inline v0 {

namespace detail {

/// For each microbatch those of other kinds that take most nearly the same times as it does. Two
/// microbatches differ by the sum over all stages of how much their forward and their backward do.
///
/// Expects     two kinds or more
/// Ensures     (1) of(m) has all microbatches of other kinds, or `most` of them where there are
///                 more
///             (2) none that is left out differs less from m, and they are sorted by how much they
///                 differ, equal ones by number
///             (3) what a stage without backward has as backward does not count
/// Complexity  O(l^2 x (stages + log most)) time and O(l x min(l, most)) space.
class similar_microbatches {
 public:
  static constexpr std::size_t most = 64;

  similar_microbatches(microbatch_kinds const& kinds, workspace::frame& scratch)
      : width_(std::min(kinds.of.size(), most)),
        found_(scratch.take<microbatch_id>(kinds.of.size() * width_)),
        count_(scratch.take<std::size_t>(kinds.of.size()))
  {
    std::size_t const count = kinds.of.size();
    std::span<microbatch_id> const others = scratch.take<microbatch_id>(count);
    std::span<time_units> const difference = scratch.take<time_units>(count);
    for (std::size_t each = 0; each < count; ++each) {
      std::size_t differ = 0;
      for (std::size_t other = 0; other < count; ++other) {
        if (kinds.of[other] == kinds.of[each]) { continue; }
        difference[other] = difference_of(kinds.times_of(each), kinds.times_of(other));
        others[differ++] = to_id<microbatch_id>(other);
      }
      count_[each] = std::min(differ, width_);
      auto const begin = others.begin();
      auto const end = begin + static_cast<std::ptrdiff_t>(count_[each]);
      std::partial_sort(begin, end, begin + static_cast<std::ptrdiff_t>(differ),
                        [difference](microbatch_id a, microbatch_id b) {
                          return precedes(difference[to_index(a)], difference[to_index(b)], a, b);
                        });
      std::copy(begin, end, found_.subspan(each * width_).begin());
    }
  }

  /// The most similar first.
  [[nodiscard]] std::span<microbatch_id const> of(microbatch_id microbatch) const
  {
    std::size_t const each = to_index(microbatch);
    return found_.subspan(each * width_, count_[each]);
  }

 private:
  [[nodiscard]] static time_units difference_of(std::span<time_units const> a,
                                                std::span<time_units const> b)
  {
    time_units sum = 0;
    for (std::size_t at = 0; at < a.size(); ++at) {
      sum += std::max(a[at], b[at]) - std::min(a[at], b[at]);
    }
    return sum;
  }

  std::size_t width_;
  std::span<microbatch_id> found_;  // `width_` per microbatch
  std::span<std::size_t> count_;    // how many of them are there
};

/// A small change of an order: two microbatches are swapped, or one moves to another position, or a
/// block of two to five that follow each other.
struct order_move {
  std::size_t from = 0;  ///< the first of a block
  std::size_t to = 0;    ///< where the first of a block is afterwards
  bool swaps = false;
  std::size_t block = 1;

  void apply(std::span<microbatch_id> order) const
  {
    auto const at = [order](std::size_t position) {
      return order.begin() + static_cast<std::ptrdiff_t>(position);
    };
    if (swaps) {
      std::iter_swap(at(from), at(to));
    } else if (from < to) {
      std::rotate(at(from), at(from + block), at(to + block));
    } else {
      std::rotate(at(to), at(from), at(from + block));
    }
  }

  /// Whether the order is another one afterwards where microbatches of a kind are equal. O(l).
  [[nodiscard]] bool changes(std::span<microbatch_id const> order,
                             microbatch_kinds const& kinds) const
  {
    auto const kind_at = [&](std::size_t position) { return kinds.of[to_index(order[position])]; };
    if (swaps) { return kind_at(from) != kind_at(to); }
    // Rotating a range by `block`, in either direction, changes nothing if each of its kinds comes
    // again `block` positions later.
    std::size_t const low = std::min(from, to);
    std::size_t const count = std::max(from, to) + block - low;
    for (std::size_t each = 0; each < count; ++each) {
      std::size_t const next = each + block < count ? each + block : each + block - count;
      if (kind_at(low + each) != kind_at(low + next)) { return true; }
    }
    return false;
  }
};

/// Draws the moves that a search tries. Of twenty, ten swap two similar microbatches wherever they
/// stand, two swap any two, six move one and two a block of two to five.
///
/// Late in a search few moves help: a swap of two that are most similar ten to a hundred times as
/// often as one of any two, and a short move more often than a long one. So ranks of similarity,
/// and by how far one moves, are drawn such that half of them are in the lowest fifth. A quarter of
/// the other moves go to a near position, since what a microbatch waits for are its neighbours.
///
/// Expects     two kinds of microbatches or more for a draw
/// Complexity  construction as similar_microbatches, a draw O(l).
class move_source {
 public:
  move_source(microbatch_kinds const& kinds, workspace::frame& scratch)
      : kinds_(kinds), similar_(kinds, scratch)
  {}

  /// A move that leaves an order of kinds as it is is drawn again, up to seven times. One
  /// microbatch moves by `farthest` positions at most.
  [[nodiscard]] order_move draw(random_source& random, std::span<microbatch_id const> order,
                                std::size_t farthest) const
  {
    order_move move = draw_any(random, order, farthest);
    if (kinds_.count < order.size()) {
      for (int again = 0; again < 7 && !move.changes(order, kinds_); ++again) {
        move = draw_any(random, order, farthest);
      }
    }
    return move;
  }

 private:
  // Numbers from one random word: one below `bound` is the whole part of bound x word / 2^64, and
  // the fraction gives the next.
  class numbers {
   public:
    explicit numbers(std::uint64_t word) : word_(word) {}

    [[nodiscard]] std::size_t below(std::size_t bound)
    {
      auto const product = static_cast<uint128>(word_) * bound;
      word_ = static_cast<std::uint64_t>(product);
      return static_cast<std::size_t>(product >> 64);
    }

    /// Low ones more often.
    [[nodiscard]] std::size_t low_below(std::size_t bound) { return below(1 + below(bound)); }

   private:
    std::uint64_t word_;
  };

  [[nodiscard]] order_move draw_any(random_source& random, std::span<microbatch_id const> order,
                                    std::size_t farthest) const
  {
    constexpr std::size_t longest_block = 5;
    constexpr std::size_t near = 8;
    numbers next(random());
    std::size_t const kind = next.below(20);
    if (kind < 10) {
      std::size_t const from = next.below(order.size());
      std::span<microbatch_id const> const others = similar_.of(order[from]);
      microbatch_id const other = others[next.low_below(others.size())];
      auto const to = std::find(order.begin(), order.end(), other);
      return {from, static_cast<std::size_t>(to - order.begin()), true};
    }
    bool const swaps = kind < 12;
    bool const moves_one = !swaps && kind < 18;
    std::size_t const block = swaps || moves_one || order.size() == 2
                                  ? 1
                                  : 2 + next.below(std::min(longest_block, order.size() - 1) - 1);
    std::size_t const room = order.size() - block;
    std::size_t const distance =
        1 + (moves_one ? next.low_below(std::min(farthest, room))
                       : next.below(next.below(4) == 0 ? std::min(near, room) : room));
    std::size_t const low = next.below(room + 1 - distance);
    std::size_t const high = low + distance;
    bool const upwards = next.below(2) == 0;
    return {upwards ? low : high, upwards ? high : low, swaps, block};
  }

  microbatch_kinds const& kinds_;
  similar_microbatches similar_;
};

/// start x 2^(-halvings done / total): it falls ever more slowly.
[[nodiscard]] constexpr time_units cooled(time_units start, std::uint64_t halvings,
                                          std::uint64_t done, std::uint64_t total)
{
  auto const fallen = static_cast<uint128>(done) * halvings * fixed_point::log2_one / total;
  std::uint64_t const share =
      fixed_point::exp2(32 * fixed_point::log2_one - static_cast<std::int64_t>(fallen));
  return static_cast<time_units>(static_cast<uint128>(static_cast<std::uint64_t>(start)) * share >>
                                 32);
}

/// A threshold about `scale`: above it half of the time, above twice of it a quarter, and so on,
/// as -scale x log2(u) is for a uniform u, with straight lines between the powers of two.
[[nodiscard]] constexpr time_units drawn_threshold(time_units scale, std::uint64_t word)
{
  auto const whole = static_cast<unsigned>(std::countl_zero(word | 1));
  std::uint64_t const fraction = ~(word << whole << 1) >> 32;  // falls from almost 1 to 0
  uint128 const steps = (static_cast<uint128>(whole) << 32) + fraction;
  return static_cast<time_units>(static_cast<uint128>(static_cast<std::uint64_t>(scale)) * steps >>
                                 32);
}

/// The scale of the thresholds of a run: what a move changes on average, divided by `start`, and
/// after the run halved so many times. And whether one microbatch moves ever less far: at first
/// anywhere, at last by no more than eight positions.
struct walk_cooling {
  time_units start = 4;
  std::uint64_t halvings = 4;
  bool shortens = true;
};

/// Eight searches that walk from order to order, each by moves that are not worse by more than a
/// random threshold; the worse ones end on the way, so that the moves of the last are eight times
/// as many.
///
/// Every round evaluates sixteen orders at once, a group of 16 / walkers moves from each walker's
/// order, and a walker goes on to the best of its group or stays. Plateaus are walked: an equal
/// order is always taken, but a swap of equal microbatches is no move. After each of the first
/// three eighths of a run of eight walkers the best one's order replaces the worst's, and after the
/// fourth, the sixth and the seventh the worse half of them ends. Of four walkers half end after
/// the first eighth and after the second.
///
/// Expects     two kinds of microbatches or more
/// Ensures     (1) best() is the shortest order evaluated, the first of them
///             (2) the budget is spent by as many orders as are evaluated
///             (3) it stops where best_makespan() is the bound
class order_walkers {
 public:
  static constexpr std::size_t most = 8;

  order_walkers(order_problem const& problem, microbatch_kinds const& kinds, time_units bound,
                std::span<microbatch_id> best, time_units best_makespan, workspace::frame& scratch)
      : moves_(kinds, scratch),
        evaluator_(problem.schedule, problem.times, scratch),
        count_(best.size()),
        bound_(bound),
        orders_(scratch.take<microbatch_id>(most * count_)),
        tried_(scratch.take<microbatch_id>(at_once * count_)),
        now_(scratch.take<time_units>(most)),
        makespans_(scratch.take<time_units>(at_once)),
        best_(best),
        best_makespan_(best_makespan)
  {}

  [[nodiscard]] bool ended(work_budget const& budget) const
  {
    return budget.spent() || best_makespan_ <= bound_;
  }

  /// The order that a walker will start from. Any permutation may be written there.
  [[nodiscard]] std::span<microbatch_id> start(std::size_t walker)
  {
    return orders_.subspan(walker * count_, count_);
  }

  /// Evaluates all eight starts, or as many as the budget has, and walks from the shortest of them,
  /// up to `walkers`, until `evaluations` are done.
  void run(std::size_t walkers, walk_cooling const& cooling, std::uint64_t evaluations,
           random_source& random, work_budget& budget)
  {
    std::uint64_t const end = budget.left() - std::min(budget.left(), evaluations);
    walkers_ = std::min<std::uint64_t>(most, budget.left() - end);
    if (walkers_ == 0) { return; }
    evaluator_.evaluate_into(now_.first(walkers_), orders_.first(walkers_ * count_));
    budget.spend(walkers_);
    for (std::size_t walker = 0; walker < walkers_; ++walker) { note(now_[walker], start(walker)); }
    keep_best(std::min<std::size_t>(walkers, std::bit_floor(walkers_)));
    farthest_ = count_;
    bool const early = walkers < most;
    time_units const widest = measured_change(random, end, budget) / cooling.start;
    std::uint64_t const total = budget.left() - std::min(budget.left(), end);
    constexpr std::uint64_t coolings = 256;  // computing a scale takes as long as ten moves
    time_units scale = widest;
    std::uint64_t cooled_until = 0;
    std::uint64_t eighth = 1;
    while (budget.left() > end && !ended(budget)) {
      std::uint64_t const done = total - (budget.left() - end);
      if (done >= cooled_until) {
        scale = cooled(widest, cooling.halvings, done, total);
        if (cooling.shortens) {
          farthest_ = std::max<std::size_t>(8, (count_ - 1) * (total - done) / total);
        }
        cooled_until = done + total / coolings;
      }
      for (; eighth < 8 && done >= total / 8 * eighth; ++eighth) { select(eighth, early); }
      std::size_t const size = std::min<std::uint64_t>(at_once, budget.left() - end);
      evaluate_moves(size, random);
      budget.spend(size);
      step(size, scale, random);
    }
  }

  [[nodiscard]] std::span<microbatch_id const> best() const { return best_; }
  [[nodiscard]] time_units best_makespan() const { return best_makespan_; }

 private:
  static constexpr std::size_t at_once = order_evaluator::at_once;

  void note(time_units makespan, std::span<microbatch_id const> order)
  {
    if (makespan >= best_makespan_) { return; }
    best_makespan_ = makespan;
    std::copy(order.begin(), order.end(), best_.begin());
  }

  [[nodiscard]] std::span<microbatch_id> tried(std::size_t row) const
  {
    return tried_.subspan(row * count_, count_);
  }

  void evaluate_moves(std::size_t size, random_source& random)
  {
    std::size_t const group = at_once / walkers_;
    for (std::size_t each = 0; each < size; ++each) {
      std::span<microbatch_id const> const from = start(each / group);
      std::copy(from.begin(), from.end(), tried(each).begin());
      moves_.draw(random, from, farthest_).apply(tried(each));
    }
    evaluator_.evaluate_into(makespans_.first(size), tried_.first(size * count_));
  }

  void step(std::size_t size, time_units scale, random_source& random)
  {
    std::size_t const group = at_once / walkers_;
    for (std::size_t first = 0; first < size; first += group) {
      std::size_t const walker = first / group;
      time_units const* const shortest = std::min_element(
          makespans_.data() + first, makespans_.data() + std::min(size, first + group));
      time_units const worse = *shortest - now_[walker];
      if (worse > 0 && worse > drawn_threshold(scale, random())) { continue; }
      auto const chosen = tried(static_cast<std::size_t>(shortest - makespans_.data()));
      std::copy(chosen.begin(), chosen.end(), start(walker).begin());
      now_[walker] = *shortest;
      note(*shortest, chosen);
    }
  }

  // What a move changes on average, of the moves that change something; 64 of them are tried.
  [[nodiscard]] time_units measured_change(random_source& random, std::uint64_t end,
                                           work_budget& budget)
  {
    std::size_t const group = at_once / walkers_;
    uint128 sum = 0;
    std::uint64_t changes = 0;
    for (int round = 0; round < 4 && budget.left() > end && !ended(budget); ++round) {
      std::size_t const size = std::min<std::uint64_t>(at_once, budget.left() - end);
      evaluate_moves(size, random);
      budget.spend(size);
      for (std::size_t each = 0; each < size; ++each) {
        time_units const change = makespans_[each] - now_[each / group];
        sum += static_cast<std::uint64_t>(change < 0 ? -change : change);
        changes += change == 0 ? 0 : 1;
        note(makespans_[each], tried(each));
      }
    }
    return changes == 0 ? 0 : static_cast<time_units>(sum / changes);
  }

  void select(std::uint64_t eighth, bool early)
  {
    if (walkers_ == 1) { return; }
    if (early) {
      if (std::has_single_bit(eighth)) { keep_best(walkers_ / 2); }
    } else if (eighth < 4) {
      time_units* const begin = now_.data();
      auto const best = static_cast<std::size_t>(std::min_element(begin, begin + walkers_) - begin);
      auto const worst =
          static_cast<std::size_t>(std::max_element(begin, begin + walkers_) - begin);
      std::copy_n(start(best).begin(), count_, start(worst).begin());
      now_[worst] = now_[best];
    } else if (eighth != 5) {
      keep_best(walkers_ / 2);
    }
  }

  // Keeps the shortest orders; of equal ones, those of the first walkers.
  void keep_best(std::size_t kept)
  {
    for (std::size_t walker = 0; walker < kept; ++walker) {
      time_units* const begin = now_.data();
      auto const best =
          static_cast<std::size_t>(std::min_element(begin + walker, begin + walkers_) - begin);
      std::swap_ranges(start(walker).begin(), start(walker).end(), start(best).begin());
      std::swap(now_[walker], now_[best]);
    }
    walkers_ = kept;
  }

  move_source moves_;
  order_evaluator evaluator_;
  std::size_t count_;
  time_units bound_;
  std::span<microbatch_id> orders_;  ///< one per walker
  std::span<microbatch_id> tried_;
  std::span<time_units> now_;  ///< how long the walkers' orders take
  std::span<time_units> makespans_;
  std::span<microbatch_id> best_;
  time_units best_makespan_;
  std::size_t farthest_ = 0;  ///< by how many positions one microbatch or a block moves
  std::size_t walkers_ = most;
};

/// Writes an order that rises to the longest microbatch and falls again: of an ascending order each
/// `every`-th goes to the end, the first of them last, and the others to the beginning.
///
/// A pipeline fills with short microbatches and drains with short ones, and the more ranks it has,
/// the more of them it needs at both ends.
///
/// Expects     `ascending` and `order` are of one length and do not overlap; every > 0
inline void rise_and_fall(std::span<microbatch_id const> ascending, std::span<microbatch_id> order,
                          std::size_t every)
{
  std::size_t rising = 0;
  std::size_t falling = order.size();
  for (std::size_t each = 0; each < ascending.size(); ++each) {
    order[(each + 1) % every == 0 ? --falling : rising++] = ascending[each];
  }
}

/// Whether of at least three quarters of all pairs of microbatches one is nowhere longer than the
/// other, as where one length says how long a microbatch takes on every stage. Where lengths of
/// several modalities vary independently, half of the pairs or fewer are such.
///
/// Ensures     (1) microbatches that are all equal, or fewer than two, are ranked
/// Complexity  O(l^2 x stages) for l microbatches.
[[nodiscard]] inline bool mostly_ranked(microbatch_kinds const& kinds)
{
  auto const nowhere_longer = [](std::span<time_units const> a, std::span<time_units const> b) {
    return std::equal(a.begin(), a.end(), b.begin(), std::less_equal{});
  };
  std::size_t const count = kinds.of.size();
  std::size_t unranked = 0;
  for (std::size_t second = 1; second < count; ++second) {
    auto const b = kinds.times_of(second);
    for (std::size_t first = 0; first < second; ++first) {
      auto const a = kinds.times_of(first);
      unranked += nowhere_longer(a, b) || nowhere_longer(b, a) ? 0U : 1U;
    }
  }
  return count < 2 || unranked * 4 <= count * (count - 1) / 2;
}

}  // namespace detail

/// Improves the order of another policy by threshold accepting: eight searches, which start from
/// different orders, try moves and go on with those that are not worse by more than a random
/// threshold, which falls with time. The worse searches end on the way.
///
/// The first searches start from the given order, that of `inner`, the ascending and the descending
/// one, that of interval filling, two that rise and fall, and a random one. Where there are
/// evaluations for more, further ones follow from random orders. A search of l microbatches is long
/// with 16 l^2 evaluations, or with 8 l^2 where they are mostly ranked: where three of four pairs,
/// or more, have one that takes no longer than the other on any stage. With so many times that many
/// evaluations there are as many runs as the square root of it, rounded down, since one search of
/// twice the length finds better orders than two, up to a point. Where kinds have eight
/// microbatches or more on average, a search soon finds what it can find, and there are at least
/// twelve runs, or as many as can have 4 l^2 evaluations. Where there are neither few kinds nor
/// ranks, the last of several runs starts from the best order so far, with thresholds a fourth as
/// high.
///
/// With less than 48 l^2, or with less than 4 l^2 where microbatches are mostly ranked, only four
/// searches walk, from the best four of the eight orders. All end at the lower bound or when the
/// evaluations are used up. Where all microbatches are equal there is nothing to try. Where orders
/// have no more beginnings than there are evaluations, all are searched instead: with the default,
/// those of up to eight microbatches.
///
/// Ensures     (1) the order takes no longer than the given one and than that of `inner`
///             (2) it is the same for the same seed on every machine, with SIMD and without
///             (3) no more than `evaluations` orders are evaluated, beside these two and those that
///                 `inner` evaluates
///             (4) what is proven is returned: where all orders are searched the time of the order,
///                 which is the best, and otherwise what `inner` has proven
/// Complexity  O(evaluations x tasks), of which order_evaluator does sixteen at a time, and
///             O(l^2 x stages).
/// Source      G. Dueck, T. Scheuer, "Threshold accepting: a general purpose optimization algorithm
///             appearing superior to simulated annealing", Journal of Computational Physics 90(1),
///             1990. Random thresholds make it S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi,
///             "Optimization by Simulated Annealing", Science 220(4598):671-680, 1983. The searches
///             side by side and all constants are ours.
template <order_policy Inner = insertion>
struct local_search {
  [[no_unique_address]] Inner inner{};
  std::uint64_t evaluations = 192'000;
  std::uint64_t seed = 1;

  time_units operator()(order_problem const& problem, std::span<microbatch_id> order,
                        workspace& memory) const
  {
    std::size_t const count = order.size();
    auto scratch = memory.open();
    std::span<microbatch_id> const given = scratch.take<microbatch_id>(count);
    std::span<microbatch_id> const inners = scratch.take<microbatch_id>(count);
    std::copy(order.begin(), order.end(), given.begin());
    std::copy(order.begin(), order.end(), inners.begin());
    time_units const proven = detail::run_order_policy(inner, problem, inners, memory);
    if (count < 2) { return proven; }

    time_units best = makespan_of(problem.schedule, problem.times, order, memory);
    time_units const of_inner = makespan_of(problem.schedule, problem.times, inners, memory);
    if (of_inner < best) {
      best = of_inner;
      std::copy(inners.begin(), inners.end(), order.begin());
    }
    detail::work_budget budget(evaluations);
    detail::microbatch_kinds const kinds(problem, scratch);
    if (searches_all(count)) {
      detail::order_search search(problem, kinds, scratch);
      if (search(order, best, budget)) { return best; }
    }
    if (kinds.count < 2) { return proven; }
    detail::order_walkers walkers(problem, kinds, std::max(problem.lower_bound, proven), order,
                                  best, scratch);
    random_source random(seed);
    bool const few_kinds = kinds.count <= count / 8;
    bool const ranked = detail::mostly_ranked(kinds);
    std::uint64_t const runs = runs_of(count, few_kinds, ranked);
    std::size_t const started =
        evaluations / (count * count) >= (ranked ? 4 : 48) ? walkers.most : walkers.most / 2;
    for (std::uint64_t run = 0; run < runs && !walkers.ended(budget); ++run) {
      bool const refines = !few_kinds && !ranked && run > 0 && run + 1 == runs;
      for (std::size_t each = 0; each < walkers.most; ++each) {
        std::span<microbatch_id const> const from = refines ? walkers.best() : given;
        std::copy(from.begin(), from.end(), walkers.start(each).begin());
        if (!refines && (run > 0 || each > 6)) { random.shuffle(walkers.start(each)); }
      }
      if (run == 0) {
        std::copy(inners.begin(), inners.end(), walkers.start(1).begin());
        ascending_order{}(problem, walkers.start(2), memory);
        std::copy(walkers.start(2).rbegin(), walkers.start(2).rend(), walkers.start(3).begin());
        interval_filling{}(problem, walkers.start(4), memory);
        detail::rise_and_fall(walkers.start(2), walkers.start(5), 2);
        detail::rise_and_fall(walkers.start(2), walkers.start(6), 4);
      }
      detail::walk_cooling cooling = cooling_of(count, few_kinds, ranked);
      if (refines) { cooling.start *= 4; }
      walkers.run(started, cooling, budget.left() / (runs - run), random, budget);
    }
    return proven;
  }

  friend bool operator==(local_search const&, local_search const&) = default;

 private:
  // Whether orders of so many microbatches have no more beginnings than there are evaluations.
  [[nodiscard]] constexpr bool searches_all(std::uint64_t count) const
  {
    std::uint64_t beginnings = 0;
    for (std::uint64_t each = 1; each <= count && beginnings <= evaluations; ++each) {
      beginnings = each * (beginnings + 1);
    }
    return beginnings <= evaluations;
  }

  // How many runs of eight searches, one after the other.
  [[nodiscard]] constexpr std::uint64_t runs_of(std::uint64_t count, bool few_kinds,
                                                bool ranked) const
  {
    std::uint64_t const squares = evaluations / (count * count);
    std::uint64_t runs = 1;
    while ((runs + 1) * (runs + 1) <= squares / (ranked ? 8 : 16)) { ++runs; }
    return few_kinds ? std::max(runs, std::min<std::uint64_t>(12, squares / 4)) : runs;
  }

  // Of few kinds or ranked, the starts are good already, and a hot search only forgets them. With
  // few microbatches a run soon tries all moves, whatever the threshold.
  [[nodiscard]] static constexpr detail::walk_cooling cooling_of(std::size_t count, bool few_kinds,
                                                                 bool ranked)
  {
    bool const small = count < 24;
    if (few_kinds) { return {8, 7, false}; }
    if (ranked) { return {12, small ? 4U : 6U, false}; }
    return small ? detail::walk_cooling{6, 1} : detail::walk_cooling{4, 4};
  }
};

local_search() -> local_search<>;
template <class Inner>
local_search(local_search<Inner>) -> local_search<local_search<Inner>>;  // without it, a copy
template <class Inner>
local_search(Inner) -> local_search<Inner>;
template <class Inner>
local_search(Inner, std::uint64_t) -> local_search<Inner>;
template <class Inner>
local_search(Inner, std::uint64_t, std::uint64_t) -> local_search<Inner>;

}  // namespace ballast::inline v0
