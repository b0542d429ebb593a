// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>

#include <cmath>

namespace ballast::inline v0 {

namespace detail {

/// What a fit says of a measured time.
struct fitted_time {
  double fitted = 0;
  double measured = 0;

  [[nodiscard]] double relative_error() const { return std::abs(fitted - measured) / measured; }
};

}  // namespace detail

/// seconds of a call = seconds_per_call + seconds_per_flop * (linear l + gamma * quadratic l^2),
/// and how well that describes what was measured, outliers included.
///
/// A call launches its kernels once, whatever it works on: where samples are packed,
/// `seconds_per_call` is per pack, and only the rest is added up over the samples.
struct gamma_fit {
  /// How long one call of a module took for one sample.
  struct measurement {
    tokens length = 0;
    double seconds = 0;
  };

  double seconds_per_flop = 0;
  double gamma = 0;
  double seconds_per_call = 0;
  double median_relative_error = 0;   ///< of |fitted - measured| / measured
  double rms_relative_error = 0;      ///< root of the mean square of the same
  double largest_relative_error = 0;  ///< the same where it is largest
  double r_squared = 0;               ///< 1 - squared errors / variance, in seconds; 1 is perfect

  /// The fitted time of one call on one sample, in floating point: for reports.
  ///
  /// Expects     0 <= length <= longest_sample.
  [[nodiscard]] double seconds(flop_polynomial flops, tokens length) const
  {
    BALLAST_EXPECTS(0 <= length && length <= longest_sample, "the time of a sample of ", length,
                    " tokens was asked for; lengths are from 0 to ", longest_sample);
    auto const l = static_cast<double>(length);
    return seconds_per_call +
           seconds_per_flop * (static_cast<double>(flops.linear) * l +
                               gamma * static_cast<double>(flops.quadratic) * l * l);
  }

  /// Which measurements are further from the fit than a share of their time, by their indices. One of
  /// many is an outlier; several, or all of one end, say that the formula does not describe the
  /// module there, as where short samples do not fill the GPU: use `interpolated_cost`.
  ///
  /// Expects     lengths from 0 to longest_sample.
  /// Complexity  O(measurements).
  [[nodiscard]] std::vector<std::size_t> misfits(std::span<measurement const> measurements,
                                                 flop_polynomial flops, double share = 0.05) const
  {
    std::vector<std::size_t> found;
    for (std::size_t index = 0; index < measurements.size(); ++index) {
      auto const [length, measured] = measurements[index];
      detail::fitted_time const time{seconds(flops, length), measured};
      if (time.relative_error() > share) { found.push_back(index); }
    }
    return found;
  }

  friend bool operator==(gamma_fit const&, gamma_fit const&) = default;
};

/// The fitted latency as a cost model, for any polynomial of the same module: one layer or all.
///
/// It is the work of a sample, without `seconds_per_call`: that is added once to every call, which
/// may be of many samples, and is the same on every GPU that makes as many calls.
///
/// Units       picoseconds: one cost unit is 1e-12 s, and costs reach 106 days.
/// Ensures     (1) the cost is within 1/2 + l^2 2^(3 - fraction_bits) ps of the formula, or it is
///                 no_cost
/// Errors      out_of_range, position 0: a number of the fit is not finite, seconds_per_flop is not
///             positive, gamma is negative, or a token takes 2^64 ps or more.
/// Complexity  O(1).
[[nodiscard]] inline result<quadratic_cost> latency_cost(gamma_fit const& fit,
                                                         flop_polynomial flops)
{
  auto const seconds_per_flop = detail::scaled_number::from(fit.seconds_per_flop);
  auto const gamma = detail::scaled_number::from(fit.gamma);
  if (!seconds_per_flop || *seconds_per_flop == detail::scaled_number() || !gamma) {
    return fail(error_code::out_of_range, 0,
                "a fit needs finite seconds_per_flop above 0 and finite gamma of at least 0; check "
                "where these numbers were saved");
  }
  detail::scaled_number const ps_per_flop =
      *seconds_per_flop * detail::scaled_number(1'000'000'000'000);
  auto const cost = detail::quantise(ps_per_flop * detail::scaled_number(flops.linear),
                                     ps_per_flop * *gamma * detail::scaled_number(flops.quadratic));
  if (!cost) {
    return fail(error_code::out_of_range, 0,
                "one token takes 2^64 picoseconds or more; check the unit of seconds_per_flop");
  }
  return *cost;
}

namespace detail {

/// Fills in how well a fit describes what was measured.
///
/// Expects     times.size() >= 1; measured times are above 0.
inline void judge_fit(gamma_fit& fit, std::span<fitted_time const> times)
{
  auto const count = static_cast<double>(times.size());
  double mean = 0;
  for (fitted_time const& time : times) { mean += time.measured / count; }
  double squares = 0;
  double variance = 0;
  std::vector<double> relative_errors;
  for (fitted_time const& time : times) {
    double const error = time.fitted - time.measured;
    double const relative = time.relative_error();
    relative_errors.push_back(relative);
    fit.rms_relative_error += relative * relative / count;
    squares += error * error;
    variance += (time.measured - mean) * (time.measured - mean);
  }
  std::sort(relative_errors.begin(), relative_errors.end());
  fit.median_relative_error = relative_errors[relative_errors.size() / 2];
  fit.largest_relative_error = relative_errors.back();
  fit.rms_relative_error = std::sqrt(fit.rms_relative_error);
  fit.r_squared = variance > 0 ? 1 - squares / variance : 0;
}

/// As many as a step has: per token, per token^2, per exchanged token, per sequence, per step. A
/// latency has three.
inline constexpr std::size_t most_unknowns = 5;

using coefficients = std::array<double, most_unknowns>;

/// Which unknowns a fit may use; the others are 0.
using chosen_unknowns = std::array<bool, most_unknowns>;

/// One measurement: the sum of x[i] c[i] should be y.
struct fit_row {
  coefficients x{};
  double y = 0;

  /// How far it is from that.
  [[nodiscard]] double error(coefficients const& c) const
  {
    double sum = 0;
    for (std::size_t unknown = 0; unknown < most_unknowns; ++unknown) {
      sum += x[unknown] * c[unknown];
    }
    return sum - y;
  }

  [[nodiscard]] fit_row operator*(double factor) const
  {
    fit_row scaled{.x = x, .y = y * factor};
    for (double& each : scaled.x) { each *= factor; }
    return scaled;
  }
};

struct fitted_coefficients {
  coefficients c{};
  double squared_errors = std::numeric_limits<double>::max();
};

/// Least squares in the chosen unknowns, whatever their sign; nothing where they depend on each
/// other. Overwrites the rows.
///
/// Modified Gram-Schmidt: what a column explains is taken out of those after it and of y. The
/// normal equations would lose twice the digits where lengths are close to each other, since l and
/// l^2 are nearly parallel there.
[[nodiscard]] inline std::optional<fitted_coefficients> fit_least_squares(
    std::span<fit_row> rows, chosen_unknowns const& chosen)
{
  constexpr double dependent = 1e-28;  // of the squared norm of a column: nothing but rounding
  std::array<coefficients, most_unknowns> shares{};  // of the column in the columns after it
  fitted_coefficients fit{.c = {}, .squared_errors = 0};
  coefficients norms{};
  for (std::size_t column = 0; column < most_unknowns; ++column) {
    if (!chosen[column]) { continue; }
    for (fit_row const& row : rows) { norms[column] += row.x[column] * row.x[column]; }
  }
  for (std::size_t column = 0; column < most_unknowns; ++column) {
    if (!chosen[column]) { continue; }
    double square = 0;
    double of_y = 0;
    coefficients products{};
    for (fit_row const& row : rows) {
      square += row.x[column] * row.x[column];
      of_y += row.x[column] * row.y;
      for (std::size_t after = column + 1; after < most_unknowns; ++after) {
        if (chosen[after]) { products[after] += row.x[column] * row.x[after]; }
      }
    }
    if (!(square > dependent * norms[column])) { return std::nullopt; }
    fit.c[column] = of_y / square;
    for (std::size_t after = column + 1; after < most_unknowns; ++after) {
      shares[column][after] = products[after] / square;
    }
    for (fit_row& row : rows) {
      row.y -= fit.c[column] * row.x[column];
      for (std::size_t after = column + 1; after < most_unknowns; ++after) {
        if (chosen[after]) { row.x[after] -= shares[column][after] * row.x[column]; }
      }
    }
  }
  for (std::size_t column = most_unknowns; column-- > 0;) {
    for (std::size_t after = column + 1; after < most_unknowns; ++after) {
      if (chosen[column] && chosen[after]) {
        fit.c[column] -= shares[column][after] * fit.c[after];
      }
    }
  }
  for (fit_row const& row : rows) { fit.squared_errors += row.y * row.y; }
  return fit;
}

/// Least squares in the chosen unknowns, none of them negative, by cases: the best admissible
/// coefficients are the least squares of those that are not 0.
///
/// Ensures     (1) no other coefficients of the chosen unknowns that are not negative have a
///                 smaller sum of squared errors, up to floating-point rounding
/// Complexity  O(rows); `scratch` is overwritten.
/// Source      C. L. Lawson, R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.
[[nodiscard]] inline fitted_coefficients fit_nonnegative(std::span<fit_row const> rows,
                                                         chosen_unknowns const& chosen,
                                                         std::vector<fit_row>& scratch)
{
  fitted_coefficients best;
  for (unsigned subset = 0; subset < (1U << most_unknowns); ++subset) {
    chosen_unknowns used{};
    bool allowed = true;
    for (std::size_t unknown = 0; unknown < most_unknowns; ++unknown) {
      used[unknown] = ((subset >> unknown) & 1U) != 0;
      allowed = allowed && (chosen[unknown] || !used[unknown]);
    }
    if (!allowed) { continue; }
    scratch.assign(rows.begin(), rows.end());
    auto const fit = fit_least_squares(mutable_span_of(scratch), used);
    if (fit && *std::min_element(fit->c.begin(), fit->c.end()) >= 0 &&
        fit->squared_errors < best.squared_errors) {
      best = *fit;
    }
  }
  return best;
}

/// Tukey's loss of an error: it grows as the square does near 0, and is 1 from the limit on, so
/// that it does not matter how wrong a wrong measurement is.
[[nodiscard]] inline double tukey_loss(double error, double limit)
{
  double const rest = 1 - error * error / (limit * limit);
  return rest > 0 ? 1 - rest * rest * rest : 1;
}

struct robust_coefficients {
  coefficients c{};
  double limit = 0;  ///< errors from here on are outliers
};

/// Coefficients that are not negative and follow most of the rows, however far off the others are.
///
/// A robust loss alone is not enough: iterations from least squares stay with an outlier of the
/// longest samples, which the fit follows most. So many small sets of rows are fitted exactly; the
/// one closest to more than half of all rows says how large errors are, and Tukey's loss is made
/// small from the best of them on, by least squares with weights.
///
/// Expects     rows.size() >= the number of chosen unknowns >= 1; errors are relative.
/// Ensures     (1) the sum of tukey_loss(error, limit) is no larger than for any of the sets
///                 fitted; weighted least squares then make it smaller, a hundred times at most
///             (2) limit is at least 0.01: a measurement within 1 % is never left out
///             (3) the same for the same rows: the sets are drawn with a fixed seed
/// Complexity  O(rows) times about a thousand.
/// Source      V. J. Yohai, "High Breakdown-Point and High Efficiency Robust Estimates for
///             Regression", Annals of Statistics 15, 1987; the first scale as in P. J. Rousseeuw,
///             A. M. Leroy, "Robust Regression and Outlier Detection", 1987, chapter 5.
[[nodiscard]] inline robust_coefficients fit_robustly(std::span<fit_row const> rows,
                                                      chosen_unknowns const& chosen)
{
  constexpr int drawn_sets = 1000;
  constexpr int most_steps = 100;
  constexpr double tukey = 4.685;  // 95 % as efficient as least squares under normal noise
  auto const unknowns = static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true));
  std::vector<fit_row> scratch;

  std::vector<coefficients> candidates = {fit_nonnegative(rows, chosen, scratch).c};
  random_source random(1987);
  for (int draw = 0; draw < drawn_sets; ++draw) {
    std::array<std::size_t, most_unknowns> drawn{};
    std::array<fit_row, most_unknowns> set{};
    bool distinct = true;
    for (std::size_t i = 0; i < unknowns; ++i) {
      drawn[i] = static_cast<std::size_t>(random.below(rows.size()));
      set[i] = rows[drawn[i]];
      for (std::size_t j = 0; j < i; ++j) { distinct = distinct && drawn[j] != drawn[i]; }
    }
    if (!distinct) { continue; }
    candidates.push_back(fit_nonnegative({set.data(), unknowns}, chosen, scratch).c);
  }

  // The error that more than half of the rows stay within, where that is smallest.
  std::size_t const most = std::min(rows.size(), rows.size() / 2 + (unknowns + 1) / 2);
  double within = std::numeric_limits<double>::max();
  std::vector<double> errors(rows.size());
  for (coefficients const& c : candidates) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      errors[row] = std::abs(rows[row].error(c));
    }
    auto const last = errors.begin() + static_cast<std::ptrdiff_t>(most - 1);
    std::nth_element(errors.begin(), last, errors.end());
    within = std::min(within, *last);
  }
  // As a standard deviation of normal noise; few rows fit better than they should.
  auto const spare = static_cast<double>(std::max<std::size_t>(1, rows.size() - unknowns));
  double const limit = std::max(0.01, tukey * 1.4826 * (1 + 5 / spare) * within);

  auto const loss = [&](coefficients const& c) {
    double sum = 0;
    for (fit_row const& row : rows) { sum += tukey_loss(row.error(c), limit); }
    return sum;
  };
  coefficients best = candidates.front();
  double least = loss(best);
  for (coefficients const& c : candidates) {
    double const of_candidate = loss(c);
    if (of_candidate < least) {
      least = of_candidate;
      best = c;
    }
  }
  std::vector<fit_row> weighted(rows.size());
  for (int step = 0; step < most_steps; ++step) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      double const error = rows[row].error(best);
      weighted[row] = rows[row] * std::max(0.0, 1 - error * error / (limit * limit));
    }
    coefficients const next = fit_nonnegative(span_of(weighted), chosen, scratch).c;
    double const of_next = loss(next);
    if (!(of_next < least)) { break; }
    least = of_next;
    best = next;
  }
  return {.c = best, .limit = limit};
}

}  // namespace detail

/// Fits (seconds_per_flop, gamma, seconds_per_call), none of them negative, to what most of the
/// measurements say: a time that was disturbed moves nothing, however long it is.
///
/// Errors count relative to the measured times, so that short samples, which tell of launches,
/// count as much as long ones. Measurements of two lengths cannot tell the time per call from the
/// rest, so it is 0. One outlier of seven lengths is found; measure each length several times, and
/// more than a tenth of all may be outliers. `misfits` names them, or the lengths where the formula
/// does not hold.
///
/// Floating-point sums differ between builds: one rank fits, and its numbers are saved or
/// broadcast. From there on `latency_cost` works in integers.
///
/// Shapes      measurements[n]; n >= 2.
/// Units       `flops` is that of the passes that were timed.
/// Expects     both coefficients of `flops` are at least 1.
/// Ensures     (1) exact times give back what made them, up to floating-point rounding
///             (2) from the best of a thousand fits to a few of them on, Tukey's loss of the errors
///                 is made smaller; its limit, 4.7 standard deviations of what most measurements
///                 scatter by, is at least 1 %
///             (3) the same in every call with the same measurements in the same order
/// Errors      out_of_range: measurement `position` has a length outside [1, longest_sample] or a
///             time outside [1e-12, 1e9] seconds; infeasible: fewer than two lengths differ, or the
///             times have no part that grows with the length alone, so that gamma would be infinite
///             or anything.
/// Complexity  O(n) times about a thousand.
/// Source      V. J. Yohai, "High Breakdown-Point and High Efficiency Robust Estimates for
///             Regression", Annals of Statistics 15, 1987.
[[nodiscard]] inline result<gamma_fit> fit_latency(
    std::span<gamma_fit::measurement const> measurements, flop_polynomial flops)
{
  BALLAST_EXPECTS(flops.linear >= 1 && flops.quadratic >= 1,
                  "the FLOP to fit have the coefficients ", flops.linear, " and ", flops.quadratic,
                  ", and the least of both is 1");
  auto const linear = static_cast<double>(flops.linear);
  auto const quadratic = static_cast<double>(flops.quadratic);
  std::vector<detail::fit_row> rows;
  std::vector<tokens> lengths;
  for (std::size_t index = 0; index < measurements.size(); ++index) {
    auto const [length, seconds] = measurements[index];
    if (length < 1 || length > longest_sample) {
      return fail(error_code::out_of_range, index, "measurement ", index, " has a length of ",
                  detail::counted(length, "token"), "; lengths from 1 to ", longest_sample,
                  " can be fitted");
    }
    // from() looks at the bits, since -ffast-math lets a compiler assume that no double is
    // infinite.
    if (!detail::scaled_number::from(seconds) || seconds < 1e-12 || seconds > 1e9) {
      return fail(error_code::out_of_range, index, "measurement ", index,
                  " has no positive, finite time in seconds; measure it again or remove it");
    }
    auto const l = static_cast<double>(length);
    rows.push_back({.x = {linear * l / seconds, quadratic * l * l / seconds, 1 / seconds}, .y = 1});
    lengths.push_back(length);
  }
  std::sort(lengths.begin(), lengths.end());
  auto const different = std::unique(lengths.begin(), lengths.end()) - lengths.begin();
  if (different < 2) {
    return fail(
        error_code::infeasible, 0,
        "two unknowns need measurements of at least two different lengths; measure another one");
  }

  auto const c = detail::fit_robustly(detail::span_of(rows), {true, true, different > 2}).c;
  double const per_flop = c[0];
  double const per_attention_flop = c[1];
  if (per_attention_flop == 0 && !(per_flop > 0)) {
    return fail(error_code::infeasible, 0,
                "the times do not grow with the length, so they tell of launches only; measure "
                "longer samples as well");
  }
  if (!(per_flop > 0) || per_attention_flop > 1e9 * per_flop) {
    return fail(error_code::infeasible, 0,
                "the times grow as the square of the length or faster, which leaves gamma without "
                "a finite value; measure shorter samples as well");
  }

  gamma_fit fit{.seconds_per_flop = per_flop,
                .gamma = per_attention_flop / per_flop,
                .seconds_per_call = c[2]};
  std::vector<detail::fitted_time> times;
  for (auto const& [length, seconds] : measurements) {
    times.push_back({fit.seconds(flops, length), seconds});
  }
  detail::judge_fit(fit, detail::span_of(times));
  return fit;
}

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
