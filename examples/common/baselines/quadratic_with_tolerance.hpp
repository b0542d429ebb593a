// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace baselines {

/// OrchMLLM's balancer for packed sequences with attention: the heaviest sample first, always to
/// the bag with the least tokens, where sums of tokens within a tolerance count as equal and the
/// least sum of squared lengths decides.
///
/// As published, "within v of each other" is not transitive: of sums 0, 4 and 8 with v = 5 the
/// first equals the second and the second the third, but the first is less than the third. A heap
/// with such a comparison is undefined behaviour. Here two sums are equal if they lie between the
/// same two multiples of the tolerance, which is an order. With bags of several speeds, sums are
/// taken per speed.
///
/// It reads lengths, not costs, so it can plan for a model without measured costs. With costs that
/// have both terms, `quadratic_cost{1, lambda}`, every packed policy balances their sum directly.
///
/// Units       tolerance in tokens per unit of speed: a fraction of what a bag gets, since the time
///             of a bag depends on both sums and squares.
/// Expects     tolerance >= 1.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) a sample's bag is, of those that it fits, the first by (tokens / (tolerance x
///                 speed) rounded down, sum of squares / speed, number), before it is added
///             (4) what bags have to start with is work and not tokens: it does not count
/// Complexity  O(n (sizes + log m)) after the sort that the problem brings.
/// Source      Algorithm 4 of B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate Multimodal Data with
///             Batch Post-Balancing to Accelerate Multimodal Large Language Model Training", arXiv
///             2503.23830, 2025.
struct quadratic_with_tolerance {
  ballast::tokens tolerance = 16384;

  void operator()(ballast::partition_problem const& problem, std::span<ballast::cost_units> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace& memory) const
  {
    auto scratch = memory.open();
    std::span<packed_bag> const bags = scratch.take<packed_bag>(loads.size());
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      bags[bag] = {0, 0, 0, problem.speeds[bag], static_cast<std::uint32_t>(bag)};
    }
    std::sort(bags.begin(), bags.end(), [&problem](packed_bag const& a, packed_bag const& b) {
      return std::pair(problem.gpus[a.index], a.index) < std::pair(problem.gpus[b.index], b.index);
    });
    std::span<std::span<packed_bag>> heaps = scratch.take<std::span<packed_bag>>(bags.size());
    std::size_t sizes = 0;
    for (std::size_t first = 0; first < bags.size();) {
      std::size_t last = first;
      std::uint32_t const gpus = problem.gpus[bags[first].index];
      while (last < bags.size() && problem.gpus[bags[last].index] == gpus) { ++last; }
      heaps[sizes++] = bags.subspan(first, last - first);  // of empty bags by number: a heap
      first = last;
    }
    heaps = heaps.first(sizes);

    for (auto const [cost, sample] : problem.heaviest_first) {
      ballast::tokens const length = problem.lengths[ballast::to_index(sample)];
      std::span<packed_bag> heap = heaps.front();
      for (std::span<packed_bag> const other : heaps.subspan(1)) {
        if (!problem.fits(ballast::to_index(sample), other.front().index)) { break; }
        if (goes_after(heap.front(), other.front())) { heap = other; }
      }
      std::pop_heap(heap.begin(), heap.end(), goes_after);
      heap.back().add(length, tolerance);
      owner[ballast::to_index(sample)] = ballast::to_id<ballast::bag_id>(heap.back().index);
      loads[heap.back().index] += cost;
      std::push_heap(heap.begin(), heap.end(), goes_after);
    }
  }

  friend bool operator==(quadratic_with_tolerance, quadratic_with_tolerance) = default;

 private:
  struct packed_bag {
    ballast::uint128 squares;
    ballast::tokens length;
    ballast::tokens multiples;  // of the tolerance, in length / speed
    std::uint32_t speed;
    std::uint32_t index;

    void add(ballast::tokens more, ballast::tokens quantum) noexcept
    {
      auto const side = static_cast<std::uint64_t>(more);
      squares += ballast::uint128{side} * side;
      length += more;
      multiples = length / speed / quantum;
    }
  };

  // A heap keeps in front what goes after nothing else.
  [[nodiscard]] static bool goes_after(packed_bag const& a, packed_bag const& b) noexcept
  {
    if (a.multiples != b.multiples) { return a.multiples > b.multiples; }
    // Below 2^94 by below 2^32.
    ballast::uint128 const squares_a = a.squares * b.speed;
    ballast::uint128 const squares_b = b.squares * a.speed;
    return squares_a > squares_b || (squares_a == squares_b && a.index > b.index);
  }
};

}  // namespace baselines
