// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_LEAST_MOVEMENT_HPP
#define BALLAST_PARTITION_LEAST_MOVEMENT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/movement/limited_bags.hpp>
#include <ballast/partition/detail/movement/relabel_bags.hpp>
#include <ballast/partition/detail/movement/return_home.hpp>
#include <ballast/partition/detail/movement/shed_excess.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/refine.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// Packs bags anew, heaviest sample first: a sample stays where it is if the heavier ones that
/// stayed or came there leave room for it, and otherwise goes to a bag that holds tokens of it and
/// has room, or else to the bag with most room.
///
/// The room of a bag is its limit less all that it holds, so samples go where there are few. Light
/// samples come last and fill the gaps, as in longest processing time. This finds plans where
/// samples are few and heavy; where they are many and light, `shed_excess` alone moves fewer
/// tokens.
///
/// Ensures     (1) every sample is in a bag that it may enter
/// Complexity  O(n m) at worst, of which O(n) moves of memory; a plan that keeps most samples at
///             home takes O(n + moved samples * m).
inline void fill_from_home(limited_bags& bags, workspace& memory)
{
  constexpr std::size_t most_tried = 64;
  std::span<bag_room const> const by_room = bags.by_room();
  auto scratch = memory.open();
  std::span<cost_units> const packed = scratch.take<cost_units>(by_room.size());
  for (std::uint32_t bag = 0; bag < packed.size(); ++bag) { packed[bag] = bags.starting_load(bag); }

  for (std::uint32_t sample = 0; sample < bags.samples(); ++sample) {
    auto const& it = bags[sample];
    auto const has_room = [&](std::uint32_t bag) {
      return it.cost <= bags.limit(bag) - packed[bag];
    };
    std::uint32_t to = it.bag;
    if (!has_room(to)) {
      tokens most = 0;
      bags.for_each_home(sample, [&](std::uint32_t home, tokens length) {
        if (length <= most || !has_room(home) || !bags.may_enter(sample, home)) { return; }
        most = length;
        to = home;
      });
    }
    if (to == it.bag && !has_room(to)) {
      std::size_t const last = by_room.size() - std::min(most_tried, by_room.size());
      bool found = false;
      for (std::size_t place = by_room.size(); place-- > last && !found;) {
        std::uint32_t const bag = by_room[place].bag;
        found = bag != it.bag && has_room(bag) && bags.may_enter(sample, bag);
        if (found) { to = bag; }
      }
    }
    packed[to] += it.cost;
    if (to != it.bag) { bags.move(sample, to); }
  }
}

}  // namespace detail

/// A plan nearly as good as the inner policy's that leaves most samples on the bags that hold them.
///
/// Most policies move almost every sample, even where loads are almost even before. This one starts
/// from home, with every sample in the bag that holds it. Bags above the limit give samples to bags
/// below it, or swap them for lighter ones, so that few tokens move. Where some bag stays above
/// the limit, it packs all bags anew, with as many samples at home as have room. Where that fails
/// too, it takes the inner policy's plan and exchanges what identical bags own. Then samples return
/// home as far as limits allow, and small steps begin again from random moves.
///
/// Expects     the inner policy neither pads nor restricts plans.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) makespan <= (1 + tolerance) * the inner policy's, exactly; where the problem has
///                 no homes the plan is the inner policy's
///             (4) it moves no more tokens than the inner policy's plan does; samples that stay
///                 together and lie in several bags move all but those of the bag that owns them
///             (5) it keeps to capacities where the inner policy does
/// Returns     what the inner policy has proven.
/// Complexity  the inner policy, and O(n log n + n m) with a small constant: O(m) is one move of
///             memory for each sample that changes bags; `work` bounds the search.
/// Source      G. Aggarwal, R. Motwani, A. Zhu, "The Load Rebalancing Problem", SPAA 2003, which
///             limits the movement and makes the makespan small.
template <partition_policy Inner = refine<longest_processing_time>>
struct least_movement {
  static_assert(packed_policy<Inner>,
                "least_movement moves samples between packed bags, and its inner policy pads them: "
                "use that policy by itself");
  static_assert(unrestricted_policy<Inner>,
                "least_movement changes how many samples a bag has, and its inner policy restricts "
                "its plans: use that policy by itself");

  [[no_unique_address]] Inner inner{};
  std::uint32_t tolerance_per_million = 5'000;  ///< of the inner policy's makespan
  std::uint64_t work = std::uint64_t{1} << 24;  ///< how many exchanges the search looks at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    BALLAST_EXPECTS(batching_of(inner) == batching::packed && !restricts_plans(inner),
                    "least_movement moves samples between packed bags, and its inner policy pads "
                    "them or restricts its plans");
    if (problem.home.empty()) { return run_policy(inner, problem, loads, owner, memory); }

    auto scratch = memory.open();
    std::span<cost_units> const starting_loads = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starting_loads.begin());
    ratio const proven = run_policy(inner, problem, loads, owner, memory);
    if (std::find(owner.begin(), owner.end(), to_id<bag_id>(loads.size())) != owner.end()) {
      return proven;
    }

    ratio const makespan = makespan_of(loads, problem.speeds);
    std::span<cost_units> const limits = scratch.take<cost_units>(loads.size());
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      limits[bag] = limit(makespan, problem.speeds[bag]);
    }
    detail::limited_bags bags(problem, starting_loads, limits, scratch);
    bags.place(owner);
    tokens const inner_moved = bags.moved();
    bring_back(bags, problem, starting_loads, owner, memory);
    if (!bags.within_limits() || bags.moved() >= inner_moved) {
      bags.place(owner);
      detail::work_budget left(work / 2);
      detail::return_home(bags, left);
    }
    if (bags.within_limits()) {
      detail::work_budget left(work / 2);
      detail::move_less(bags, left, memory);
    }
    if (bags.within_limits() && bags.moved() < inner_moved) { bags.store(owner, loads); }
    return proven;
  }

  /// The most that a bag of this speed may have, for a plan within the tolerance of a makespan.
  [[nodiscard]] cost_units limit(ratio makespan, std::uint32_t speed) const noexcept
  {
    // Below 2^128: the factors are below 2^63, 2^33 and 2^32.
    uint128 const product = uint128{static_cast<std::uint64_t>(makespan.numerator)} *
                            (std::uint64_t{1'000'000} + tolerance_per_million) * speed;
    uint128 const all = product / static_cast<std::uint64_t>(makespan.denominator) / 1'000'000U;
    constexpr auto most = std::numeric_limits<cost_units>::max();
    return all < static_cast<std::uint64_t>(most) ? static_cast<cost_units>(all) : most;
  }

  [[nodiscard]] static constexpr bool keeps_homes() noexcept { return true; }

  friend bool operator==(least_movement const&, least_movement const&) = default;

 private:
  void bring_back(detail::limited_bags& bags, partition_problem const& problem,
                  std::span<cost_units const> starting_loads, std::span<bag_id const> owner,
                  workspace& memory) const
  {
    detail::work_budget left(work);
    auto const half_of_work = [this] { return detail::work_budget(work / 2); };
    detail::work_budget half = half_of_work();
    bags.place(problem.home);
    if (!detail::shed_excess(bags, half, memory)) {
      left = half_of_work();
      bags.place(problem.home);
      detail::fill_from_home(bags, memory);
      if (!detail::shed_excess(bags, left, memory)) {
        auto scratch = memory.open();
        std::span<bag_id> const relabelled = scratch.take<bag_id>(owner.size());
        std::copy(owner.begin(), owner.end(), relabelled.begin());
        detail::relabel_bags(problem, starting_loads, relabelled, memory);
        bags.place(relabelled);
        left = half_of_work();
      }
    }
    detail::return_home(bags, left);
  }
};

least_movement() -> least_movement<>;
template <class Inner>
least_movement(least_movement<Inner>)
    -> least_movement<least_movement<Inner>>;  // without it, a copy of the inner one
template <class Inner>
least_movement(Inner) -> least_movement<Inner>;
template <class Inner>
least_movement(Inner, std::uint32_t) -> least_movement<Inner>;
template <class Inner>
least_movement(Inner, std::uint32_t, std::uint64_t) -> least_movement<Inner>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_LEAST_MOVEMENT_HPP
