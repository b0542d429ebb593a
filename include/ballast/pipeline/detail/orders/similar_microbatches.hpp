// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_SIMILAR_MICROBATCHES_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_SIMILAR_MICROBATCHES_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/microbatch_kinds.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_SIMILAR_MICROBATCHES_HPP
