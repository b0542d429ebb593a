// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_MOVE_SOURCE_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_MOVE_SOURCE_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/microbatch_kinds.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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

  similar_microbatches(order_problem const& problem, microbatch_kinds const& kinds,
                       workspace::frame& scratch)
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
        difference[other] = difference_of(problem, each, other);
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
  [[nodiscard]] static time_units difference_of(order_problem const& problem, std::size_t a,
                                                std::size_t b)
  {
    stage_graph const& stages = problem.schedule.stages();
    std::span<stage_time const> const of_a = problem.times[to_id<microbatch_id>(a)];
    std::span<stage_time const> const of_b = problem.times[to_id<microbatch_id>(b)];
    time_units sum = 0;
    for (std::size_t stage = 0; stage < of_a.size(); ++stage) {
      auto const [forward, backward] = of_a[stage];
      sum += std::max(forward, of_b[stage].forward) - std::min(forward, of_b[stage].forward);
      if (stages[to_id<stage_id>(stage)].backward) {
        sum += std::max(backward, of_b[stage].backward) - std::min(backward, of_b[stage].backward);
      }
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
  move_source(order_problem const& problem, workspace::frame& scratch)
      : kinds_(problem, scratch), similar_(problem, kinds_, scratch)
  {}

  [[nodiscard]] std::size_t kinds() const { return kinds_.count; }

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

  microbatch_kinds kinds_;
  similar_microbatches similar_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_MOVE_SOURCE_HPP
