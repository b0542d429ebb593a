// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_SHARE_EXPERTS_HPP
#define BALLAST_PARALLELISM_SHARE_EXPERTS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/detail/experts/replica_flow.hpp>
#include <ballast/parallelism/expert_placement.hpp>
#include <ballast/core/contract.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// How much of its expert's load each replica computes; makespan is the largest load of a GPU.
///
/// Shapes      parts: a row for each expert, as long and in the order of its GPUs.
/// Ensures     (1) parts of an expert add up to its load times `unit`
///             (2) no shares have a lesser makespan, and lower_bound says so
struct expert_shares : certified<ratio> {
  jagged<expert_id, std::int64_t> parts;
  std::int64_t unit = 1;  ///< a part of `unit` is a load of 1
};

/// The shares of replicas that are best for the loads of one batch, as a router counts them, where
/// the places are given: place_experts() splits evenly, since it knows only what is to be expected.
///
/// Shapes      loads[experts]; places: a row for each expert, as expert_placement::gpus.
/// Ensures     (1) those of expert_shares
/// Errors      infeasible: expert `position` has a load and no replica; out_of_range: the arrays have
///             different sizes, a replica is on no GPU, a load is negative, or the loads times GPUs
///             add up to 2^62 or more.
/// Complexity  a maximum flow for each set of experts that turns out to be crowded: few of them.
/// Source      W. Dinkelbach, "On Nonlinear Fractional Programming", Management Science 13(7), 1967:
///             the makespan is the largest load of a set of experts / GPUs that have replicas of it.
[[nodiscard]] inline result<expert_shares> share_experts(std::span<std::int64_t const> loads,
                                                         jagged<expert_id, rank_id> const& places,
                                                         std::size_t gpus)
{
  auto const refuse = [](std::size_t position, auto const&... pieces) {
    return fail(error_code::out_of_range, position, pieces...);
  };
  if (places.size() != loads.size()) {
    return refuse(places.size(), "there are ", loads.size(), " loads and places of ",
                  detail::counted(places.size(), "expert"), "; give both for all");
  }
  std::int64_t const most =
      (std::int64_t{1} << 62) / static_cast<std::int64_t>(gpus < 1 ? 1 : gpus);
  std::int64_t total = 0;
  detail::replica_flow flow(loads.size(), gpus);
  std::vector<bool> is_used(gpus, false);
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    if (loads[expert] < 0 || loads[expert] >= most - total) {
      return refuse(expert, "the load ", loads[expert], " of expert ", expert,
                    " is negative or too large for ", detail::counted(gpus, "GPU"), "; correct it");
    }
    total += loads[expert];
    auto const row = places[to_id<expert_id>(expert)];
    if (row.empty() && loads[expert] > 0) {
      return fail(error_code::infeasible, expert, "expert ", expert, " has a load of ",
                  loads[expert], " and no replica; place it on a GPU");
    }
    for (rank_id const gpu : row) {
      if (to_index(gpu) >= gpus) {
        return refuse(expert, "a replica of expert ", expert, " is on GPU ", to_index(gpu), " of ",
                      gpus, "; correct its place");
      }
      flow.add(expert, to_index(gpu));
      is_used[to_index(gpu)] = true;
    }
  }

  std::int64_t used = 0;
  for (bool const has_replica : is_used) { used += has_replica ? 1 : 0; }
  ratio largest{total, used < 1 ? 1 : used};
  while (!flow.run([&](std::size_t expert) { return loads[expert] * largest.denominator; },
                   largest.numerator)) {
    largest = {0, 0};
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      if (flow.is_crowded(expert)) { largest.numerator += loads[expert]; }
    }
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
      if (flow.is_crowded_gpu(gpu)) { ++largest.denominator; }
    }
  }
  expert_shares shares;
  shares.makespan = largest;
  shares.lower_bound = largest;
  shares.unit = largest.denominator;
  shares.parts.resize(loads.size(),
                      [&](std::size_t expert) { return places[to_id<expert_id>(expert)].size(); });
  std::size_t replica = 0;
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    for (std::int64_t& part : shares.parts.row(to_id<expert_id>(expert))) {
      part = flow.flow(replica++);
    }
  }
  return shares;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_SHARE_EXPERTS_HPP
