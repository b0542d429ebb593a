// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PUBLISHED_ATTENTION_PADDED_BATCHES_HPP
#define BALLAST_PARTITION_PUBLISHED_ATTENTION_PADDED_BATCHES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/cheapest_chain.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/published/conv_transformer_batches.hpp>
#include <ballast/partition/published/detail/attention_bound.hpp>
#include <ballast/partition/published/detail/attention_exchanges.hpp>
#include <ballast/partition/published/detail/attention_filling.hpp>
#include <ballast/partition/published/detail/attention_items.hpp>
#include <ballast/partition/published/detail/attention_search.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Batches whose attention is padded to their longest sample while the rest of their work is
/// packed, with a small makespan and a certificate: b samples cost the sum of what else they cost
/// and b times the largest attention part. With `quadratic_cost{1, lambda}` that is
/// sum l + lambda b max l^2.
///
/// Bags are filled in descending order of attention up to a finishing time, the least one that
/// bisection finds. Exchanges then relieve the bag that finishes last, there and in the plans of
/// conv_transformer_batches and longest_processing_time. The best of the three is shaken three
/// hundred times, in large steps 16 work / n times, by samples that move to random bags, and
/// relieved again. At last, where there are at most 24 samples, a search goes through all plans,
/// until it has looked at 100,000 bags.
///
/// Expects     the problem has attention parts: the front door reads them from an
///             attention_cost_model, as quadratic_cost.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by what attention_padded batches of the samples cost that each
///                 bag now owns
///             (3) the makespan is at most that of conv_transformer_batches
///             (4) no plan of such batches has a makespan below the one returned
///             (5) no move of one sample from the bag that finishes last, and no swap for another,
///                 has both bags finish earlier than that, unless `work` is used up. Where the
///                 search of all plans comes to its end, the plan is an optimum, and proven, but
///                 for speeds whose least common multiple takes more than 32 bits
/// Complexity  O(n log n + m log m); for every time tried that of `detail::attention_filling`,
///             O(n + m log n) where packed work falls with attention; and O(work), with
///             O(m) for every exchange that is made.
/// Source      the objective is that of Algorithm 5 of B. Xiao, Y. Zheng et al., "OrchMLLM:
///             Orchestrate Multimodal Data with Batch Post-Balancing to Accelerate Multimodal Large
///             Language Model Training", arXiv 2503.23830, 2025; filling by bisection follows E. G.
///             Coffman, M. R. Garey, D. S. Johnson, "An Application of Bin-Packing to
///             Multiprocessor Scheduling", SIAM J. Comput. 7(1):1-17, 1978; the bound is
///             `detail::attention_bound`.
struct attention_padded_batches {
  std::uint64_t work = 1'000'000;  ///< how many exchanges, and bags of searched plans, to look at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    detail::expect_attention(problem);
    auto scratch = memory.open();
    detail::finishing_times const times(problem, loads, scratch);
    auto const items = detail::sorted_attention_items(problem, scratch);
    detail::attention_bound const bound(items, problem, loads, times, scratch);
    uint128 const least = bound.least_time();
    detail::attention_filling filling(items, problem, times, scratch);
    detail::attention_exchanges batches(items, problem, times, scratch);
    std::span<bag_id> const tried = scratch.take<bag_id>(owner.size());
    std::span<cost_units> const tried_loads = scratch.take<cost_units>(loads.size());

    uint128 const enough = times.finish_anywhere(detail::cost_of_one_batch(items));
    fill_by_bisection(filling, least, enough, tried, owner);
    batches.load(owner);
    std::uint64_t left = work;
    batches.relieve(least, left);
    batches.store(owner);
    uint128 best = batches.finish();
    auto const relieve_and_keep = [&] {
      batches.relieve(least, left);
      if (batches.finish() <= best) {  // equal ones too, so that shaking goes on from another plan
        best = batches.finish();
        batches.store(owner);
      }
    };
    auto const try_from = [&](auto const& policy) {
      if (best <= least) { return; }
      std::copy(loads.begin(), loads.end(), tried_loads.begin());
      std::fill(tried.begin(), tried.end(), to_id<bag_id>(loads.size()));
      run_policy(policy, problem, tried_loads, tried, memory);
      batches.load(tried);
      relieve_and_keep();
    };
    try_from(conv_transformer_batches{});
    try_from(longest_processing_time{});
    ballast::random_source random(1);
    // Each goes through all samples, so large steps have fewer.
    std::uint64_t const most_kicks = std::min(kicks, 16 * (work / (items.size() + 1) + 1));
    for (std::uint64_t kick = 0; kick < most_kicks && best > least; ++kick) {
      batches.load(owner);
      batches.shake(random);
      relieve_and_keep();
      if (left == 0) { break; }
    }
    uint128 proven = least;
    if (best > least && items.size() <= search_up_to) {
      detail::attention_search search(items, problem, times, scratch);
      std::uint64_t bags_to_look_at = std::min(left, search_work);
      search.improve(best, bags_to_look_at, owner);
      if (bags_to_look_at > 0) { proven = best; }
    }

    if (best > proven) {
      detail::cheapest_chain chain(problem, times, scratch);
      if (chain.kinds() > 1) { proven = bound.least_time_of(chain, proven, best, scratch); }
    }
    batches.load(owner);
    if (best > proven) {  // a search that was cut short may end with a plan that exchanges improve
      batches.relieve(proven, left);
      batches.store(owner);
    }
    for (std::size_t bag = 0; bag < loads.size(); ++bag) { loads[bag] += batches.work(bag); }
    return times.makespan_of_rounded(proven);
  }

  [[nodiscard]] static constexpr batching batches() noexcept { return batching::attention_padded; }
  [[nodiscard]] static constexpr bool restricts() noexcept { return true; }

  friend bool operator==(attention_padded_batches, attention_padded_batches) = default;

 private:
  static constexpr std::uint64_t kicks = 300;      // shaken plans to exchange from
  static constexpr std::size_t search_up_to = 24;  // samples: of more, the search does not end
  static constexpr std::uint64_t search_work = 100'000;

  /// Looks for the least time up to 1/16384 of it: exchanges do the rest.
  static void fill_by_bisection(detail::attention_filling& filling, uint128 least, uint128 enough,
                                std::span<bag_id> tried, std::span<bag_id> owner)
  {
    uint128 low = least;
    uint128 high = low;
    auto filled = filling.fill(high, owner);
    for (uint128 step = low / 64 + 1; !filled.placed; step *= 2) {
      low = high;
      high = std::min(high + step, std::max(least, enough));
      filled = filling.fill(high, owner);
    }
    high = std::max(filled.finish, least);
    while (high > low + low / 16384 + 1) {  // a filling may finish before a time that was too short
      uint128 const middle = low + (high - low) / 2;
      filled = filling.fill(middle, tried);
      if (filled.placed) {
        high = std::max(filled.finish, least);
        std::copy(tried.begin(), tried.end(), owner.begin());
      } else {
        low = middle;
      }
    }
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PUBLISHED_ATTENTION_PADDED_BATCHES_HPP
