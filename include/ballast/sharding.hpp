// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/sharding: over how many GPUs each sequence of a step is split, and over which;
/// slots that groups of GPUs tile; the rows of packed documents over the ranks of one
/// context-parallel group.

// IWYU pragma: begin_exports
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/plan_slots.hpp>
#include <ballast/sharding/row_split.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/sharding/slots_plan.hpp>
#include <ballast/sharding/split_rows.hpp>
// IWYU pragma: end_exports
