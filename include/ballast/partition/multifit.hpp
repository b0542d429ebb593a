// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_MULTIFIT_HPP
#define BALLAST_PARTITION_MULTIFIT_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/inner_plan.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// Bins in a row by the room they have left: every node of a binary tree knows the most room below
/// it, so one descent finds the first bin with enough.
///
/// Ensures     (1) first_with(weight) is the first bin whose room is at least weight, or the number
///                 of bins if no bin has that much
/// Complexity  O(bins) to fill, O(log bins) to find and to take; at most 32 bytes of scratch per
///             bin.
/// Source      D. S. Johnson, "Near-Optimal Bin Packing Algorithms", PhD thesis, MIT, 1973.
class first_fit_tree {
 public:
  first_fit_tree(std::size_t bins, workspace::frame& scratch)
      : bins_(bins),
        leaves_(std::bit_ceil(std::max<std::size_t>(bins, 1))),
        room_(scratch.take<std::int64_t>(2 * leaves_))
  {}

  /// Gives every bin the room that `room_of(bin)` returns, which is not negative.
  template <class RoomOf>
  void fill(RoomOf const& room_of)
  {
    for (std::size_t bin = 0; bin < leaves_; ++bin) {
      room_[leaves_ + bin] = bin < bins_ ? static_cast<std::int64_t>(room_of(bin)) : no_bin;
    }
    for (std::size_t node = leaves_; node-- > 1;) { room_[node] = most_below(node); }
  }

  /// Expects that weight is not negative.
  [[nodiscard]] std::size_t first_with(std::int64_t weight) const noexcept
  {
    if (room_[1] < weight) { return bins_; }
    std::size_t node = 1;
    while (node < leaves_) { node = 2 * node + (room_[2 * node] < weight ? 1 : 0); }
    return node - leaves_;
  }

  /// Takes room of a bin that has it.
  void take(std::size_t bin, std::int64_t weight) noexcept
  {
    std::size_t node = leaves_ + bin;
    room_[node] -= weight;
    while (node > 1) {
      node /= 2;
      std::int64_t const most = most_below(node);
      if (room_[node] == most) { break; }
      room_[node] = most;
    }
  }

  [[nodiscard]] std::int64_t room(std::size_t bin) const noexcept { return room_[leaves_ + bin]; }

 private:
  static constexpr std::int64_t no_bin = -1;

  [[nodiscard]] std::int64_t most_below(std::size_t node) const noexcept
  {
    return std::max(room_[2 * node], room_[2 * node + 1]);
  }

  std::size_t bins_;
  std::size_t leaves_;
  std::span<std::int64_t> room_;
};

}  // namespace detail

/// Bisects the makespan: can first fit decreasing pack all samples into bags that stop by then?
///
/// A probe puts every sample, heaviest first, in the first bag that has room for it before the
/// probe's time; bags are in increasing order of size and then of speed, so that the fast ones are
/// left for what has room nowhere else. The search begins between the lower bound and the plan of
/// longest_processing_time, and keeps that plan if no probe finds a better one. It is best with few
/// samples per bag, where what a bag leaves empty matters most.
///
/// Units       the times of probes are whole loads of the fastest bag.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the makespan is not above that of longest_processing_time
///             (4) from empty bags of one kind, makespan <= (13/11 + 2^-iterations) * optimum, and
///                 13/11 * optimum with enough iterations to narrow the search to one time
///             (5) it returns the lower bound
/// Complexity  O((n + m) log m) per iteration; 4 n + 40 m bytes of scratch besides the bound's.
/// Source      E. G. Coffman, M. R. Garey, D. S. Johnson, "An Application of Bin-Packing to
///             Multiprocessor Scheduling", SIAM J. Comput. 7(1):1-17, 1978; (4) M. Yue, "On the
///             Exact Upper Bound for the Multifit Processor Scheduling Algorithm", Annals of
///             Operations Research 24:233-259, 1990; several speeds D. K. Friesen, M. A. Langston,
///             "Bounds for Multifit Scheduling on Uniform Processors", SIAM J. Comput. 12(1):60-70,
///             1983.
struct multifit {
  std::uint32_t iterations = 10;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    auto scratch = memory.open();
    auto const [starts, bound] =
        detail::run_inner_policy(longest_processing_time{}, problem, loads, owner, memory, scratch);

    std::span<std::uint32_t> const order = scratch.take<std::uint32_t>(loads.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::sort(order.begin(), order.end(), [&problem](std::uint32_t a, std::uint32_t b) {
      return detail::precedes(problem.gpus[a], problem.gpus[b], problem.speeds[a],
                              problem.speeds[b], a, b);
    });
    detail::first_fit_tree rooms(loads.size(), scratch);
    std::span<bag_id> const tried = scratch.take<bag_id>(owner.size());

    std::uint32_t const fastest = *std::max_element(problem.speeds.begin(), problem.speeds.end());
    cost_units least = work_at(bound, fastest);
    cost_units found = work_at(makespan_of(loads, problem.speeds), fastest);
    for (std::uint32_t left = iterations; left > 0 && least < found; --left) {
      cost_units const middle = std::midpoint(least, found);
      ratio const time{middle, fastest};
      if (!fits_by(time, problem, starts, order, rooms, tried)) {
        least = middle + 1;
        continue;
      }
      std::copy(tried.begin(), tried.end(), owner.begin());
      for (std::size_t place = 0; place < order.size(); ++place) {
        std::uint32_t const bag = order[place];
        loads[bag] = detail::work_until(time, problem.speeds[bag]) - rooms.room(place);
      }
      found = std::min(middle, work_at(makespan_of(loads, problem.speeds), fastest));
    }
    return bound;
  }

  friend bool operator==(multifit const&, multifit const&) = default;

 private:
  /// First fit decreasing before `time`. Returns whether every sample found room.
  [[nodiscard]] static bool fits_by(ratio time, partition_problem const& problem,
                                    std::span<cost_units const> starts,
                                    std::span<std::uint32_t const> order,
                                    detail::first_fit_tree& rooms, std::span<bag_id> owner)
  {
    rooms.fill([&](std::size_t place) {
      return detail::work_until(time, problem.speeds[order[place]]) - starts[order[place]];
    });
    std::uint32_t const smallest = problem.gpus[order.front()];
    for (auto const [cost, sample] : problem.heaviest_first) {
      std::size_t const place = rooms.first_with(cost);
      if (place == order.size()) { return false; }
      std::uint32_t const gpus = problem.gpus[order[place]];
      // Bags before this one have no room, and those behind it are no smaller.
      if (gpus > smallest && !partition_problem::splits(problem.lengths[to_index(sample)], gpus)) {
        return false;
      }
      rooms.take(place, cost);
      owner[to_index(sample)] = to_id<bag_id>(order[place]);
    }
    return true;
  }

  /// The least whole load with which a bag of this speed finishes no earlier than `time`.
  [[nodiscard]] static cost_units work_at(ratio time, std::uint32_t speed) noexcept
  {
    cost_units const work = detail::work_until(time, speed);
    return ratio{work, speed} < time ? work + 1 : work;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_MULTIFIT_HPP
