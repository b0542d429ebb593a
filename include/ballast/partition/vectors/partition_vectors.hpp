// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_PARTITION_VECTORS_HPP
#define BALLAST_PARTITION_VECTORS_PARTITION_VECTORS_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/integer_projection.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/detail/plan_items.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/plan_vectors.hpp>
#include <ballast/partition/vectors/detail/refused_vectors.hpp>
#include <ballast/partition/vectors/vector_bag_plan.hpp>
#include <ballast/partition/vectors/vector_plan.hpp>
#include <ballast/partition/vectors/vector_projection.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// Puts samples in equal bins so that the largest load of any bin in any dimension is small:
/// microbatches whose encoder time and LLM time are both even, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; 1 <= bins < 2^32, identical and empty;
///             constraints: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     costs_of(sample) returns the D costs of the sample, all in one unit of time. A
///             sample that is a cost_vector is its own costs. The policy does what
///             vector_partition_policy says of it. A bin counts as one GPU, so
///             constraints.most_per_gpu is what a bin holds, of constraints.weights.
/// Ensures     (1) those of vector_plan
///             (2) the plan depends on nothing but the arguments, so every rank finds the same one
///             (3) with a plan and a workspace that have seen a step as large, nothing is allocated
///             (4) samples with one key in constraints.together have one bin, and no bin holds more
///                 weight than it can
/// Errors      out_of_range: sample `position` has a negative cost or none, or the costs or weights
///             overflow, or the constraints have homes or a limit without weights; infeasible: sample
///             `position` found no bin with room, or there is no bin. The plan is then unspecified.
/// Complexity  O(n) calls of costs_of, the policy, D + 1 radix sorts and O((D n + m) log m) for the
///             bound; with samples to keep together O(n log n).
/// Source      the problem for encoder and LLM: DFLOP, a data-driven framework for multimodal LLM
///             training pipelines, its online microbatch scheduler.
template <std::size_t D, std::ranges::forward_range Samples, vector_partition_policy<D> Policy,
          vector_projection<Samples> CostsOf = std::identity>
  requires(dimensions_of<CostsOf, Samples> == D)
[[nodiscard]] result<void> partition_vectors_into(vector_plan<D>& plan, workspace& memory,
                                                  Samples&& samples, std::size_t bins,
                                                  Policy const& policy,
                                                  CostsOf const& costs_of = {},
                                                  partition_constraints const& constraints = {})
{
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (count >= limit || bins >= limit) {
    return fail(error_code::out_of_range, 0,
                "a step has more than 2^32 - 1 samples or bins; split it");
  }
  if (bins == 0) {
    return fail(error_code::infeasible, 0, "there are no bins to place samples in; ask for some");
  }
  if (!constraints.home.empty()) {
    return fail(error_code::out_of_range, 0,
                "constraints.home is given, but bins lie nowhere; leave it out, or give bags");
  }
  if (constraints.most_per_gpu != constraints.no_limit && constraints.weights.size() != count) {
    return fail(error_code::out_of_range, 0,
                "constraints.most_per_gpu limits bins, whose samples have no lengths; give "
                "constraints.weights, one for each sample");
  }
  if (auto checked = detail::check_constraints(constraints, count, bins); !checked) {
    return checked;
  }
  plan.costs.resize(count);
  detail::vector_prices<D, CostsOf> price{costs_of, detail::mutable_span_of(plan.costs)};
  std::size_t next = 0;
  for (auto&& sample : samples) {
    if (auto checked = price(next, sample); !checked) { return checked; }
    ++next;
  }

  plan.owner.resize(count);
  plan.loads.assign(bins, {});
  bool const limited = constraints.most_per_gpu != constraints.no_limit;
  ratio bound;
  auto const planned = detail::plan_vectors(
      vector_problem<D>{detail::span_of(plan.costs)}, {},
      limited ? constraints.weights : decltype(constraints.weights){}, constraints, policy,
      detail::mutable_span_of(plan.loads), detail::mutable_span_of(plan.owner), bound, memory);
  if (!planned) { return planned; }
  plan.samples.collect(detail::span_of(plan.owner), bins);
  plan.makespan = 0;
  for (cost_vector<D> const& load : plan.loads) {
    plan.makespan = std::max(plan.makespan, *std::max_element(load.begin(), load.end()));
  }
  plan.lower_bound = bound.numerator;  // of speed 1, so of denominator 1
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition_vectors(samples, 64, vector_refine{}, encoder_and_llm_time);
template <std::ranges::forward_range Samples, class Policy,
          vector_projection<Samples> CostsOf = std::identity>
  requires vector_partition_policy<Policy, dimensions_of<CostsOf, Samples>>
[[nodiscard]] auto partition_vectors(Samples&& samples, std::size_t bins, Policy const& policy,
                                     CostsOf const& costs_of = {},
                                     partition_constraints const& constraints = {})
    -> result<vector_plan<dimensions_of<CostsOf, Samples>>>
{
  vector_plan<dimensions_of<CostsOf, Samples>> plan;
  workspace memory;
  result<void> const done = ballast::partition_vectors_into(
      plan, memory, std::forward<Samples>(samples), bins, policy, costs_of, constraints);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

/// Puts samples in bags of GPUs, of several sizes and speeds, so that the largest load per speed of
/// any bag in any dimension is small: what `partition` does for one dimension.
///
/// Shapes      samples[n] of any type, n < 2^32; bags: m >= 1; constraints: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     costs_of(sample) returns the D costs of the sample, all in one unit of time, and
///             length_of(sample) how many of its tokens a bag splits, an integer. A sample that is a
///             number is its own length. The policy does what vector_partition_policy says of it,
///             and looks at more than costs.
/// Ensures     (1) those of vector_bag_plan
///             (2) every sample is in a bag that takes it, as `partition` has it for short samples
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) with a plan and a workspace that have seen a step as large, nothing is allocated
///             (5) samples with one key in constraints.together have one bag, and no bag holds more
///                 weight than its GPUs can
/// Errors      out_of_range: sample `position` has a length outside [0, longest_sample], a negative
///             cost or none, a home outside the job, or the costs or weights overflow; infeasible:
///             sample `position` has fewer tokens than every bag has GPUs, and the bags refuse short
///             samples; or it found no bag with room, or there is no bag. The plan is then
///             unspecified.
/// Complexity  O(n) calls of costs_of, the policy, D + 1 radix sorts and O((D n + m) log m) for the
///             bound, with limits O(D n log n); with samples to keep together O(n log n).
template <std::size_t D, std::ranges::forward_range Samples, vector_partition_policy<D> Policy,
          vector_projection<Samples> CostsOf, integer_projection<Samples> LengthOf = std::identity>
  requires(dimensions_of<CostsOf, Samples> == D)
[[nodiscard]] result<void> partition_vectors_into(vector_bag_plan<D>& plan, workspace& memory,
                                                  Samples&& samples, bag_layout const& bags,
                                                  Policy const& policy, CostsOf const& costs_of,
                                                  LengthOf const& length_of = {},
                                                  partition_constraints const& constraints = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (auto checked = detail::check_step(count, bags, constraints); !checked) { return checked; }
  auto scratch = memory.open();
  plan.costs.resize(count);
  detail::sample_lengths lengths;
  auto const read = detail::read_samples(
      lengths, samples, count, bags, length_of, scratch,
      detail::vector_prices<D, CostsOf>{costs_of, detail::mutable_span_of(plan.costs)});
  if (!read) { return read; }
  plan.short_samples = lengths.short_samples;

  std::span<std::int64_t const> weights;
  if (constraints.most_per_gpu != constraints.no_limit) {
    weights = constraints.weights.empty() ? lengths.own : constraints.weights;
  }
  std::span<bin_id> const owner = scratch.take<bin_id>(count);
  plan.loads.assign(bags.size(), {});
  vector_problem<D> const problem{detail::span_of(plan.costs), lengths.fitting, bags.sizes(),
                                  bags.speeds()};
  std::span<tokens const> own = lengths.own;
  if (plan.short_samples == 0) { own = {}; }
  auto const planned =
      detail::plan_vectors(problem, own, weights, constraints, policy,
                           detail::mutable_span_of(plan.loads), owner, plan.lower_bound, memory);
  if (!planned) { return planned; }

  plan.owner.resize(count);
  std::transform(owner.begin(), owner.end(), plan.owner.begin(),
                 [](bin_id bin) { return to_id<bag_id>(to_index(bin)); });
  plan.samples.collect(detail::span_of(plan.owner), bags.size());
  plan.bags_digest = bags.digest();
  plan.makespan = {};
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    cost_vector<D> const& load = plan.loads[bag];
    ratio const finish{*std::max_element(load.begin(), load.end()), bags.speeds()[bag]};
    plan.makespan = std::max(plan.makespan, finish);
  }
  std::span<bag_id> const home = scratch.take<bag_id>(constraints.home.size());
  std::transform(constraints.home.begin(), constraints.home.end(), home.begin(),
                 [&bags](rank_id rank) { return bags.bag_of(rank); });
  plan.moved = detail::moved_share(detail::span_of(plan.owner), lengths.own, home);
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition_vectors(samples, bags, vector_refine{}, encoder_and_llm_time,
///                                         &sample::length, {.most_per_gpu = 32'768});
template <std::ranges::forward_range Samples, class Policy, vector_projection<Samples> CostsOf,
          integer_projection<Samples> LengthOf = std::identity>
  requires vector_partition_policy<Policy, dimensions_of<CostsOf, Samples>>
[[nodiscard]] auto partition_vectors(Samples&& samples, bag_layout const& bags,
                                     Policy const& policy, CostsOf const& costs_of,
                                     LengthOf const& length_of = {},
                                     partition_constraints const& constraints = {})
    -> result<vector_bag_plan<dimensions_of<CostsOf, Samples>>>
{
  vector_bag_plan<dimensions_of<CostsOf, Samples>> plan;
  workspace memory;
  result<void> const done = ballast::partition_vectors_into(
      plan, memory, std::forward<Samples>(samples), bags, policy, costs_of, length_of, constraints);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

// Calls that cannot compile come here, so that the first error says what is wrong with them.
template <class Samples, class Bins, class Policy, class CostsOf = std::identity,
          class LengthOf = std::identity,
          class Refused = detail::refused_vectors<Samples, Bins, Policy, CostsOf, LengthOf>>
  requires(!detail::vector_arguments<Samples, Bins, Policy, CostsOf, LengthOf>)
Refused partition_vectors(Samples&& samples, Bins const& bins, Policy const& policy,
                          CostsOf const& costs_of = {}, LengthOf const& length_of = {},
                          partition_constraints const& constraints = {});

template <class Plan, class Samples, class Bins, class Policy, class CostsOf = std::identity,
          class LengthOf = std::identity,
          class Refused = detail::refused_vectors<Samples, Bins, Policy, CostsOf, LengthOf>>
  requires(!detail::vector_arguments<Samples, Bins, Policy, CostsOf, LengthOf>)
Refused partition_vectors_into(Plan& plan, workspace& memory, Samples&& samples, Bins const& bins,
                               Policy const& policy, CostsOf const& costs_of = {},
                               LengthOf const& length_of = {},
                               partition_constraints const& constraints = {});

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_PARTITION_VECTORS_HPP
