// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/placement_limits.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What of pack_into() does not depend on the type of samples.
///
/// In, out     the plan has lengths for weights; the rest is written.
[[nodiscard]] BALLAST_ONCE result<void> pack_lengths(packing_plan& plan, workspace& memory,
                                                     placement_limits const& limits,
                                                     bins const& wanted);

}  // namespace detail

/// Packs samples into as few bins within the limits as it finds, and says how few there could be:
/// microbatches of at most so many tokens, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; limits: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     length_of(sample) returns an integer. A sample that is a number is its own length.
/// Ensures     (1) those of packing_plan; the packing keeps all limits together, of which caps count
///                 per bin; the number of bins is a multiple, and at least the least
///             (2) a bin is empty only where so many were asked for and samples are too few, or
///                 counts are equal
///             (3) a sample that takes more than a soft cap, with what stays together with it, is
///                 alone in a bin of plan.above_cap
///             (4) the number of bins comes first. Where bins are asked for, or then = most_level, the
///                 largest bin is made less; with then = least(of) the largest sum of that
///             (5) padded bins are the fewest, and their largest is least where that is asked for
///             (6) the plan depends on nothing but the arguments, so every rank finds the same one
///             (7) with one cap alone, and a plan and a workspace that have seen a step as large,
///                 nothing is allocated
/// Errors      infeasible: sample `position` takes more than a bin has; no packing keeps the limits,
///             or none was found, which the message tells apart. out_of_range: sample `position` is
///             negative, or a sum overflows; a limit says nothing, is of bags that are there already,
///             or is an array of another size. The plan is then unspecified.
/// Complexity  by one cap O(n) calls of length_of, a radix sort, and the work, where the first packing
///             is not proven. With other limits O(n bins) for a first packing, and the work for each
///             number of bins that is tried.
template <std::ranges::forward_range Samples, integer_projection<Samples> LengthOf>
[[nodiscard]] result<void> pack_into(packing_plan& plan, workspace& memory, Samples&& samples,
                                     LengthOf const& length_of, placement_limits const& limits,
                                     bins const& wanted = {})
{
  if (std::same_as<LengthOf, no_length> && detail::counts_lengths(limits)) {
    return fail(error_code::out_of_range, 0,
                "a cap counts the lengths of samples, and these have none; give it what each "
                "sample takes, as limits.also = {{.of = bytes, .most_per_gpu = n}}");
  }
  plan.weights.resize(static_cast<std::size_t>(std::ranges::distance(samples)));
  std::size_t next = 0;
  for (auto&& sample : samples) {
    plan.weights[next++] = detail::saturated(std::invoke(length_of, sample));
  }
  auto packed = detail::pack_lengths(plan, memory, limits, wanted);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  return packed;
}

/// The same for samples that are numbers: their own lengths.
template <std::ranges::forward_range Samples>
  requires integer_projection<std::identity, Samples>
[[nodiscard]] result<void> pack_into(packing_plan& plan, workspace& memory, Samples&& samples,
                                     placement_limits const& limits, bins const& wanted = {})
{
  return ballast::pack_into(plan, memory, std::forward<Samples>(samples), std::identity{}, limits,
                            wanted);
}

/// The same, once: returns a new plan.
///
///     auto const microbatches = pack(documents, &document::tokens, {.most_per_gpu = 8192});
template <std::ranges::forward_range Samples, integer_projection<Samples> LengthOf>
[[nodiscard]] result<packing_plan> pack(Samples&& samples, LengthOf const& length_of,
                                        placement_limits const& limits, bins const& wanted = {})
{
  packing_plan plan;
  workspace memory;
  result<void> const done =
      ballast::pack_into(plan, memory, std::forward<Samples>(samples), length_of, limits, wanted);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

/// The same for samples that are numbers: their own lengths.
template <std::ranges::forward_range Samples>
  requires integer_projection<std::identity, Samples>
[[nodiscard]] result<packing_plan> pack(Samples&& samples, placement_limits const& limits,
                                        bins const& wanted = {})
{
  return ballast::pack(std::forward<Samples>(samples), std::identity{}, limits, wanted);
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/partition/packing/detail/limited_bins.hpp>
#endif
