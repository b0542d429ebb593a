// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/packing/detail/bins_by_room.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>

namespace ballast::inline v0 {

/// Fills one bin after the other, heaviest sample first; as soon as one, two or three samples fill
/// exactly what is left, it takes these.
///
/// Without the exact fills it would be first fit decreasing, whose bins are the same when filled
/// one after the other. Full bins waste nothing, so with many different weights the number of bins
/// often is the sum over the capacity, rounded up, and thereby proven.
///
/// Ensures     (1) every sample has one bin, no bin holds more than the capacity, none is empty
///             (2) of equal weights the first sample goes first
///             (3) above a capacity of 2^22 the packing is that of first_fit_decreasing
/// Complexity  O(n) after the sort that the problem brings, plus up to words_per_bin words of 64
///             pairs for every bin; some 5 bytes of scratch per unit of capacity, 4 per sample.
/// Source      restricts to three samples what MBS' searches for: K. Fleszar, K. S. Hindi, "New
///             Heuristics for One-Dimensional Bin-Packing", Computers & Operations Research
///             29(7):821-839, 2002, after J. N. D. Gupta, J. C. Ho, "A New Heuristic Algorithm for
///             the One-Dimensional Bin-Packing Problem", Production Planning & Control 10(6), 1999.
struct minimum_bin_slack {
  /// Of 64 pairs each, that the search for an exact fill reads.
  std::uint64_t words_per_bin = 1024;

  std::size_t operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    detail::expect_packing_arrays(problem, owner);
    if (problem.capacity > detail::bins_by_room::largest_capacity) {
      return first_fit_decreasing{}(problem, owner, memory);
    }
    auto scratch = memory.open();
    auto const weightless =
        std::find_if(problem.heaviest_first.begin(), problem.heaviest_first.end(),
                     [](priced_sample const& each) { return each.cost == 0; });
    std::span const heavy(problem.heaviest_first.begin(), weightless);
    std::fill(owner.begin(), owner.end(), bag_id{0});  // where samples of no weight stay
    if (heavy.empty()) { return owner.empty() ? 0 : 1; }

    detail::samples_by_weight waiting(problem.capacity, heavy, owner.size(), scratch);
    std::size_t bins = 0;
    for (std::size_t placed = 0; placed < heavy.size(); ++bins) {
      placed += fill(waiting, problem.capacity, owner, to_id<bag_id>(bins));
    }
    return bins;
  }

  friend bool operator==(minimum_bin_slack, minimum_bin_slack) = default;

 private:
  /// Fills one bin and returns with how many samples.
  std::size_t fill(detail::samples_by_weight& waiting, std::int64_t room, std::span<bag_id> owner,
                   bag_id bin) const
  {
    std::size_t placed = 0;
    detail::work_budget words(words_per_bin);
    auto const place = [&](std::int64_t weight) {
      owner[to_index(waiting.take(weight))] = bin;
      room -= weight;
      ++placed;
    };
    std::int64_t const lightest = waiting.lightest();
    std::int64_t const heaviest = waiting.heaviest_up_to(room);
    place(heaviest);
    while (room >= lightest) {
      std::int64_t const next = waiting.heaviest_up_to(room);
      if (next == waiting.none) { break; }
      if (next < room && !words.spent()) {
        std::int64_t const lighter = waiting.pair_of_sum(room, lightest, heaviest, words);
        if (lighter != waiting.none) {
          place(lighter);
          place(room);
          break;
        }
        place(first_of_three(waiting, room, next, lightest, heaviest, words));
        continue;
      }
      place(next);
    }
    return placed;
  }

  /// The heaviest sample that two others complete, if any is found; otherwise just the heaviest.
  static std::int64_t first_of_three(detail::samples_by_weight& waiting, std::int64_t room,
                                     std::int64_t next, std::int64_t lightest,
                                     std::int64_t heaviest, detail::work_budget& words)
  {
    if (room - next > 2 * heaviest) { return next; }
    std::int64_t const most = std::min(next, room - 2 * lightest);  // that leaves room for two
    if (most < lightest) { return next; }
    for (std::int64_t weight = waiting.heaviest_up_to(most);
         weight != waiting.none && !words.spent(); weight = waiting.heaviest_up_to(weight - 1)) {
      if (room - weight > 2 * heaviest) { break; }
      sample_id const tried = waiting.take(weight);
      bool const completed =
          waiting.pair_of_sum(room - weight, lightest, heaviest, words) != waiting.none;
      waiting.put_back(weight, tried);
      if (completed) { return weight; }
    }
    return next;
  }
};

}  // namespace ballast::inline v0
