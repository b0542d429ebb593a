// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/pipeline: in which order: schedules, the simulator, bounds, order policies.

// IWYU pragma: begin_exports
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/module_times.hpp>
#include <ballast/pipeline/order_lower_bound.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/pipeline_files.hpp>
#include <ballast/pipeline/plan_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
// IWYU pragma: end_exports
