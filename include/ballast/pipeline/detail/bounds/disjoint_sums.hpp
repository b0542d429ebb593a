// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_DISJOINT_SUMS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_DISJOINT_SUMS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// The most that n tasks of one column and k of another can take together, all of different
/// microbatches.
///
/// In a best choice no microbatch of the first column has a smaller difference of its two times
/// than one of the second, since exchanging the two would not be worse. So the microbatches are
/// sorted by their difference and cut in two, and each side gives its longest.
///
/// Shapes      first[l], second[l]: the two times of every microbatch.
/// Complexity  construction: O(l log l); most: O(l log l).
class disjoint_sums {
 public:
  /// Of no microbatches.
  disjoint_sums() = default;

  disjoint_sums(std::span<time_units const> first, std::span<time_units const> second,
                workspace::frame& scratch)
      : first_(first),
        second_(second),
        order_(scratch.take<std::uint32_t>(first.size())),
        kept_(scratch.take<time_units>(first.size())),
        sums_(scratch.take<time_units>(first.size() + 1))
  {
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      time_units const of_a = first_[a] - second_[a];
      time_units const of_b = first_[b] - second_[b];
      return of_a != of_b ? of_a > of_b : a < b;
    });
  }

  /// The most for n + k microbatches other than `left_out`. Expects that there are so many.
  [[nodiscard]] time_units most(std::size_t n, std::size_t k, std::size_t left_out)
  {
    std::size_t const others = order_.size() - (left_out < order_.size() ? 1 : 0);
    BALLAST_EXPECTS(n + k <= others);
    longest kept{kept_, n};
    std::size_t taken = 0;
    sums_[0] = 0;
    for (std::uint32_t const at : order_) {
      if (at == left_out) { continue; }
      kept.add(first_[at]);
      sums_[++taken] = kept.sum;
    }
    kept = {kept_, k};
    time_units most = 0;
    for (std::size_t left = order_.size(); left-- > 0;) {
      std::uint32_t const at = order_[left];
      if (taken >= n && others - taken >= k) { most = std::max(most, sums_[taken] + kept.sum); }
      if (at == left_out) { continue; }
      kept.add(second_[at]);
      --taken;
    }
    return n == 0 ? std::max(most, kept.sum) : most;
  }

 private:
  /// The sum of the longest of all times so far.
  struct longest {
    std::span<time_units> heap;  // of `most` times, the shortest in front
    std::size_t most;
    std::size_t size = 0;
    time_units sum = 0;

    void add(time_units time)
    {
      auto const end = [&] { return heap.begin() + static_cast<std::ptrdiff_t>(size); };
      if (size == most) {
        if (most == 0 || time <= heap[0]) { return; }
        std::pop_heap(heap.begin(), end(), std::greater{});
        sum -= heap[--size];
      }
      heap[size++] = time;
      sum += time;
      std::push_heap(heap.begin(), end(), std::greater{});
    }
  };

  std::span<time_units const> first_;
  std::span<time_units const> second_;
  std::span<std::uint32_t> order_;  // by difference, largest first
  std::span<time_units> kept_;
  std::span<time_units> sums_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_DISJOINT_SUMS_HPP
