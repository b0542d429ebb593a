// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/cost_vector_lower_bound.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// Depth-first search for plans that are better than a plan: the latest of the times at which
/// quantities finish is earlier, or that one is as late and the next latest is earlier, and so on
/// over the first `compared` of them.
///
/// Samples go by falling largest cost, each to the bin that then finishes first, and then to the
/// others; of bins that are alike it tries one.
template <std::size_t D>
class vector_enumeration {
 public:
  vector_enumeration(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                     std::span<priced_sample const> order, std::size_t compared,
                     workspace::frame& scratch)
      : problem_(problem),
        order_(order),
        compared_(static_cast<std::ptrdiff_t>(compared)),
        loads_(scratch.take<cost_vector<D>>(starts.size())),
        most_(scratch.take<cost_units>(starts.size())),
        held_(scratch.take<std::int64_t>(problem.capacities.size())),
        choices_(scratch.take<std::uint32_t>(order.size() * starts.size())),
        next_(scratch.take<std::uint32_t>(order.size())),
        end_(scratch.take<std::uint32_t>(order.size())),
        chosen_(scratch.take<std::uint32_t>(order.size())),
        finishes_(scratch.take<finishes<D>>(order.size() + 1))
  {
    std::copy(starts.begin(), starts.end(), loads_.begin());
    std::fill(held_.begin(), held_.end(), 0);
    finishes_[0] = finishes_of<D>(problem, starts);
  }

  /// Improves a plan of samples that all have a bin, until no plan is better, it is at the bounds,
  /// the latest first, or the work is spent. A unit of work is a bin looked at. Returns the best
  /// lower bound of the makespan that is known then.
  ratio improve(finishes<D> const& bounds, work_budget& work, std::span<cost_vector<D>> loads,
                std::span<bag_id> owner)
  {
    beat(loads);
    std::size_t depth = 0;
    list_choices(depth, work);
    while (is_better(bounds) && !work.spent()) {
      if (next_[depth] == end_[depth]) {
        if (depth == 0) { return best_[0]; }
        remove(--depth);
        continue;
      }
      chosen_[depth] = choices_[depth * loads_.size() + next_[depth]++];
      add(depth);
      if (!is_better(latest_first(finishes_[depth + 1]))) {
        remove(depth);
        continue;
      }
      if (++depth < order_.size()) {
        list_choices(depth, work);
        continue;
      }
      for (std::size_t placed = 0; placed < depth; ++placed) {
        owner[to_index(order_[placed].sample)] = to_id<bag_id>(chosen_[placed]);
      }
      std::copy(loads_.begin(), loads_.end(), loads.begin());
      beat(loads);
      // The bins that make it as late cannot stay as they are.
      do {
        remove(--depth);
      } while (depth > 0 && !is_better(latest_first(finishes_[depth])));
    }
    return bounds[0];
  }

 private:
  [[nodiscard]] static finishes<D> latest_first(finishes<D> times)
  {
    std::sort(times.begin(), times.end(), std::greater{});
    return times;
  }

  /// Whether such times, the latest first, are better than those of the plan to beat.
  [[nodiscard]] bool is_better(finishes<D> const& times) const
  {
    return std::lexicographical_compare(times.begin(), times.begin() + compared_, best_.begin(),
                                        best_.begin() + compared_);
  }

  /// Takes a plan as the one to beat.
  void beat(std::span<cost_vector<D> const> loads)
  {
    best_ = latest_first(finishes_of<D>(problem_, loads));
    for (std::size_t bin = 0; bin < most_.size(); ++bin) {
      most_[bin] = compared_ == 1 ? work_before(best_[0], problem_.speed(bin))
                                  : work_until(best_[0], problem_.speed(bin));
    }
  }

  /// The bin's largest load with the sample at this depth.
  [[nodiscard]] cost_units largest_with(std::size_t depth, std::size_t bin) const
  {
    cost_vector<D> const& cost = problem_.costs[to_index(order_[depth].sample)];
    cost_units largest = 0;
    for (std::size_t d = 0; d < D; ++d) { largest = std::max(largest, loads_[bin][d] + cost[d]); }
    return largest;
  }

  void add(std::size_t depth)
  {
    change(depth, 1);
    finishes_[depth + 1] = finishes_[depth];
    for (std::size_t d = 0; d < D; ++d) {
      ratio& latest = finishes_[depth + 1][d];
      latest = std::max(latest, ratio{loads_[chosen_[depth]][d], problem_.speed(chosen_[depth])});
    }
  }
  void remove(std::size_t depth) { change(depth, -1); }

  void change(std::size_t depth, std::int64_t sign)
  {
    std::size_t const sample = to_index(order_[depth].sample);
    std::size_t const bin = chosen_[depth];
    for (std::size_t d = 0; d < D; ++d) { loads_[bin][d] += sign * problem_.costs[sample][d]; }
    if (!held_.empty()) { held_[bin] += sign * problem_.weights[sample]; }
  }

  [[nodiscard]] std::int64_t room(std::size_t bin) const
  {
    return held_.empty() ? 0 : problem_.capacities[bin] - held_[bin];
  }
  [[nodiscard]] std::uint32_t gpus(std::size_t bin) const
  {
    return problem_.gpus.empty() ? 1 : problem_.gpus[bin];
  }

  void list_choices(std::size_t depth, work_budget& work)
  {
    std::size_t const sample = to_index(order_[depth].sample);
    auto* const first = choices_.data() + depth * loads_.size();
    auto* last = first;
    for (std::size_t bin = 0; bin < loads_.size(); ++bin) {
      if (problem_.fits(sample, bin) && largest_with(depth, bin) <= most_[bin] &&
          (held_.empty() || problem_.weights[sample] <= room(bin))) {
        *last++ = static_cast<std::uint32_t>(bin);
      }
    }
    std::sort(first, last, [&](std::uint32_t a, std::uint32_t b) {
      auto const finish = [&](std::uint32_t bin) {
        return ratio{largest_with(depth, bin), problem_.speed(bin)};
      };
      return precedes(finish(a), finish(b), loads_[a], loads_[b], room(b), room(a), gpus(a),
                      gpus(b), problem_.speed(a), problem_.speed(b), a, b);
    });
    last = std::unique(first, last, [&](std::uint32_t a, std::uint32_t b) {
      return loads_[a] == loads_[b] && room(a) == room(b) && gpus(a) == gpus(b) &&
             problem_.speed(a) == problem_.speed(b);
    });
    next_[depth] = 0;
    end_[depth] = static_cast<std::uint32_t>(last - first);
    work.spend(loads_.size());
  }

  cost_vector_problem<D> const& problem_;
  std::span<priced_sample const> order_;
  std::ptrdiff_t compared_;  // quantities
  finishes<D> best_{};       // of the plan to beat, the latest first
  std::span<cost_vector<D>> loads_;
  std::span<cost_units> most_;  // with which each bin may finish before the plan to beat
  std::span<std::int64_t> held_;
  std::span<std::uint32_t> choices_;  // samples x bins
  std::span<std::uint32_t> next_;
  std::span<std::uint32_t> end_;
  std::span<std::uint32_t> chosen_;
  std::span<finishes<D>> finishes_;  // by depth, of the samples that are placed
};

/// Searches for the best plan by several quantities from one that keeps to the capacities, until
/// none is better, it is at the bound, or `nodes` are used up; then, as long, among plans of that
/// makespan for one whose other quantities finish earliest, the latest of them first. Returns a
/// time before which no plan finishes.
template <std::size_t D>
ratio enumerate_vectors(cost_vector_problem<D> const& problem,
                        std::span<cost_vector<D> const> starts, std::span<cost_vector<D>> loads,
                        std::span<bag_id> owner, std::uint64_t nodes, workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_units> const largest = scratch.take<cost_units>(owner.size());
  std::transform(
      problem.costs.begin(), problem.costs.end(), largest.begin(),
      [](cost_vector<D> const& cost) { return *std::max_element(cost.begin(), cost.end()); });
  std::span<priced_sample> const order = scratch.take<priced_sample>(owner.size());
  descending_order_into(order, largest, memory);
  finishes<D> bounds = least_finishes<D>(problem, sum_of<D>(loads), loads.size());
  std::sort(bounds.begin(), bounds.end(), std::greater{});
  bounds[0] = cost_vector_lower_bound<D>(problem, loads.size(), memory, starts);
  auto const search = [&](std::size_t compared) {
    work_budget work(nodes);
    return vector_enumeration<D>(problem, starts, order, compared, scratch)
        .improve(bounds, work, loads, owner);
  };
  bounds[0] = search(1);
  if constexpr (D > 1) { search(D); }
  return bounds[0];
}

}  // namespace ballast::inline v0::detail
