// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_PLACE_EXPERTS_HPP
#define BALLAST_PARALLELISM_PLACE_EXPERTS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/detail/experts/expert_problem.hpp>
#include <ballast/parallelism/detail/experts/placement_search.hpp>
#include <ballast/parallelism/expert_placement.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// What a placement of experts has to keep to: all of it optional.
///
/// Shapes      replicas[experts] or empty; nodes: GPUs of each node, which add up to all, or empty.
/// Expects     `now` outlives the call.
struct expert_rules {
  std::span<std::uint32_t const> replicas = {};  ///< of each expert; empty: they are chosen
  std::span<std::uint32_t const> nodes = {};
  std::size_t most_nodes = 0;  ///< for the replicas of an expert; 0: no limit
  /// Where replicas are: of the placements found within 1 % of the least load, that is returned which
  /// keeps most of them.
  jagged<rank_id, expert_id> const* now = nullptr;
  std::uint64_t work = 0;  ///< slots that the search looks at; 0: 2^11 for each slot, at least 2^19
};

/// How many replicas each expert of a mixture gets, and on which GPUs, so that the busiest GPU has
/// least: numbers and places together.
///
///     place_experts(loads, slots)            // slots[g]: replicas that fit GPU g
///
/// The load of an expert is split evenly over its replicas. A slot may stay empty: where its
/// neighbour is full, a replica in it would only take from where there is room.
///
/// Shapes      loads[experts], slots[gpus].
/// Units       loads: any, as tokens of the last steps.
/// Ensures     (1) those of expert_placement; GPU g has at most slots[g] replicas
///             (2) no placement has a makespan below lower_bound: the mean load of the GPUs that have
///                 slots, or the least that the largest share of an expert can be
///             (3) the same on every machine: nothing depends on time
/// Errors      infeasible: there are fewer slots than experts, more replicas of an expert asked for
///             than GPUs have slots, or replicas that do not fit, and the sentence has the numbers,
///             or, with most_nodes, that the search for their places gave up; out_of_range: a load
///             is negative, loads add up to 2^61 or more, or an array has another size. Position is
///             that of the expert, GPU or entry.
/// Complexity  O(slots log gpus + work), and for given replicas O(experts (experts + gpus log gpus)),
///             and at most the usual work where most_nodes makes it search; experts x gpus bytes.
/// Source      starts as DeepSeek's EPLB does, "Expert Parallelism Load Balancer", 2025: replicas for
///             the largest share, the largest share to the GPU of the least load.
[[nodiscard]] inline result<expert_placement> place_experts(std::span<std::int64_t const> loads,
                                                            std::span<std::uint32_t const> slots,
                                                            expert_rules const& rules = {})
{
  detail::expert_problem problem{loads, slots, rules.replicas, rules.nodes, rules.most_nodes};
  if (auto checked = problem.check(); !checked) { return tl::unexpected(checked.error()); }
  problem.prepare();
  detail::work_budget left(rules.work != 0 ? rules.work : problem.usual_work());
  detail::placement_search search(problem, left);
  detail::work_budget dealing(problem.usual_work());
  if (!search.place(dealing)) {
    auto const where = detail::concat(detail::counted(problem.places, "slot"), " on ",
                                      detail::counted(slots.size(), "GPU"));
    if (rules.most_nodes == 0) {
      return fail(error_code::infeasible, 0, "the replicas that were asked for do not fit: of ",
                  where, " no two replicas of an expert may take those of one GPU; ask for fewer");
    }
    return fail(error_code::infeasible, 0,
                dealing.spent()
                    ? "the search gave up: it found no places for the replicas that were "
                      "asked for in "
                    : "the replicas that were asked for do not fit ",
                where, ", where those of an expert lie on different GPUs of at most ",
                detail::counted(rules.most_nodes, "node"), "; ask for fewer, or raise most_nodes");
  }
  if (rules.now != nullptr) { search.keep(*rules.now); }
  return search.placement();
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_PLACE_EXPERTS_HPP
