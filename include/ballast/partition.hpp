// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/partition: who computes what: the front door, policies, bounds, packing, several
/// quantities at once.

// IWYU pragma: begin_exports
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/padded/pad_grid.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/peak_tokens.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
// IWYU pragma: end_exports
