// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_MIX_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_MIX_SEARCH_HPP

#include <ballast/core/detail/radix_sort.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/detail/bag_places.hpp>
#include <ballast/parallelism/detail/mix_batches.hpp>
#include <ballast/parallelism/detail/mix_step.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// A mix and the sum of its steps, one for each batch. The shorter sum comes first, and of equal
/// sums the mix with more of the smaller bags.
struct summed_mix {
  step_eighths sum;
  bag_mix mix;

  friend bool operator<(summed_mix const& a, summed_mix const& b)
  {
    return precedes(a.sum, b.sum, b.mix, a.mix);
  }
};

/// Looks for the mix with the least sum of steps.
///
/// Of every size, the mix with as many bags of it as fit is priced first. Where there are few mixes
/// all are candidates; where there are many, those in which every size has a multiple of `grid`
/// GPUs. Candidates are priced in the order of a bound, each only until it is seen to be longer
/// than the best so far, and not at all where the bound says so. Where not all were candidates,
/// GPUs are then moved between sizes of the best mixes, half as many each time that this does not
/// help.
///
/// Expects     kept >= 1.
/// Ensures     (1) of every size, the mix with the most bags is priced completely, if it is allowed
///             (2) without a limit on the work, and with all mixes as candidates, the first `kept`
///                 are the best ones
/// Complexity  `work` placements of a sample, and a few mixes more.
class mix_search {
 public:
  mix_search(mix_batches const& data, bag_places const& places, bool admits_short, std::size_t kept,
             std::uint64_t work)
      : data_(data),
        places_(places),
        admits_short_(admits_short),
        kept_(kept),
        budget_(work),
        steps_(data.exchanges),
        bounds_(data.batches.size()),
        order_(data.batches.size())
  {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  /// All mixes that were priced completely, best first.
  [[nodiscard]] std::vector<summed_mix> run(std::uint64_t most_candidates)
  {
    for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
      try_mix(places_.most_of(size), over_the_limit);
    }
    std::vector<summed_mix> candidates;
    auto const add = [&](bag_mix const& mix) { add_candidate(candidates, mix); };
    if (places_.count(most_candidates + 1) <= most_candidates) {
      places_.for_each(1, add);
      proven_ = price(candidates, 0);
      return std::move(priced_);
    }
    kept_ = 1;
    std::uint32_t grid = bag_mix::largest;
    while (places_.gpus() / grid > 16) { grid *= 2; }
    places_.for_each(grid, add);
    (void)price(candidates, budget_.left() / 2);
    improve(grid);
    return std::move(priced_);
  }

  /// Whether no mix is better than the best of run().
  [[nodiscard]] bool proven() const noexcept { return proven_; }

  /// Samples that were placed.
  [[nodiscard]] std::uint64_t placed() const noexcept { return placed_; }

 private:
  [[nodiscard]] bool allowed(bag_mix const& mix) const noexcept
  {
    std::size_t smallest = 0;
    while (mix.bags[smallest] == 0) { ++smallest; }
    return admits_short_ || data_.shortest >= bag_mix::gpus_of(smallest);
  }

  [[nodiscard]] step_eighths bound_of(bag_mix const& mix)
  {
    step_eighths sum = 0;
    for (std::size_t batch = 0; batch < bounds_.size(); ++batch) {
      bounds_[batch] = step_bound(mix, data_.batches[batch], data_.exchanges);
      sum += bounds_[batch];
    }
    budget_.spend(4 * bounds_.size());
    return sum;
  }

  /// What a mix has to come before to be among those that are kept.
  [[nodiscard]] summed_mix worst_kept() const
  {
    return priced_.size() < kept_ ? summed_mix{over_the_limit, {}} : priced_[kept_ - 1];
  }

  [[nodiscard]] bool is_tried(bag_mix const& mix) const
  {
    return std::binary_search(tried_.begin(), tried_.end(), mix);
  }

  void add_candidate(std::vector<summed_mix>& candidates, bag_mix const& mix)
  {
    if (!allowed(mix) || is_tried(mix)) { return; }
    summed_mix const bounded{bound_of(mix), mix};
    if (bounded < worst_kept()) { candidates.push_back(bounded); }
  }

  /// Prices candidates in the order of their bounds, until so much work is left. Returns whether
  /// all that could be kept were.
  bool price(std::vector<summed_mix>& candidates, std::uint64_t work_left)
  {
    std::sort(candidates.begin(), candidates.end(),
              [](summed_mix const& a, summed_mix const& b) { return a < b; });
    for (summed_mix const& candidate : candidates) {
      if (!(candidate < worst_kept())) { return true; }
      if (budget_.left() <= work_left) { return false; }
      try_mix(candidate.mix, worst_kept().sum);
    }
    return true;
  }

  /// Prices a mix, as long as its steps may add up to no more than the limit.
  void try_mix(bag_mix const& mix, step_eighths limit)
  {
    if (!allowed(mix) || is_tried(mix)) { return; }
    insert_ordered(tried_, mix, [](auto const& a, auto const& b) { return a < b; });
    step_eighths rest = bound_of(mix);
    summed_mix tried{0, mix};
    for (std::size_t place = 0; place < order_.size(); ++place) {
      std::size_t const batch = order_[place];
      rest -= bounds_[batch];
      std::uint64_t const placed_before = placed_;
      step_eighths const step =
          tried.sum + rest > limit
              ? over_the_limit
              : steps_.plan(mix, data_.batches[batch],
                            limit == over_the_limit ? limit : limit - tried.sum - rest, placed_);
      budget_.spend(placed_ - placed_before);
      if (step == over_the_limit) {
        // What is too long for one mix is often too long for the next: that batch goes first.
        for (; place > 0; --place) { order_[place] = order_[place - 1]; }
        order_[0] = batch;
        return;
      }
      tried.sum += step;
    }
    insert_ordered(priced_, tried, [](auto const& a, auto const& b) { return a < b; });
  }

  /// Moves GPUs between sizes, from the best mix; where that helps no more, from the next best.
  void improve(std::uint32_t grid)
  {
    for (std::size_t place = 0; place < priced_.size() && !budget_.spent();) {
      bag_mix const best = priced_.front().mix;
      bag_mix const from = priced_[place].mix;
      for (std::uint32_t gpus = grid; gpus >= 1 && best == priced_.front().mix; gpus /= 2) {
        std::vector<summed_mix> candidates;
        add_neighbours(candidates, from, gpus);
        (void)price(candidates, 0);
      }
      place = best == priced_.front().mix ? place + 1 : 0;
    }
  }

  /// The mixes in which so many GPUs, or those of one bag, have gone from one size to another.
  void add_neighbours(std::vector<summed_mix>& candidates, bag_mix const& from, std::uint32_t gpus)
  {
    for (std::size_t to = 0; to < bag_mix::sizes; ++to) {
      for (std::size_t of = 0; of < bag_mix::sizes; ++of) {
        std::uint32_t const moved = std::max({gpus, bag_mix::gpus_of(to), bag_mix::gpus_of(of)});
        if (of == to || from.bags[of] < moved >> of) { continue; }
        bag_mix next = from;
        next.bags[of] -= moved >> of;
        next.bags[to] += moved >> to;
        if (places_.complete(next)) { add_candidate(candidates, next); }
      }
    }
  }

  mix_batches const& data_;
  bag_places const& places_;
  bool admits_short_;
  std::size_t kept_;
  work_budget budget_;
  mix_steps steps_;
  std::vector<step_eighths> bounds_;  // of the mix that was bounded last, by batch
  std::vector<std::size_t> order_;    // of batches
  std::vector<bag_mix> tried_;        // in order
  std::vector<summed_mix> priced_;    // completely, best first
  std::uint64_t placed_ = 0;
  bool proven_ = false;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_MIX_SEARCH_HPP
