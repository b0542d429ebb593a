// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PADDING_PADDED_FILLING_HPP
#define BALLAST_PARTITION_DETAIL_PADDING_PADDED_FILLING_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Samples that are padded to the first of them, which is the heaviest, and the bag they are for.
struct padded_batch {
  std::size_t bag;
  std::span<priced_sample const> samples;

  [[nodiscard]] cost_units load() const noexcept
  {
    return static_cast<cost_units>(samples.size()) * samples.front().cost;
  }

  /// How many of the samples that wait, heaviest first, go into a batch of at most this work.
  [[nodiscard]] static std::size_t most_samples(std::span<priced_sample const> waiting,
                                                cost_units work) noexcept
  {
    cost_units const largest = waiting.front().cost;
    if (largest == 0) { return waiting.size(); }
    return std::min(waiting.size(),
                    static_cast<std::size_t>(work) / static_cast<std::size_t>(largest));
  }
};

/// Fills bag after bag with samples in descending order of cost, each as full as a finishing time
/// allows when its samples are padded to the heaviest of them.
///
/// It fills the bags with the most GPUs first, and of one size the fastest first. Each bag begins
/// with the heaviest sample that waits and fits it, takes as many of those that follow as it has
/// time for, and leaves the rest to the bags after it. A bag without time for one sample stays as
/// it is. Told to keep capacities, each takes no more samples than it holds, padded to the weight
/// of the first; where some are then left at every time, outcome.next is the largest number.
///
/// Expects     a valid partition_problem; n times the largest cost is below 2^63; a time to fill to
///             is not before times.least().
/// Ensures     (1) every time from outcome.finish to before outcome.next gives the same batches
///             (2) nothing is left at times.enough()
/// Complexity  O((n + m) log m) to build and O(m) to fill, with k sizes of bags O(m + k n); 36 m
///             bytes of scratch, with several sizes 52 n more.
class padded_filling {
 public:
  struct outcome {
    std::span<priced_sample const> left;  ///< without room; valid until the next filling
    uint128 finish = 0;                   ///< when the last bag that got samples finishes
    uint128 next = std::numeric_limits<uint128>::max();  ///< when some bag could take one more

    [[nodiscard]] bool placed() const noexcept { return left.empty(); }
  };

  padded_filling(partition_problem const& problem, finishing_times const& times,
                 workspace::frame& scratch)
      : times_(times),
        bags_(scratch.take<std::uint32_t>(problem.gpus.size())),
        sizes_(scratch.take<bags_of_size>(problem.gpus.size()))
  {
    std::iota(bags_.begin(), bags_.end(), std::uint32_t{0});
    std::sort(bags_.begin(), bags_.end(), [&problem](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.gpus[b], problem.gpus[a], problem.speeds[b], problem.speeds[a], a, b);
    });
    std::size_t sizes = 0;
    for (std::size_t first = 0; first < bags_.size();) {
      std::uint32_t const gpus = problem.gpus[bags_[first]];
      std::size_t last = first;
      while (last < bags_.size() && problem.gpus[bags_[last]] == gpus) { ++last; }
      sizes_[sizes++] = {gpus, bags_.subspan(first, last - first), {}};
      first = last;
    }
    sizes_ = sizes_.first(sizes);
    if (sizes == 1) {
      sizes_.front().fitting = problem.heaviest_first;
    } else {
      group_by_largest_fit(problem, scratch);
    }
  }

  /// From now on bags keep to the capacities of a problem, which outlives this.
  ///
  /// Expects     weights do not increase along heaviest_first.
  void keep_capacities(partition_problem const& problem) noexcept { limited_ = &problem; }

  /// The bags in the order in which they are filled, which may be changed where all_fit().
  [[nodiscard]] std::span<std::uint32_t> order() const noexcept { return bags_; }

  /// Calls place(padded_batch) for each bag that gets samples.
  template <class Place>
  outcome fill(uint128 time, Place const& place)
  {
    outcome filled;
    std::span<priced_sample const> waiting;
    bool into_first = true;  // a merge reads one of the two buffers and writes the other
    for (bags_of_size const& size : sizes_) {
      if (waiting.empty()) {
        waiting = size.fitting;
      } else if (!size.fitting.empty()) {
        std::span<priced_sample> const merged =
            merged_[into_first ? 0 : 1].first(waiting.size() + size.fitting.size());
        std::merge(waiting.begin(), waiting.end(), size.fitting.begin(), size.fitting.end(),
                   merged.begin(), heavier);
        waiting = merged;
        into_first = !into_first;
      }
      for (std::uint32_t const bag : size.bags) {
        if (waiting.empty()) { break; }
        std::size_t const in_time =
            padded_batch::most_samples(waiting, times_.work_until(time, bag));
        std::size_t const held = most_held(bag, waiting);
        std::size_t const taken = std::min(in_time, held);
        padded_batch const batch{bag, waiting.first(taken)};
        if (taken < waiting.size() && taken < held) {
          padded_batch const fuller{bag, waiting.first(taken + 1)};
          filled.next = std::min(filled.next, times_.finish(bag, fuller.load()));
        }
        if (taken == 0) { continue; }
        filled.finish = std::max(filled.finish, times_.finish(bag, batch.load()));
        place(batch);
        waiting = waiting.subspan(taken);
      }
    }
    filled.left = waiting;
    return filled;
  }

  /// Whether every sample fits every bag, so that sizes are no obstacle.
  [[nodiscard]] bool all_fit() const noexcept
  {
    return std::all_of(sizes_.begin() + 1, sizes_.end(),
                       [](bags_of_size const& size) { return size.fitting.empty(); });
  }

 private:
  struct bags_of_size {
    std::uint32_t gpus;
    std::span<std::uint32_t const> bags;
    std::span<priced_sample const> fitting;  // these bags and no larger ones, heaviest first
  };

  [[nodiscard]] std::size_t most_held(std::size_t bag, std::span<priced_sample const> waiting) const
  {
    if (limited_ == nullptr) { return waiting.size(); }
    std::int64_t const weight = limited_->weights[to_index(waiting.front().sample)];
    return weight == 0 ? waiting.size()
                       : static_cast<std::size_t>(limited_->capacities[bag] / weight);
  }

  [[nodiscard]] static bool heavier(priced_sample a, priced_sample b) noexcept
  {
    return a.cost > b.cost || (a.cost == b.cost && a.sample < b.sample);
  }

  // A counting sort, which leaves the samples of a size in their order.
  void group_by_largest_fit(partition_problem const& problem, workspace::frame& scratch)
  {
    std::size_t const samples = problem.heaviest_first.size();
    for (auto& buffer : merged_) { buffer = scratch.take<priced_sample>(samples); }
    std::span<priced_sample> const grouped = scratch.take<priced_sample>(samples);
    std::span<std::uint32_t> const size_of = scratch.take<std::uint32_t>(samples);
    std::span<std::uint32_t> const first = scratch.take<std::uint32_t>(sizes_.size() + 1);
    std::fill(first.begin(), first.end(), 0);
    for (std::size_t place = 0; place < samples; ++place) {
      tokens const length = problem.lengths[to_index(problem.heaviest_first[place].sample)];
      auto const fitting =
          std::partition_point(sizes_.begin(), sizes_.end(), [length](bags_of_size const& size) {
            return !partition_problem::splits(length, size.gpus);
          });
      size_of[place] = static_cast<std::uint32_t>(fitting - sizes_.begin());
      ++first[size_of[place] + 1];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    for (std::size_t size = 0; size < sizes_.size(); ++size) {
      sizes_[size].fitting = grouped.subspan(first[size], first[size + 1] - first[size]);
    }
    for (std::size_t place = 0; place < samples; ++place) {
      grouped[first[size_of[place]]++] = problem.heaviest_first[place];
    }
  }

  finishing_times const& times_;
  partition_problem const* limited_ = nullptr;
  std::span<std::uint32_t> bags_;
  std::span<bags_of_size> sizes_;
  std::array<std::span<priced_sample>, 2> merged_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PADDING_PADDED_FILLING_HPP
