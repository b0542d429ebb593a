// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <functional>
#include <iterator>

namespace ballast::inline v0 {

namespace detail {

template <class Times>
inline constexpr std::size_t count_of_modules = 0;
template <std::size_t Modules>
inline constexpr std::size_t count_of_modules<std::array<stage_time, Modules>> = Modules;

/// How many modules a projection gives times of, in the `std::array<stage_time, Modules>` that it
/// returns.
template <class TimesOf, class Sample>
  requires std::invocable<TimesOf const&, Sample>
inline constexpr std::size_t modules_of =
    count_of_modules<std::remove_cvref_t<std::invoke_result_t<TimesOf const&, Sample>>>;

/// A projection from samples to their times: a callable, or a pointer to a member, that returns a
/// `std::array` with how long a sample takes on each module.
template <class Projection, class Samples>
concept module_times_projection =
    std::ranges::random_access_range<Samples> && std::ranges::sized_range<Samples> &&
    std::invocable<Projection const&, std::ranges::range_reference_t<Samples>> &&
    modules_of<Projection, std::ranges::range_reference_t<Samples>> >= 1;

}  // namespace detail

/// How long each microbatch takes on each module: the sum over its samples.
///
/// Shapes      times_of(sample): a `std::array` with how long it takes on each module.
///             microbatches: ranges of sample_id, such as the `groups` of a plan, one per
///             microbatch. Returns a row per microbatch, a column per module.
/// Expects     every sample_id is the position of one of the samples.
/// Ensures     (1) a microbatch without samples takes no time
/// Errors      out_of_range: sample `position` has a negative time or no_cost, or brings the time
///             of its microbatch above 63 bits.
/// Complexity  O(microbatches), and a call of times_of per sample.
template <std::ranges::forward_range Microbatches, std::ranges::random_access_range Samples,
          detail::module_times_projection<Samples const> TimesOf = std::identity>
[[nodiscard]] result<pipeline_times> sum_over_samples(Microbatches const& microbatches,
                                                      Samples const& samples,
                                                      TimesOf const& times_of = {})
{
  constexpr std::size_t modules =
      detail::modules_of<TimesOf, std::ranges::range_reference_t<Samples const>>;
  pipeline_times whole(static_cast<std::size_t>(std::ranges::distance(microbatches)), modules);
  std::size_t row = 0;
  for (auto const& microbatch : microbatches) {
    for (sample_id const sample : microbatch) {
      std::size_t const index = to_index(sample);
      BALLAST_EXPECTS(index < std::ranges::size(samples), "microbatch ", row, " holds sample ",
                      sample, ", and there are times of ", std::ranges::size(samples));
      auto const at = static_cast<std::ranges::range_difference_t<Samples const>>(index);
      auto const& times = std::invoke(times_of, std::ranges::begin(samples)[at]);
      for (std::size_t each = 0; each < modules; ++each) {
        auto const add = [](time_units& sum, time_units time) {
          sum = time < 0 ? no_cost : saturating_sum(sum, time);
          return sum != no_cost;
        };
        stage_time& sum = whole.rows[row * modules + each];
        if (!add(sum.forward, times[each].forward) || !add(sum.backward, times[each].backward)) {
          return fail(error_code::out_of_range, index, "the time of sample ", index, " on module ",
                      each,
                      " is negative, none, or brings that of its microbatch above 63 bits; "
                      "correct the sample or use a coarser unit");
        }
      }
    }
    ++row;
  }
  return whole;
}

/// Shares out the time of each module over its stages, in proportion to their layers.
///
/// Shapes      whole: a row per microbatch, a column per module; layers[modules], each with one
///             number per stage. times: a row per microbatch, a column per stage, first those of
///             module 0, then those of module 1.
/// In, out     times is overwritten, and keeps its memory for the next step; it is not `whole`.
/// Expects     every module has a layer; no time is negative. Numbers may count parts of layers: a
///             stage with the output head may have 12 half layers where others have 10, and one
///             that only looks up embeddings has 0.
/// Ensures     (1) the shares of a module's time add up to it exactly
///             (2) a share is layers / all layers of the time, rounded down or up: shares of stages
///             with equally many layers differ by one at most, and are the same on every machine
/// Complexity  O(microbatches x stages); it allocates where times is too small.
inline void split_over_stages_into(pipeline_times& times, pipeline_times const& whole,
                                   std::span<std::vector<std::uint32_t> const> layers)
{
  BALLAST_EXPECTS(
      &times != &whole,
      "the times of stages cannot be written over those of the modules that they are parts of");
  BALLAST_EXPECTS(!layers.empty(), "there are layers of no modules");
  BALLAST_EXPECTS(whole.stages == layers.size(), "there are layers of ",
                  detail::counted(layers.size(), "module"), " and times of ", whole.stages);
  times.stages = 0;
  for (auto const& of_module : layers) { times.stages += of_module.size(); }
  times.rows.resize(whole.microbatches() * times.stages);
  times.weights.resize(whole.weights.empty() ? 0 : times.rows.size());

  std::size_t first = 0;
  for (std::size_t module = 0; module < layers.size(); ++module) {
    auto const total =
        std::accumulate(layers[module].begin(), layers[module].end(), std::uint64_t{0});
    BALLAST_EXPECTS(total >= 1, "module ", module, " has no layers on its ",
                    detail::counted(layers[module].size(), "stage"));
    // The sum over the first stages is rounded down; each stage gets the difference of two sums.
    auto const part = [total](time_units time, std::uint64_t below) {
      BALLAST_AUDIT(time >= 0, "a time of ", time, " cannot be split over stages");
      return static_cast<time_units>(static_cast<uint128>(time) * below / total);
    };
    for (std::size_t row = 0; row < whole.microbatches(); ++row) {
      std::size_t const from = row * layers.size() + module;
      auto const& [forward, backward] = whole.rows[from];
      time_units const weights = whole.of(from, pass::weights);
      std::size_t to = row * times.stages + first;
      std::uint64_t below = 0;
      stage_time taken;
      time_units weights_taken = 0;
      for (std::uint32_t const of_stage : layers[module]) {
        below += of_stage;
        stage_time const next{part(forward, below), part(backward, below)};
        times.rows[to] = {next.forward - taken.forward, next.backward - taken.backward};
        taken = next;
        if (!times.weights.empty()) {
          times.weights[to] = part(weights, below) - weights_taken;
          weights_taken += times.weights[to];
        }
        ++to;
      }
    }
    first += layers[module].size();
  }
}

/// The same, once: returns new times.
[[nodiscard]] inline pipeline_times split_over_stages(
    pipeline_times const& whole, std::span<std::vector<std::uint32_t> const> layers)
{
  pipeline_times times;
  split_over_stages_into(times, whole, layers);
  return times;
}

/// How long a sample takes on a module, an encoder, an LLM or a generator, forward and backward.
///
/// Units       of time, one for all modules of a pipeline: a module with fewer or slower GPUs has a
///             cost model that says so, such as `latency_cost`.
struct pass_costs {
  quadratic_cost forward;
  quadratic_cost backward;

  [[nodiscard]] constexpr stage_time operator()(tokens length) const
  {
    return {.forward = forward(length), .backward = backward(length)};
  }

  /// Whether a gradient is computed in this module. Where not, its stages are `pipeline_stage`s
  /// without a backward.
  [[nodiscard]] constexpr bool has_backward() const
  {
    return backward.linear != 0 || backward.quadratic != 0;
  }

  friend bool operator==(pass_costs const&, pass_costs const&) = default;
};

/// What a module costs in its forward and in its backward pass, from the FLOP of its forward pass
/// and from how it is trained:
///
///     price_passes(flops, training_passes{}.frozen(frozen_gradient::passes_through),
///                  [&](flop_polynomial all) { return latency_cost(fit, all); })
///
/// Recomputation counts as backward, since it is done then.
///
/// In          price(flops) returns the cost model for so many FLOP.
/// Ensures     (1) both passes together are the FLOP of step_flops(forward, passes)
///             (2) a module that is frozen and stops the gradient has no backward
/// Errors      those of step_flops and of price.
template <std::invocable<flop_polynomial> Price>
  requires std::same_as<std::invoke_result_t<Price const&, flop_polynomial>, result<quadratic_cost>>
[[nodiscard]] result<pass_costs> price_passes(flop_polynomial forward, training_passes passes,
                                              Price const& price)
{
  training_passes const only_forward{
      .forward = passes.forward, .backward = 0, .attention_backward = 0};
  passes.forward = 0;
  auto const forward_cost = step_flops(forward, only_forward).and_then(price);
  if (!forward_cost) { return tl::unexpected(forward_cost.error()); }
  auto const backward_cost = step_flops(forward, passes).and_then(price);
  if (!backward_cost) { return tl::unexpected(backward_cost.error()); }
  return pass_costs{.forward = *forward_cost, .backward = *backward_cost};
}

}  // namespace ballast::inline v0
