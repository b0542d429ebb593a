// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_ORCHESTRATED_MODULE_OF_HPP
#define BALLAST_PARALLELISM_ORCHESTRATED_MODULE_OF_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace ballast::inline v0 {

/// Of the bytes that a GPU holds for a parameter, those of weight, gradient and optimiser: mixed
/// precision with Adam, unless something else is given.
struct state_parts {
  std::uint32_t weights = 2;
  std::uint32_t gradients = 2;
  std::uint32_t optimizer = 12;  ///< which replicas share; 0: each has all of it

  friend bool operator==(state_parts const&, state_parts const&) = default;
};

namespace detail {

/// The times of a part of a training step of one sample, from a profile.
class profiled_times {
 public:
  profiled_times(module_profile const& profile, tokens size, training_passes const& passes)
      : profile_(profile),
        size_(size),
        all_linear_(passes.forward + passes.backward + passes.recompute),
        all_attention_(passes.forward + passes.attention_backward + passes.recompute)
  {}

  /// Of so many of the passes; no_cost where it does not fit.
  [[nodiscard]] time_units of(profiled_degree const& degree, std::uint32_t linear,
                              std::uint32_t attention) const
  {
    auto const length = static_cast<std::uint64_t>(size_);
    // Products are below 2^64 2^31 and squares below 2^64 2^62, before a number of passes.
    uint128 const products = static_cast<uint128>(profile_.flops.linear) * length * linear;
    uint128 const pairs = static_cast<uint128>(profile_.flops.quadratic) * length * length;
    std::uint64_t const gpus = degree_of(degree).gpus();
    return saturating_sum(
        degree.linear.picoseconds(divided_up(products, all_linear_ * gpus), size_),
        degree.attention.picoseconds(divided_up(pairs, all_attention_ * gpus) * attention, size_));
  }

  [[nodiscard]] std::uint64_t forward_flops(std::uint32_t forward) const
  {
    auto const length = static_cast<std::uint64_t>(size_);
    uint128 const flops =
        static_cast<uint128>(profile_.flops.linear) * length / all_linear_ * forward +
        profile_.flops.quadratic * static_cast<uint128>(length * length) / all_attention_ * forward;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return flops < most ? static_cast<std::uint64_t>(flops) : most;
  }

 private:
  module_profile const& profile_;
  tokens size_;
  uint128 all_linear_;
  uint128 all_attention_;
};

}  // namespace detail

/// A module to orchestrate, from its profile: times and activations of a sample of one size, such
/// as the mean.
///
/// A step's FLOP are shared out by its passes: forward, backward with what is recomputed, and of
/// that the part which a frozen module keeps. The sp GPUs of a group that share tokens have the
/// weights each, so they reduce gradients first. Virtual stages and kind are left for the caller.
///
/// Expects     passes.forward >= 1; `parts` are not all 0.
/// Errors      out_of_range: the profile is not as check_profile wants it or has cuts, size is not
///             from 0 to longest_sample, or something does not fit: 2^53 picoseconds, 2^53 bytes, at
///             `position` of the degree.
/// Complexity  O(degrees).
[[nodiscard]] inline result<orchestrated_module> orchestrated_module_of(
    module_profile const& profile, tokens size, training_passes const& passes = {},
    state_parts const& parts = {})
{
  std::uint64_t const whole = std::uint64_t{parts.weights} + parts.gradients + parts.optimizer;
  BALLAST_EXPECTS(whole >= 1, "a parameter has no byte of weight, gradient and optimiser");
  BALLAST_EXPECTS(passes.forward >= 1, "a training step has no forward pass");
  if (auto checked = check_profile(profile); !checked) { return tl::unexpected(checked.error()); }
  if (!profile.cuts.empty()) {
    return fail(error_code::out_of_range, 0, "module ", profile.name,
                " has layers that were cut by ",
                "their costs, and an orchestration knows equal ones; leave its cuts empty");
  }
  if (size < 0 || size > longest_sample) {
    return fail(error_code::out_of_range, 0, "a sample of size ", size, " in module ", profile.name,
                " cannot be priced; give 0 to ", longest_sample);
  }
  using problem = orchestration_problem;
  training_passes const through = frozen(passes, frozen_gradient::passes_through);
  detail::profiled_times const times(profile, size, passes);
  orchestrated_module of;
  of.name = profile.name;
  of.layers = profile.layers;
  of.forward_flops = times.forward_flops(passes.forward);
  uint128 const boundary =
      static_cast<uint128>(profile.boundary_bytes) * static_cast<std::uint64_t>(size);
  if (boundary > problem::most_bytes) {
    return fail(error_code::out_of_range, 0, "a sample of size ", size, " gives more than 2^53 ",
                "bytes from module ", profile.name, " to the next one; check the profile's unit");
  }
  of.boundary_bytes = static_cast<std::uint64_t>(boundary);
  for (std::size_t index = 0; index < profile.degrees.size(); ++index) {
    profiled_degree const& degree = profile.degrees[index];
    orchestrated_degree each;
    each.tp = degree.tp;
    each.sp = each.copies = degree.sp;
    each.ep = degree.ep;
    each.forward = times.of(degree, passes.forward, passes.forward);
    each.backward = times.of(degree, passes.backward + passes.recompute,
                             passes.attention_backward + passes.recompute);
    each.backward_of_input = times.of(degree, through.backward + through.recompute,
                                      through.attention_backward + through.recompute);
    uint128 const state = degree.memory.state(profile.layers);
    auto const part = [&](std::uint32_t bytes) {
      return static_cast<std::uint64_t>(detail::divided_up(state * bytes, whole));
    };
    each.weight_bytes = part(parts.weights);
    each.gradient_bytes = part(parts.gradients);
    each.optimizer_bytes = part(parts.optimizer);
    each.activation_bytes = degree.memory.activations(profile.layers, size);
    if (each.forward > problem::longest_time || each.backward > problem::longest_time ||
        state > problem::most_bytes || each.activation_bytes > problem::most_bytes) {
      return fail(error_code::out_of_range, index, "a sample of size ", size, " in module ",
                  profile.name, " takes more than 2^53 picoseconds or bytes at ",
                  text_of(degree_of(degree)), "; check the profile's units");
    }
    of.degrees.push_back(each);
  }
  return of;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_ORCHESTRATED_MODULE_OF_HPP
