// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_CUT_CHAIN_HPP
#define BALLAST_PARALLELISM_CUT_CHAIN_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/detail/chains/chain_cutter.hpp>
#include <ballast/parallelism/detail/chains/chain_search.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// A layer of a model that is cut into stages. The embedding, the head and the loss are layers too.
///
/// Units       cost: any, the same for all layers, as the time of a forward and a backward pass.
struct chain_layer {
  std::int64_t cost = 0;
  std::int64_t state_bytes = 0;       ///< weights, gradients and optimiser
  std::int64_t activation_bytes = 0;  ///< of one microbatch
};

/// The ranks of a pipeline that a chain of layers is cut for.
///
/// Shapes      capacities[ranks] or empty; held[ranks x chunks] or empty.
struct chain_ranks {
  std::size_t ranks = 1;
  std::size_t chunks = 1;                         ///< of each rank: stage s lies on rank s % ranks
  std::span<std::int64_t const> capacities = {};  ///< bytes of each rank; empty: no limits
  /// Microbatches whose activations a stage keeps at once; empty: one each. 1F1B without chunks
  /// keeps min(microbatches, ranks - s) on stage s.
  std::span<std::int64_t const> held = {};
};

/// Where the stages of a chain begin; makespan is the largest load of a rank.
///
/// Shapes      first[ranks x chunks + 1], loads[ranks].
/// Ensures     (1) stage s has layers first[s] to first[s + 1] - 1, one or more; first begins with 0
///                 and ends with the number of layers
///             (2) loads[r] is the cost of the layers of all stages of rank r
struct chain_cut : certified<std::int64_t> {
  std::vector<std::size_t> first;
  std::vector<std::int64_t> loads;
};

namespace detail {

/// Refuses numbers that cannot be used, and fewer layers than stages.
[[nodiscard]] inline result<void> check_chain(std::span<chain_layer const> layers,
                                              chain_ranks const& on)
{
  auto const refuse = [](std::size_t position, auto const&... pieces) {
    return fail(error_code::out_of_range, position, pieces...);
  };
  if (on.ranks == 0 || on.chunks == 0) {
    return refuse(0, "a chain is to be cut for ", counted(on.ranks, "rank"), " with ",
                  counted(on.chunks, "chunk"), " each; give at least one of both");
  }
  if (on.ranks > layers.size() || on.chunks > layers.size() / on.ranks) {
    return fail(error_code::infeasible, layers.size(), "a chain of ",
                counted(layers.size(), "layer"), " cannot be cut for ", counted(on.ranks, "rank"),
                " with ", counted(on.chunks, "chunk"),
                " each, since a stage has at least one layer; use fewer stages");
  }
  std::size_t const stages = on.ranks * on.chunks;
  if (!on.capacities.empty() && on.capacities.size() != on.ranks) {
    return refuse(on.capacities.size(), "there are ", on.capacities.size(), " capacities for ",
                  counted(on.ranks, "rank"), "; give one for each, or none");
  }
  if (!on.held.empty() && on.held.size() != stages) {
    return refuse(on.held.size(), "held has ", counted(on.held.size(), "entry"), " for ",
                  counted(stages, "stage"), "; give one for each, or none");
  }
  std::int64_t most_held = 1;
  for (std::size_t stage = 0; stage < on.held.size(); ++stage) {
    if (on.held[stage] < 0) {
      return refuse(stage, "stage ", stage, " holds ", counted(on.held[stage], "microbatch"),
                    "; correct it");
    }
    most_held = std::max(most_held, on.held[stage]);
  }
  for (std::size_t rank = 0; rank < on.capacities.size(); ++rank) {
    if (on.capacities[rank] < 0) {
      return refuse(rank, "rank ", rank, " has ", counted(on.capacities[rank], "byte"),
                    "; correct it");
    }
  }
  uint128 cost = 0;
  uint128 bytes = 0;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  for (std::size_t at = 0; at < layers.size(); ++at) {
    auto const& [own_cost, state, activation] = layers[at];
    if (std::min({own_cost, state, activation}) < 0) {
      return refuse(at, "layer ", at, " has a cost of ", own_cost, ", ", counted(state, "byte"),
                    " of state and ", activation, " of activations; none can be negative");
    }
    cost += static_cast<std::uint64_t>(own_cost);
    bytes += static_cast<std::uint64_t>(state);
    bytes += static_cast<uint128>(static_cast<std::uint64_t>(activation)) *
             static_cast<std::uint64_t>(most_held);
    if (cost > most || bytes > most) {
      return refuse(at, "layer ", at, " brings the sum of costs or bytes above 62 bits; use a ",
                    "coarser unit");
    }
  }
  return {};
}

}  // namespace detail

/// Cuts a chain of layers of unequal cost into the stages of a pipeline so that the largest load of
/// a rank is least.
///
///     cut_chain(layers, {.ranks = 4})
///
/// Stages are consecutive layers, at least one each, in the order of the chain. With several chunks
/// a rank, as interleaved 1F1B has them, stage s lies on rank s % ranks.
///
/// Ensures     (1) those of chain_cut, and no rank keeps more bytes than its capacity: state of its
///                 layers and activations times held of their stage
///             (2) with one chunk a rank no cut within the capacities has a lesser makespan, and
///                 lower_bound says so. Of such cuts the last stage has as many layers as it can,
///                 then the one before, since the first stages of 1F1B keep most activations
///             (3) with several chunks all cuts are tried, as far as a budget of 2^20 goes: where it
///                 ends before, no shift of layers over the borders inside any `ranks` consecutive
///                 stages makes the largest load less, and lower_bound is the mean load, rounded up,
///                 or the costliest layer
/// Errors      infeasible: there are fewer layers than stages, or no cut keeps to the capacities, and
///             the sentence says by how many bytes the nearest is above one, or, where not all cuts
///             could be tried, one that was found; or, with several chunks, the search gave up, and
///             says so. out_of_range: a number is negative, an array has another size, or sums are
///             above 2^62; position is its index.
/// Complexity  O(layers ranks log(sum of costs)) with one chunk; with several, times stages for each
///             sweep over them, and the budget.
/// Source      parametric search, as in A. Pinar, C. Aykanat, "Fast optimal load balancing
///             algorithms for 1D partitioning", J. Parallel Distrib. Comput. 64(8), 2004; stages of
///             different capacities ask for sets of ends instead of the furthest end.
[[nodiscard]] inline result<chain_cut> cut_chain(std::span<chain_layer const> layers,
                                                 chain_ranks const& on)
{
  if (auto checked = detail::check_chain(layers, on); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const ranks = static_cast<std::int64_t>(on.ranks);
  std::int64_t total = 0;
  chain_cut plan;
  detail::chain_cutter cutter;
  for (chain_layer const& layer : layers) {
    cutter.push_back(layer.cost, layer.state_bytes, layer.activation_bytes);
    plan.lower_bound = std::max(plan.lower_bound, layer.cost);
    total += layer.cost;
  }
  plan.lower_bound = std::max(plan.lower_bound, total / ranks + (total % ranks != 0 ? 1 : 0));

  detail::chain_search search(std::move(cutter), on.ranks, on.chunks, on.capacities, on.held);
  std::int64_t overrun = search.fit_memory();
  plan.makespan = overrun > 0 ? total + 1 : search.least_load(plan.lower_bound);
  bool const is_proven = on.chunks == 1 || search.try_all(plan.makespan, plan.lower_bound);
  if (plan.makespan > total) {
    bool const is_nearest = on.chunks == 1 || (is_proven && search.lack_least(overrun));
    return fail(error_code::infeasible, 0,
                is_proven ? "no cut of " : "the search gave up: it found no cut of ",
                detail::counted(layers.size(), "layer"), " into ",
                detail::counted(on.ranks * on.chunks, "stage"), " within the capacities; ",
                is_nearest ? "the nearest" : "a cut that was found", " lacks ",
                detail::counted(overrun, "byte"),
                " on a rank, so raise the capacities or use more ranks");
  }
  if (is_proven) { plan.lower_bound = plan.makespan; }
  plan.first.assign(search.first().begin(), search.first().end());
  plan.loads.assign(search.loads().begin(), search.loads().end());
  return plan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_CUT_CHAIN_HPP
