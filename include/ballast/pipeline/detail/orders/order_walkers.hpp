// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_WALKERS_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_WALKERS_HPP

#include <ballast/core/detail/fixed_point_math.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/move_source.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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

  order_walkers(order_problem const& problem, time_units bound, std::span<microbatch_id> best,
                time_units best_makespan, workspace::frame& scratch)
      : moves_(problem, scratch),
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

  [[nodiscard]] std::size_t kinds() const { return moves_.kinds(); }
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_WALKERS_HPP
