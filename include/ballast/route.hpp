// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/route: which bytes go where: placements, routes, Ulysses attention, what they
/// cost.

// IWYU pragma: begin_exports
#include <ballast/route/ahead_carrier.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/route/unit_exchange.hpp>
#include <ballast/route/unit_plan.hpp>
// IWYU pragma: end_exports
