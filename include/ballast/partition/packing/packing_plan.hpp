// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>

namespace ballast::inline v0 {

/// The input of every packing policy: n samples to put into as few bins of one capacity as it can.
///
/// `pack_to_capacity()` builds it and checks what is expected here. A caller that runs a policy
/// directly has to keep to it.
///
/// Shapes      weights[n], heaviest_first[n].
/// Units       weights and capacity share one unit: tokens, or bytes of memory.
/// Expects     (a) weights are not negative, none is above capacity, and they add up to less than
///                 2^63
///             (b) heaviest_first is the `descending_order_into` of the weights
struct packing_problem {
  std::span<std::int64_t const> weights;
  std::span<priced_sample const> heaviest_first;
  std::int64_t capacity = 0;
};

/// How many bins a policy fills, and a number of bins that no packing gets below.
struct packed_bins {
  std::size_t bins = 0;
  std::size_t lower_bound = 0;

  friend bool operator==(packed_bins, packed_bins) = default;
};

/// Decides which bin holds each sample, and how many bins there are.
///
/// In, out     owner[n] enters unspecified and leaves with one bin per sample.
///             memory is scratch that the policy gives back.
/// Returns     the number of bins b: each of the bins 0 to b - 1 holds a sample, and none holds
///             more than the capacity. Or packed_bins: this number, and one that no packing gets
///             below, as the policy has proven.
/// A policy is a value, usually without state, with its parameters as public members.
template <class P>
concept packing_policy = requires(P const policy, packing_problem const& problem,
                                  std::span<bag_id> owner, workspace& memory) {
  requires std::same_as<decltype(policy(problem, owner, memory)), std::size_t> ||
               std::same_as<decltype(policy(problem, owner, memory)), packed_bins>;
};

/// Runs a policy. Its lower bound is 0 where it proves nothing.
template <packing_policy Policy>
packed_bins run_policy(Policy const& policy, packing_problem const& problem,
                       std::span<bag_id> owner, workspace& memory)
{
  auto const done = policy(problem, owner, memory);
  if constexpr (std::is_same_v<decltype(done), packed_bins const>) {
    return done;
  } else {
    return {done, 0};
  }
}

/// What bins have to keep to besides a capacity, as trainers pack: all but the capacity optional.
///
/// Expects     most_samples, multiple_of and length_multiple are at least 1.
struct packing_rules {
  std::int64_t capacity = 0;
  std::size_t most_samples = std::numeric_limits<std::size_t>::max();  ///< in a bin
  std::size_t least_bins = 0;
  std::size_t multiple_of = 1;       ///< bins: a number for each rank
  std::int64_t length_multiple = 1;  ///< lengths are rounded up to one of it
  bool is_padded = false;            ///< a bin takes count x longest of the capacity, not the sum
};

/// Which bin holds which samples, and how near that is to the fewest bins.
///
/// Shapes      owner[n], weights[n], loads[bins()], samples: bins() groups.
/// Ensures     (1) sample i lies in bin owner[i], and in samples[owner[i]] only
///             (2) loads[b] is the sum of the weights of samples[b], and not above capacity
///             (3) every bin holds a sample
///             (4) no packing has fewer than lower_bound bins
struct packing_plan {
  id_vector<sample_id, bag_id> owner;
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> loads;
  jagged<bag_id, sample_id> samples;
  std::int64_t capacity = 0;
  std::size_t lower_bound = 0;

  [[nodiscard]] std::size_t bins() const noexcept { return loads.size(); }

  /// Whether no packing has fewer bins.
  [[nodiscard]] bool proven_optimal() const noexcept { return bins() == lower_bound; }

  /// One word that differs where the capacity, any owner, weight or load does: ranks compare it
  /// before they send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(static_cast<std::uint64_t>(capacity))
        .add(detail::span_of(owner))
        .add(detail::span_of(weights))
        .add(detail::span_of(loads))
        .value();
  }
};

namespace detail {

/// What every packing policy expects of the arrays that it is run with.
inline void expect_packing_arrays(packing_problem const& problem, std::span<bag_id const> owner)
{
  BALLAST_EXPECTS(owner.size() == problem.weights.size(),
                  "a packing policy was run with `owner` of ", counted(owner.size(), "sample"),
                  " for a problem of ", problem.weights.size());
  BALLAST_EXPECTS(problem.heaviest_first.size() == problem.weights.size(),
                  "a packing policy was run with `heaviest_first` of ",
                  counted(problem.heaviest_first.size(), "sample"), " for a problem of ",
                  problem.weights.size());
}

}  // namespace detail

/// A number of bins that no packing gets below: `least_bins`.
///
/// Expects     a valid packing_problem.
/// Ensures     (1) no packing of whole samples has fewer bins
///             (2) at least 1 where there is a sample, also one of no weight
/// Complexity  O(n).
/// Source      bound L2 of S. Martello, P. Toth, "Lower Bounds and Reduction Procedures for the Bin
///             Packing Problem", Discrete Applied Mathematics 28(1):59-70, 1990.
[[nodiscard]] inline std::size_t packing_lower_bound(packing_problem const& problem) noexcept
{
  return detail::least_bins(problem.heaviest_first, problem.capacity);
}

/// The packing of the first policy if it has the fewest bins by proof, and otherwise the one with
/// fewer bins of two policies.
///
///     fewest_bins_of{best_fit_decreasing{}, minimum_bin_slack{}}
///
/// Ensures     (1) no more bins than either policy
/// Complexity  both policies at most, and O(n).
template <packing_policy First, packing_policy Second>
struct fewest_bins_of {
  [[no_unique_address]] First first{};
  [[no_unique_address]] Second second{};

  packed_bins operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    packed_bins best = run_policy(first, problem, owner, memory);
    best.lower_bound = std::max(best.lower_bound, packing_lower_bound(problem));
    if (best.bins == best.lower_bound) { return best; }
    auto scratch = memory.open();
    std::span<bag_id> const other = scratch.take<bag_id>(owner.size());
    packed_bins const found = run_policy(second, problem, other, memory);
    best.lower_bound = std::max(best.lower_bound, found.lower_bound);
    if (found.bins >= best.bins) { return best; }
    std::copy(other.begin(), other.end(), owner.begin());
    best.bins = found.bins;
    return best;
  }

  friend bool operator==(fewest_bins_of const&, fewest_bins_of const&) = default;
};

template <class First, class Second>
fewest_bins_of(First, Second) -> fewest_bins_of<First, Second>;

}  // namespace ballast::inline v0
