// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_LOCAL_SEARCH_HPP
#define BALLAST_PIPELINE_LOCAL_SEARCH_HPP

#include <ballast/core/detail/fixed_point_math.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/insertion.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// A small change of an order: two microbatches are swapped, or one moves to another position.
struct order_move {
  std::size_t from = 0;
  std::size_t to = 0;
  bool swaps = false;

  /// Expects at least two microbatches. Half of the moves swap, and three of ten go to a near
  /// position, since what a microbatch waits for in a pipeline are its neighbours.
  [[nodiscard]] static order_move draw(random_source& random, std::size_t microbatches)
  {
    constexpr std::uint64_t near = 8;
    // One random word is enough: a number below `bound` is the whole part of bound x word / 2^64,
    // and the fraction gives the next number.
    std::uint64_t word = random();
    auto const below = [&word](std::uint64_t bound) {
      auto const product = static_cast<uint128>(word) * bound;
      word = static_cast<std::uint64_t>(product);
      return static_cast<std::uint64_t>(product >> 64);
    };
    std::uint64_t const kind = below(20);
    std::uint64_t const farthest = microbatches - 1;
    std::uint64_t const distance = 1 + below(kind % 10 < 3 ? std::min(near, farthest) : farthest);
    auto const low = static_cast<std::size_t>(below(microbatches - distance));
    auto const high = low + static_cast<std::size_t>(distance);
    bool const upwards = below(2) == 0;
    return {upwards ? low : high, upwards ? high : low, kind < 10};
  }

  void apply(std::span<microbatch_id> order) const
  {
    auto const at = [order](std::size_t position) {
      return order.begin() + static_cast<std::ptrdiff_t>(position);
    };
    if (swaps) {
      std::iter_swap(at(from), at(to));
    } else if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }
};

/// start x 2^(-7 done / total): from start to a 128th of it, falling ever more slowly.
[[nodiscard]] constexpr time_units cooled(time_units start, std::uint64_t done, std::uint64_t total)
{
  auto const fallen = static_cast<uint128>(done) * 7 * fixed_point::log2_one / total;
  std::uint64_t const share =
      fixed_point::exp2(32 * fixed_point::log2_one - static_cast<std::int64_t>(fallen));
  return static_cast<time_units>(static_cast<uint128>(static_cast<std::uint64_t>(start)) * share >>
                                 32);
}

}  // namespace detail

/// Improves the order of another policy by threshold accepting: from the present order it tries
/// moves and goes on with one that is not worse by more than a threshold, which falls with time.
///
/// Moves are tried in groups of eight, which are evaluated at once, and the best of a group is
/// taken. It starts from the order of `inner` or from the given one, whichever is shorter, and ends
/// at the lower bound or when its evaluations are used up.
///
/// Ensures     (1) the order takes no longer than the given one and than that of `inner`
///             (2) it is the same for the same seed on every machine, with SIMD and without
///             (3) no more than `evaluations` orders are evaluated, beside these two and those that
///                 `inner` evaluates
///             (4) what `inner` has proven is returned
/// Complexity  O(evaluations x tasks), of which order_evaluator does eight at a time.
/// Source      G. Dueck, T. Scheuer, "Threshold accepting: a general purpose optimization algorithm
///             appearing superior to simulated annealing", Journal of Computational Physics 90(1),
///             1990. Groups and the falling threshold (makespan / 3 l to a 128th of it) are ours.
template <order_policy Inner = insertion>
struct local_search {
  [[no_unique_address]] Inner inner{};
  std::uint64_t evaluations = 64'000;
  std::uint64_t seed = 1;

  time_units operator()(order_problem const& problem, std::span<microbatch_id> order,
                        workspace& memory) const
  {
    constexpr std::size_t group = 8;
    std::size_t const count = order.size();
    auto scratch = memory.open();
    std::span<microbatch_id> const present = scratch.take<microbatch_id>(count);
    std::copy(order.begin(), order.end(), present.begin());
    time_units const proven = detail::run_order_policy(inner, problem, present, memory);
    if (count < 2) { return proven; }
    time_units const bound = std::max(problem.lower_bound, proven);

    order_evaluator evaluator(problem.schedule, problem.times, scratch);
    std::span<microbatch_id> const tried = scratch.take<microbatch_id>(group * count);
    std::span<detail::order_move> const moves = scratch.take<detail::order_move>(group);
    std::span<time_units> const makespans = scratch.take<time_units>(group);
    std::copy(order.begin(), order.end(), tried.begin());
    std::copy(present.begin(), present.end(), tried.subspan(count).begin());
    evaluator.evaluate_into(makespans.first(2), tried.first(2 * count));
    time_units best = makespans[0];
    time_units now = makespans[1];
    if (now < best) {
      best = now;
      std::copy(present.begin(), present.end(), order.begin());
    } else {
      now = best;
      std::copy(order.begin(), order.end(), present.begin());
    }

    random_source random(seed);
    constexpr std::uint64_t coolings = 256;  // computing the threshold takes as long as ten moves
    time_units const widest = now / static_cast<time_units>(3 * count);
    time_units threshold = widest;
    std::uint64_t cooled_until = 0;
    for (detail::work_budget budget(evaluations); !budget.spent() && best > bound;) {
      std::uint64_t const done = evaluations - budget.left();
      auto const size = static_cast<std::size_t>(std::min<std::uint64_t>(group, budget.left()));
      for (std::size_t each = 0; each < size; ++each) {
        std::span<microbatch_id> const row = tried.subspan(each * count, count);
        std::copy(present.begin(), present.end(), row.begin());
        moves[each] = detail::order_move::draw(random, count);
        moves[each].apply(row);
      }
      evaluator.evaluate_into(makespans.first(size), tried.first(size * count));
      auto const* const shortest = std::min_element(makespans.data(), makespans.data() + size);
      if (done >= cooled_until) {
        threshold = detail::cooled(widest, done, evaluations);
        cooled_until = done + evaluations / coolings;
      }
      if (*shortest - now <= threshold) {
        now = *shortest;
        moves[static_cast<std::size_t>(shortest - makespans.data())].apply(present);
        if (now < best) {
          best = now;
          std::copy(present.begin(), present.end(), order.begin());
        }
      }
      budget.spend(size);
    }
    return proven;
  }

  friend bool operator==(local_search const&, local_search const&) = default;
};

local_search() -> local_search<>;
template <class Inner>
local_search(Inner) -> local_search<Inner>;
template <class Inner>
local_search(Inner, std::uint64_t) -> local_search<Inner>;
template <class Inner>
local_search(Inner, std::uint64_t, std::uint64_t) -> local_search<Inner>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_LOCAL_SEARCH_HPP
