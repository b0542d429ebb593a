// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workloads.hpp"  // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/partition_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

namespace bench {

/// 24 l d^2 + 4 l^2 d at d = 3072 in FLOP, for lengths that end at a context of 16,384 tokens:
/// without an end one sample often outweighs the mean load of all bags, its bag is the bound, and
/// any policy is optimal.
inline std::vector<ballast::cost_units> step_costs(std::size_t samples, double sigma,
                                                   std::uint64_t seed)
{
  std::vector<ballast::cost_units> costs;
  costs.reserve(samples);
  for (ballast::tokens length : lognormal_lengths(samples, sigma, seed)) {
    length = std::min<ballast::tokens>(length, 16'384);
    costs.push_back(24 * 3072 * 3072 * length + 4 * 3072 * length * length);
  }
  return costs;
}

/// Baseline: longest processing time first as users write it, with a comparison sort and a priority
/// queue of bags.
inline void sort_and_heap(std::span<ballast::cost_units const> costs, std::size_t bags,
                          std::vector<ballast::bag_id>& owner)
{
  using ballast::cost_units;
  std::vector<std::pair<cost_units, std::uint32_t>> order;
  order.reserve(costs.size());
  for (cost_units const cost : costs) {
    order.emplace_back(cost, static_cast<std::uint32_t>(order.size()));
  }
  std::ranges::sort(order, [](auto const& a, auto const& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  using loaded = std::pair<cost_units, std::uint32_t>;
  std::vector<loaded> empty;
  for (std::uint32_t bag = 0; bag < bags; ++bag) { empty.emplace_back(0, bag); }
  std::priority_queue lightest(std::greater<loaded>{}, std::move(empty));
  owner.resize(costs.size());
  for (auto const& [cost, sample] : order) {
    auto const [load, bag] = lightest.top();
    lightest.pop();
    owner[sample] = ballast::to_id<ballast::bag_id>(bag);
    lightest.emplace(load + cost, bag);
  }
}

/// Plans steps as the front door does it, for bags of one GPU: sorts them, then asks a policy.
template <class Policy>
class step_planner {
 public:
  step_planner(std::size_t samples, std::size_t bags, Policy policy)
      : policy_(policy), lengths_(samples, 1), order_(samples), ones_(bags, 1), loads_(bags)
  {
    owner_.resize(samples);
  }

  void operator()(std::span<ballast::cost_units const> costs)
  {
    ballast::descending_order_into(order_, costs, memory_);
    std::ranges::fill(loads_, 0);
    std::ranges::fill(owner_, ballast::to_id<ballast::bag_id>(ones_.size()));
    static_cast<void>(
        run_policy(policy_, {costs, lengths_, order_, ones_, ones_}, loads_, owner_, memory_));
    benchmark::DoNotOptimize(owner_.data());
    benchmark::ClobberMemory();
  }

  [[nodiscard]] std::vector<ballast::bag_id> const& owner() const noexcept { return owner_; }
  [[nodiscard]] ballast::ratio makespan() const { return ballast::makespan_of(loads_, ones_); }

 private:
  Policy policy_;
  std::vector<ballast::tokens> lengths_;
  std::vector<ballast::priced_sample> order_;
  std::vector<std::uint32_t> ones_;
  std::vector<ballast::cost_units> loads_;
  std::vector<ballast::bag_id> owner_;
  ballast::workspace memory_;
};

}  // namespace bench
