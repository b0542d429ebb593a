// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/version.hpp>

#include <new>

static_assert(1 + static_cast<int>(ballast::error_code::syntax) == BALLAST_SYNTAX);
static_assert(1 + static_cast<int>(ballast::error_code::infeasible) == BALLAST_INFEASIBLE);
static_assert(1 + static_cast<int>(ballast::error_code::mismatch) == BALLAST_MISMATCH);
static_assert(1 + static_cast<int>(ballast::error_code::failed) == BALLAST_FAILED);
// NO_MEMORY is the number after it, so what came later has numbers of its own.
static_assert(static_cast<int>(ballast::error_code::cancelled) == BALLAST_FAILED);

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
