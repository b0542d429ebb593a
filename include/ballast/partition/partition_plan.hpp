// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0 {

/// When the last bag finishes: the largest load per speed.
///
/// Shapes      loads[m], speeds[m].
/// Expects     loads are not negative and speeds at least 1.
/// Complexity  O(m)
[[nodiscard]] inline ratio makespan_of(std::span<cost_units const> loads,
                                       std::span<std::uint32_t const> speeds)
{
  BALLAST_EXPECTS(loads.size() == speeds.size(), "there are loads of ",
                  detail::counted(loads.size(), "bag"), " and speeds of ", speeds.size());
  ratio makespan;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    makespan = std::max(makespan, ratio{loads[bag], speeds[bag]});
  }
  return makespan;
}

/// The same by several quantities: the largest load per speed of any bag in any dimension.
template <std::size_t D>
[[nodiscard]] ratio makespan_of(std::span<std::array<cost_units, D> const> loads,
                                std::span<std::uint32_t const> speeds)
{
  BALLAST_EXPECTS(loads.size() == speeds.size(), "there are loads of ",
                  detail::counted(loads.size(), "bag"), " and speeds of ", speeds.size());
  ratio makespan;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    cost_units const largest = *std::max_element(loads[bag].begin(), loads[bag].end());
    makespan = std::max(makespan, ratio{largest, speeds[bag]});
  }
  return makespan;
}

namespace detail {

/// Adds the costs and the loads of a plan to its digest; of vectors also how many there are.
inline void add_costs(digest& words, std::span<cost_units const> costs,
                      std::span<cost_units const> loads) noexcept
{
  words.add(costs).add(loads);
}
template <std::size_t D>
void add_costs(digest& words, std::span<cost_vector<D> const> costs,
               std::span<cost_vector<D> const> loads) noexcept
{
  words.add(std::uint64_t{D});
  for (cost_vector<D> const& cost : costs) { words.add(std::span<cost_units const>(cost)); }
  words.add(static_cast<std::uint64_t>(loads.size()));
  for (cost_vector<D> const& load : loads) { words.add(std::span<cost_units const>(load)); }
}

}  // namespace detail

/// Which bag computes which samples, and how good that is. A Cost is cost_units or, of plans by
/// several quantities, a cost_vector: then loads are sums dimension by dimension, and the makespan
/// is that of the dimension in which it is largest.
///
/// Shapes      owner[n], lengths[n], costs[n], loads[m], samples: m rows; attention[n] of plans
///             that pad attention alone, otherwise empty.
/// Units       costs, attention and loads in the cost model's unit; makespan and bound in that unit
///             per GPU, or per unit of speed where GPUs differ.
/// Ensures     (1) sample i belongs to bag owner[i], and to samples[owner[i]] only
///             (2) loads[b] is what bag b had before and what it computes: the sum of the costs of samples[b], of a padded
///                 batch their number times the largest of them, and of one that pads attention
///                 alone the sum of costs[i] - attention[i] and their number times the largest
///                 attention[i]
///             (3) makespan is the largest load per speed, of any bag in any dimension, exactly
///             (4) lower_bound: no plan has a smaller makespan among those that keep the
///                 constraints and what the policy restricts itself to (equal counts, padded
///                 batches). So this plan is at most gap() above the optimum
///             (5) short_samples counts samples that leave GPUs of their bag without a token; 0
///                 where the bags do not admit such
///             (6) above_cap lists the bags with one sample, or several that stay together, that
///                 weigh more than a soft cap
///             (7) moved is the share of all tokens whose sample leaves the bag that holds it; 0
///                 where the limits give no home
///             (8) then_is_proven: no plan within the limits that is as short, in each dimension, is
///                 better by limits.then
template <class Cost>
struct basic_partition_plan : certified<ratio> {
  id_vector<sample_id, bag_id> owner;
  std::vector<tokens> lengths;  ///< of the samples, as they were planned
  std::vector<Cost> costs;
  std::vector<cost_units> attention;  ///< what of each cost is attention
  std::vector<Cost> loads;
  jagged<bag_id, sample_id> samples;
  std::vector<bag_id> above_cap;
  ratio moved;
  bool then_is_proven = false;
  batching batches = batching::packed;
  std::size_t short_samples = 0;
  std::uint64_t bags_digest = 0;  ///< of the bag_layout that the plan is for

  /// One word that differs where any bag, owner, cost or load does: ranks compare it before they
  /// send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest words;
    words.add(bags_digest).add(detail::span_of(owner));
    detail::add_costs(words, detail::span_of(costs), detail::span_of(loads));
    return words.value();
  }
};

/// A plan whose costs are numbers.
using partition_plan = basic_partition_plan<cost_units>;

/// A plan by D quantities at once.
template <std::size_t D>
using cost_vector_plan = basic_partition_plan<cost_vector<D>>;

}  // namespace ballast::inline v0
