// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/latency_fit.hpp>

namespace ballast::inline v0 {

/// seconds of a step = compute.seconds_per_call
///     + compute.seconds_per_flop * (linear sum l + gamma * quadratic sum l^2) / G
///     + seconds_per_exchanged_token * (1 - 1/G) * (sum l) / G
///     + seconds_per_sequence * sequences
///
/// with the sums over the sequences of a bag of G GPUs. Of its sum l / G tokens a GPU exchanges all
/// but the share 1/G that stays with it: in Ulysses' all-to-alls, by copying rows, and by what
/// smaller pieces cost its kernels. All GPUs of a bag launch what a sequence takes.
struct step_fit {
  /// How long a training step took, and what the bag had to do that the others waited for.
  ///
  /// A log of steps has one for each step. Where it has the times of all bags, each is a measurement.
  struct measurement {
    tokens length_sum = 0;         ///< tokens of the bag's sequences
    std::uint64_t square_sum = 0;  ///< their lengths squared, added up
    std::uint32_t sequences = 0;
    std::uint32_t gpus = 1;  ///< of the bag
    double seconds = 0;
  };

  /// What the time of a step consists of: the coefficients that fit_steps() looks for.
  ///
  /// Every term needs steps that differ in it, and more of them than terms. With few, give gamma and
  /// leave out the others; from 20 on a log can tell all five.
  struct terms {
    std::optional<double> gamma = {};  ///< as fit_latency() found it; none: fitted
    bool sequences = false;            ///< whether each sequence takes time whatever its length
    bool steps = false;                ///< whether each step takes time whatever its sequences

    friend bool operator==(terms const&, terms const&) = default;
  };

  gamma_fit
      compute;  ///< of the GPU's own work; a call is a step, and errors are those of all terms
  double seconds_per_exchanged_token = 0;
  double seconds_per_sequence = 0;

  /// The fitted time of a step, in floating point: for reports.
  ///
  /// Expects     step.gpus >= 1.
  [[nodiscard]] double seconds(flop_polynomial flops, measurement const& step) const
  {
    BALLAST_EXPECTS(step.gpus >= 1, "the time of a step on a bag without GPUs was asked for");
    auto const gpus = static_cast<double>(step.gpus);
    auto const tokens_of_gpu = static_cast<double>(step.length_sum) / gpus;
    auto const squares_of_gpu = static_cast<double>(step.square_sum) / gpus;
    gamma_fit const& own = compute;
    return own.seconds_per_call +
           own.seconds_per_flop *
               (static_cast<double>(flops.linear) * tokens_of_gpu +
                own.gamma * static_cast<double>(flops.quadratic) * squares_of_gpu) +
           seconds_per_exchanged_token * (1 - 1 / gpus) * tokens_of_gpu +
           seconds_per_sequence * static_cast<double>(step.sequences);
  }

  /// Which steps took a share of their time more or less than the fit says, by their indices: the
  /// one in which a GPU waited for a file, or all of one size of bags, which the formula does not
  /// describe.
  ///
  /// Expects     as for seconds().
  /// Complexity  O(steps).
  [[nodiscard]] std::vector<std::size_t> misfits(std::span<measurement const> steps,
                                                 flop_polynomial flops, double share = 0.05) const
  {
    std::vector<std::size_t> found;
    for (std::size_t index = 0; index < steps.size(); ++index) {
      detail::fitted_time const time{seconds(flops, steps[index]), steps[index].seconds};
      if (time.relative_error() > share) { found.push_back(index); }
    }
    return found;
  }

  /// The fitted work of one sequence as a cost model, without what bags exchange and what a sequence
  /// or a step takes whatever its length: `price_bag_exchanges(fit)` has that.
  ///
  /// Units       nanoseconds: a cost unit is 1e-9 s, so that the steps of a large job add up.
  /// Errors      as for latency_cost.
  /// Complexity  O(1).
  [[nodiscard]] result<quadratic_cost> cost(flop_polynomial flops) const
  {
    gamma_fit in_nanoseconds = compute;  // picoseconds of a fit in thousandths
    in_nanoseconds.seconds_per_flop /= 1000;
    return latency_cost(in_nanoseconds, flops);
  }

  friend bool operator==(step_fit const&, step_fit const&) = default;
};

namespace detail {

/// Why a measured step cannot be fitted.
[[nodiscard]] inline std::optional<error> refused_step(step_fit::measurement const& step,
                                                       std::size_t index)
{
  auto const refuse = [index](auto const&... why) {
    return fail(error_code::out_of_range, index, "step ", index, why...).value();
  };
  if (step.length_sum < 1 || step.sequences < 1 || step.gpus < 1) {
    return refuse(" has ", counted(step.length_sum, "token"), " in ",
                  counted(step.sequences, "sequence"), " on ", counted(step.gpus, "GPU"),
                  ", and the least of each is 1; leave out bags without work");
  }
  if (step.square_sum < static_cast<std::uint64_t>(step.length_sum)) {
    return refuse(" has ", counted(step.length_sum, "token"), " whose squared lengths add up to ",
                  step.square_sum, ", which is less; add up the square of each length");
  }
  // from() looks at the bits, since -ffast-math lets a compiler assume that no double is infinite.
  if (!scaled_number::from(step.seconds) || step.seconds < 1e-12 || step.seconds > 1e9) {
    return refuse(" has no positive, finite time in seconds; measure it again or remove it");
  }
  return std::nullopt;
}

}  // namespace detail

/// Fits the terms of a step, none of them negative, to what most of the measured steps say: one
/// that was disturbed moves nothing, however long it took.
///
/// It takes what a training job logs anyway, where `fit_latency` needs calls of one sample each: a
/// step of any sequences on a bag of any size. Errors count relative to the measured times.
/// `misfits` names the steps that are off. Which bag others wait for depends on what is fitted; the
/// one with the most work per GPU is close enough.
///
/// Floating-point sums differ between builds: one rank fits, and its numbers are saved or
/// broadcast. From there on `cost` and `price_bag_exchanges` work in integers.
///
/// Shapes      steps[n]; n >= the number of terms.
/// Units       `flops` is that of the passes that were timed: those of a whole step.
/// Expects     both coefficients of `flops` are at least 1.
/// Ensures     (1) exact times give back what made them, up to floating-point rounding
///             (2) as those of fit_latency: Tukey's loss of the errors is made smaller
///             (3) the same in every call with the same steps in the same order
///             (4) where no bag has two GPUs, seconds_per_exchanged_token is 0
/// Errors      out_of_range: step `position` has no token, sequence or GPU, squares that are less
///             than its tokens, or a time outside [1e-12, 1e9] seconds; or the gamma given is
///             negative or no number (position n); infeasible: there are fewer steps than terms, or
///             the times do not grow with the work, or with its square alone.
/// Complexity  O(n) times about a thousand.
/// Source      the form is that of K. Zhang et al., "KnapFormer", arXiv 2508.06001, 2025, equation
///             2, and of S. A. Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509, 2023, section 3.
[[nodiscard]] inline result<step_fit> fit_steps(std::span<step_fit::measurement const> steps,
                                                flop_polynomial flops,
                                                step_fit::terms const& terms = {})
{
  BALLAST_EXPECTS(flops.linear >= 1 && flops.quadratic >= 1,
                  "the FLOP to fit have the coefficients ", flops.linear, " and ", flops.quadratic,
                  ", and the least of both is 1");
  if (terms.gamma && !detail::scaled_number::from(*terms.gamma)) {
    return fail(error_code::out_of_range, steps.size(),
                "gamma is negative or not finite; give that of fit_latency, or none");
  }
  std::vector<detail::fit_row> rows;
  bool shared = false;
  for (std::size_t index = 0; index < steps.size(); ++index) {
    step_fit::measurement const& step = steps[index];
    if (auto refused = detail::refused_step(step, index)) { return tl::unexpected(*refused); }
    auto const gpus = static_cast<double>(step.gpus);
    double const linear = static_cast<double>(flops.linear) * static_cast<double>(step.length_sum);
    double const quadratic =
        static_cast<double>(flops.quadratic) * static_cast<double>(step.square_sum);
    double const exchanged = (1 - 1 / gpus) * static_cast<double>(step.length_sum);
    double const part = 1 / (gpus * step.seconds);
    rows.push_back({.x = {(linear + terms.gamma.value_or(0) * quadratic) * part, quadratic * part,
                          exchanged * part, static_cast<double>(step.sequences) / step.seconds,
                          1 / step.seconds},
                    .y = 1});
    shared = shared || step.gpus > 1;
  }
  detail::chosen_unknowns const chosen = {true, !terms.gamma, shared, terms.sequences, terms.steps};
  auto const unknowns = static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true));
  if (steps.size() < unknowns) {
    return fail(error_code::infeasible, 0, unknowns, " terms need at least as many steps, and ",
                steps.size(), " were measured; measure more, or leave out terms");
  }

  detail::coefficients const c = detail::fit_robustly(detail::span_of(rows), chosen).c;
  if (!(c[0] > 0)) {
    return fail(error_code::infeasible, 0,
                "the times do not grow with the tokens, which leaves no speed; measure steps that "
                "differ more, leave out terms, or give gamma");
  }
  double const gamma = terms.gamma.value_or(c[1] / c[0]);
  if (gamma > 1e9) {
    return fail(
        error_code::infeasible, 0,
        "the times grow as the squares of the lengths or faster, which leaves gamma without "
        "a finite value; measure steps of shorter sequences as well, or give gamma");
  }
  step_fit fit{.compute = {.seconds_per_flop = c[0], .gamma = gamma, .seconds_per_call = c[4]},
               .seconds_per_exchanged_token = c[2],
               .seconds_per_sequence = c[3]};
  std::vector<detail::fitted_time> times;
  for (step_fit::measurement const& step : steps) {
    times.push_back({fit.seconds(flops, step), step.seconds});
  }
  detail::judge_fit(fit.compute, detail::span_of(times));
  return fit;
}

}  // namespace ballast::inline v0
