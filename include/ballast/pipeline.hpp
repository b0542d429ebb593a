// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_HPP
#define BALLAST_PIPELINE_HPP

/// All of ballast/pipeline: in which order: schedules, the simulator, bounds, order policies.

// IWYU pragma: begin_exports
#include <ballast/pipeline/activation_memory.hpp>
#include <ballast/pipeline/ascending_order.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/exact_order.hpp>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/pipeline/gpipe.hpp>
#include <ballast/pipeline/insertion.hpp>
#include <ballast/pipeline/interleaved_one_forward_one_backward.hpp>
#include <ballast/pipeline/interval_filling.hpp>
#include <ballast/pipeline/joined_stages.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/module_times.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/order_lower_bound.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_plan.hpp>
#include <ballast/pipeline/pass_costs.hpp>
#include <ballast/pipeline/pipeline_timeline.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/read_pipeline_times.hpp>
#include <ballast/pipeline/read_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
// IWYU pragma: end_exports

#endif  // BALLAST_PIPELINE_HPP
