// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PADDING_PADDED_COVER_HPP
#define BALLAST_PARTITION_DETAIL_PADDING_PADDED_COVER_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// How early bags of any speeds could finish padded batches if a bag could be used more than once,
/// as long as all uses together take no more speed than all bags have: no plan finishes before.
///
/// Some plan that meets a time consists of runs of heaviest_first, one per bag, each as long as the
/// bag has time for. So the runs that hold all samples and take the least speed together take no
/// more than all bags have. From the lightest sample back, these runs are found one by one.
///
/// Expects     a valid partition_problem; n times the largest cost is below 2^63.
/// Complexity  O(m log m) to build and O(kinds x n) for every time tried; 24 m + 8 n bytes of
///             scratch. Bags of one speed and one load to start with are of one kind.
class padded_cover {
 public:
  padded_cover(partition_problem const& problem, finishing_times const& times,
               workspace::frame& scratch)
      : samples_(problem.heaviest_first),
        times_(times),
        kinds_(scratch.take<kind>(problem.speeds.size())),
        least_(scratch.take<std::uint64_t>(problem.heaviest_first.size() + 1))
  {
    std::span<std::uint32_t> const bags = scratch.take<std::uint32_t>(problem.speeds.size());
    std::iota(bags.begin(), bags.end(), std::uint32_t{0});
    std::sort(bags.begin(), bags.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.speeds[b], problem.speeds[a], times.finish(a, 0), times.finish(b, 0),
                      a, b);
    });
    std::size_t kinds = 0;
    for (std::size_t place = 0; place < bags.size(); ++place) {
      std::uint32_t const bag = bags[place];
      all_speed_ += problem.speeds[bag];
      if (place > 0 && times.alike(bags[place - 1], bag)) { continue; }
      kinds_[kinds++] = {bag, problem.speeds[bag], 0, 0};
    }
    kinds_ = kinds_.first(kinds);
  }

  /// A time before which no plan finishes, by bisection up to that of a plan; 0 where samples and
  /// kinds are too many to try five times.
  [[nodiscard]] ratio bound(uint128 plan)
  {
    constexpr std::size_t most_looks = std::size_t{1} << 21;
    std::size_t const looks = kinds_.size() * samples_.size() + 1;
    if (looks * 5 > most_looks) { return {}; }
    uint128 low = times_.least();
    uint128 high = plan;
    for (std::size_t tried = std::min<std::size_t>(most_looks / looks, 8); tried > 0 && low < high;
         --tried) {
      uint128 const middle = low + (high - low) / 2;
      bool const holds = holds_all(middle);
      (holds ? high : low) = holds ? middle : middle + 1;
    }
    return times_.makespan_of_rounded(low);
  }

 private:
  struct kind {
    std::uint32_t bag;  // one of them
    std::uint32_t speed;
    std::uint64_t work;     // that one can do in time
    std::uint64_t samples;  // that one can take from some place on
  };

  [[nodiscard]] bool holds_all(uint128 time)
  {
    std::size_t const all = samples_.size();
    for (kind& each : kinds_) {
      each.work = static_cast<std::uint64_t>(times_.work_until(time, each.bag));
      each.samples = all;
    }
    least_[all] = 0;
    for (std::size_t first = all; first-- > 0;) {
      auto const cost = static_cast<std::uint64_t>(samples_[first].cost);
      std::uint64_t least = never;
      for (kind& each : kinds_) {
        if (each.samples * cost > each.work) { each.samples = each.work / cost; }
        if (each.samples == 0) { continue; }
        std::size_t const next = first + std::min<std::size_t>(each.samples, all - first);
        least = std::min(least, each.speed + least_[next]);
      }
      if (least == never) { return false; }
      least_[first] = least;
    }
    return least_[0] <= all_speed_;
  }

  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  std::span<priced_sample const> samples_;
  finishing_times const& times_;
  std::span<kind> kinds_;
  std::span<std::uint64_t> least_;  // the least speed that holds the samples from each place on
  std::uint64_t all_speed_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PADDING_PADDED_COVER_HPP
