// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/version.hpp>

#include <array>
#include <limits>
#include <new>

static_assert(1 + static_cast<int>(ballast::error_code::syntax) == BALLAST_SYNTAX);
static_assert(1 + static_cast<int>(ballast::error_code::infeasible) == BALLAST_INFEASIBLE);
static_assert(1 + static_cast<int>(ballast::error_code::mismatch) == BALLAST_MISMATCH);
static_assert(1 + static_cast<int>(ballast::error_code::failed) == BALLAST_FAILED);
// NO_MEMORY is the number after it, so what came later has numbers of its own.
static_assert(static_cast<int>(ballast::error_code::cancelled) == BALLAST_FAILED);

namespace c_interface {

result<ballast::counts> counts_of(ballast_counts const& given)
{
  using rule = ballast::counts::rule;
  constexpr std::array rules{rule::any, rule::at_most, rule::equal, rule::multiple_of,
                             rule::filled};
  if (given.kind >= rules.size()) {
    return fail(error_code::out_of_range, 0, "a number of samples is of kind ", given.kind,
                "; give one of ballast_counts_kind");
  }
  ballast::counts found{.kind = rules[given.kind]};
  bool const is_numbered = found.kind == rule::at_most || found.kind == rule::multiple_of;
  if (is_numbered || given.number != 0) { found.number = given.number; }
  return found;
}

result<void> read_limits(ballast::placement_limits& limits, fit_table& fits,
                         ballast_limits const* given, std::size_t samples, std::size_t bags)
{
  if (given == nullptr) { return {}; }
  auto const known = read(given);
  if (!known) { return tl::unexpected(known.error()); }
  auto const also = array("also", known->also, known->caps);
  if (!also) { return tl::unexpected(also.error()); }
  auto const or_none = [](std::int64_t most) { return most == 0 ? ballast::no_limit : most; };
  for (ballast_cap const& each : *also) {
    limits.also.add({.of = optional_array(each.of, samples),
                     .most_per_gpu = or_none(each.most_per_gpu),
                     .most = optional_array(each.most, bags),
                     .rounded_to = each.rounded_to == 0 ? 1 : each.rounded_to,
                     .is_soft = each.is_soft != 0});
  }
  auto const counts = counts_of(known->samples);
  if (!counts) { return tl::unexpected(counts.error()); }
  limits.samples = *counts;
  limits.most_per_gpu = or_none(known->most_per_gpu);
  limits.together = optional_array(known->together, samples);
  limits.apart = optional_array(known->apart, samples);
  limits.home = optional_ranks(known->home, samples);
  limits.starting_loads = optional_array(known->starting_loads, bags);
  fits = {known->fits, bags};
  if (known->fits != nullptr) { limits.fits = fits; }
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (known->then > BALLAST_THEN_LEAST || known->within_per_million > most) {
    return fail(error_code::out_of_range, 0, "then is ", known->then, " and within_per_million ",
                known->within_per_million, "; give one of ballast_then, and a number below 2^32");
  }
  limits.within_per_million = static_cast<std::uint32_t>(known->within_per_million);
  if (known->then == BALLAST_THEN_LEVEL) { limits.then = ballast::most_level; }
  if (known->then == BALLAST_THEN_FEWEST_MOVES) { limits.then = ballast::fewest_moves; }
  if (known->then != BALLAST_THEN_LEAST) { return {}; }
  auto const least = array("least", known->least, samples);
  if (!least) { return tl::unexpected(least.error()); }
  limits.then = ballast::least(*least);
  return {};
}

}  // namespace c_interface

std::uint32_t ballast_version()
{
  return BALLAST_VERSION;
}

ballast_planner* ballast_create()
{
  return new (std::nothrow) ballast_planner;
}

void ballast_destroy(ballast_planner* planner)
{
  delete planner;
}

char const* ballast_error(ballast_planner const* planner)
{
  if (planner == nullptr) { return "the planner is null; make one with ballast_create"; }
  if (planner->is_out_of_memory) { return "there is not enough memory; plan less at once"; }
  return planner->error.message.c_str();
}

std::size_t ballast_error_position(ballast_planner const* planner)
{
  return planner == nullptr || planner->is_out_of_memory ? 0 : planner->error.position;
}

int ballast_cancel_when(ballast_planner* planner, int (*is_cancelled)(void*), void* of)
{
  return ballast_cancel_every(planner, 0, is_cancelled, of);
}

int ballast_cancel_every(ballast_planner* planner, std::size_t microseconds,
                         int (*is_cancelled)(void*), void* of)
{
  return c_interface::guarded(planner, [&]() -> ballast::result<void> {
    constexpr std::size_t most = 3'600'000'000;  // an hour
    planner->stop.is_cancelled = is_cancelled;
    planner->stop.of = of;
    planner->stop.pause = std::chrono::microseconds(std::min(microseconds, most));
    return {};
  });
}
