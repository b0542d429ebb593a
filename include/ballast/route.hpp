// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_HPP
#define BALLAST_ROUTE_HPP

/// All of ballast/route: which bytes go where: placements, routes, Ulysses attention, what they
/// cost.

// IWYU pragma: begin_exports
#include <ballast/route/chunking.hpp>
#include <ballast/route/exchange_cost.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/head_block.hpp>
#include <ballast/route/head_split.hpp>
#include <ballast/route/join_ranks.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/pack_heads.hpp>
#include <ballast/route/pack_rows.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/place_wholes.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/route/row_carrier.hpp>
#include <ballast/route/row_traffic.hpp>
#include <ballast/route/sequence_rows.hpp>
#include <ballast/route/sharded_event.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/route/ulysses_exchange.hpp>
#include <ballast/route/unit_cost.hpp>
#include <ballast/route/unit_exchange.hpp>
#include <ballast/route/unit_placement.hpp>
#include <ballast/route/unit_plan.hpp>
// IWYU pragma: end_exports

#endif  // BALLAST_ROUTE_HPP
