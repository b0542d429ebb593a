// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/latency_fit.hpp>

namespace c_interface {
namespace {

ballast_cost written(ballast::quadratic_cost const& cost)
{
  ballast_cost found{};
  found.linear = cost.linear;
  found.quadratic = cost.quadratic;
  found.fraction_bits = cost.fraction_bits;
  return found;
}

/// The exact FLOP of what was measured.
result<ballast::flop_polynomial> flops_of(char const* model, ballast::cost_spec const& spec,
                                          bool whole_steps)
{
  if (spec.forward.linear == 0) {
    return fail(error_code::out_of_range, 0, "'", model,
                "' has no FLOP to fit; write 'transformer:d=3072,layers=28' with your numbers");
  }
  if (whole_steps) { return ballast::step_flops(spec.forward, spec.passes); }
  return spec.forward;
}

ballast_fit report_of(ballast::gamma_fit const& fit, ballast::quadratic_cost const& cost,
                      std::vector<std::size_t> const& misfits)
{
  ballast_fit found{};
  found.linear = cost.linear;
  found.quadratic = cost.quadratic;
  found.fraction_bits = cost.fraction_bits;
  found.seconds_per_flop = fit.seconds_per_flop;
  found.gamma = fit.gamma;
  found.seconds_per_call = fit.seconds_per_call;
  found.median_relative_error = fit.median_relative_error;
  found.r_squared = fit.r_squared;
  found.misfits = misfits.size();
  found.misfit = misfits.data();
  return found;
}

result<ballast_fit> fit_samples(ballast_planner& planner, ballast_fit_step const& step,
                                ballast::flop_polynomial const& flops)
{
  std::vector<ballast::gamma_fit::measurement> measured;
  measured.reserve(step.measurements);
  for (std::size_t at = 0; at < step.measurements; ++at) {
    measured.push_back({step.lengths[at], step.seconds[at]});
  }
  auto const fit = ballast::fit_latency(measured, flops);
  if (!fit) { return tl::unexpected(fit.error()); }
  auto const cost = ballast::latency_cost(*fit, flops);
  if (!cost) { return tl::unexpected(cost.error()); }
  planner.misfits = fit->misfits(measured, flops);
  return report_of(*fit, *cost, planner.misfits);
}

result<ballast_fit> fit_whole_steps(ballast_planner& planner, ballast_fit_step const& step,
                                    ballast::cost_spec const& spec,
                                    ballast::flop_polynomial const& flops)
{
  constexpr std::size_t long_log = 20;  // as ballast plan --measured
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  std::vector<ballast::step_fit::measurement> measured;
  measured.reserve(step.measurements);
  for (std::size_t at = 0; at < step.measurements; ++at) {
    std::int64_t const* const row = step.steps + 4 * at;
    if (row[1] < 0 || row[2] < 0 || row[2] > most || row[3] < 0 || row[3] > most) {
      return fail(error_code::out_of_range, at, "step ", at, " has ", row[2], " sequences on ",
                  row[3], " GPUs; give numbers from 0 to ", most);
    }
    measured.push_back({row[0], static_cast<std::uint64_t>(row[1]),
                        static_cast<std::uint32_t>(row[2]), static_cast<std::uint32_t>(row[3]),
                        step.seconds[at]});
  }
  ballast::step_fit::terms terms{.gamma = spec.gamma};
  if (measured.size() >= long_log) { terms = {.gamma = {}, .sequences = true, .steps = true}; }
  auto const fit = ballast::fit_steps(measured, flops, terms);
  if (!fit) { return tl::unexpected(fit.error()); }
  auto const cost = fit->cost(flops);
  if (!cost) { return tl::unexpected(cost.error()); }
  planner.misfits = fit->misfits(measured, flops);
  ballast_fit found = report_of(fit->compute, *cost, planner.misfits);
  found.seconds_per_exchanged_token = fit->seconds_per_exchanged_token;
  found.seconds_per_sequence = fit->seconds_per_sequence;
  return found;
}

result<ballast_fit> fit_step(ballast_planner& planner, ballast_fit_step const& step)
{
  auto const spec = cost_of(step.model);
  if (!spec) { return tl::unexpected(spec.error()); }
  auto const seconds = array("seconds", step.seconds, step.measurements);
  if (!seconds) { return tl::unexpected(seconds.error()); }
  if (step.lengths == nullptr && step.steps == nullptr && step.measurements > 0) {
    return fail(error_code::out_of_range, 0, "lengths and steps are null; give one of them");
  }
  bool const of_steps = step.lengths == nullptr;
  auto const flops = flops_of(step.model == nullptr ? "tokens" : step.model, *spec, of_steps);
  if (!flops) { return tl::unexpected(flops.error()); }
  return of_steps ? fit_whole_steps(planner, step, *spec, *flops)
                  : fit_samples(planner, step, *flops);
}

}  // namespace
}  // namespace c_interface

int ballast_read_cost(ballast_planner* planner, char const* text, ballast_cost* cost)
{
  return c_interface::write_answer(planner, cost, [&] {
    return c_interface::cost_of(text).map(
        [](ballast::cost_spec const& spec) { return c_interface::written(spec.cost); });
  });
}

int ballast_price(ballast_planner* planner, ballast_cost const* cost, std::size_t samples,
                  std::int64_t const* lengths, std::int64_t* costs)
{
  using namespace c_interface;
  return guarded(planner, [&]() -> result<void> {
    auto const model = read(cost).and_then(model_of);
    if (!model) { return tl::unexpected(model.error()); }
    auto const given = array("lengths", lengths, samples);
    if (!given) { return tl::unexpected(given.error()); }
    if (auto const out = array("costs", costs, samples); !out) {
      return tl::unexpected(out.error());
    }
    std::transform(given->begin(), given->end(), costs, *model);
    return {};
  });
}

int ballast_fit_cost(ballast_planner* planner, ballast_fit_step const* step, ballast_fit* fit)
{
  return c_interface::answer(planner, step, fit, c_interface::fit_step);
}

int ballast_shuffle(ballast_planner* planner, std::uint64_t seed, std::size_t count,
                    std::int64_t* order)
{
  using namespace c_interface;
  return guarded(planner, [&]() -> result<void> {
    if (auto const out = array("order", order, count); !out) { return tl::unexpected(out.error()); }
    std::span const items(order, count);
    std::iota(items.begin(), items.end(), std::int64_t{0});
    ballast::random_source(seed).shuffle(items);
    return {};
  });
}
