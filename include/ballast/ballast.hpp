// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a training step needs: what samples cost, bags of GPUs, a plan of who computes what, also in
/// several microbatches, the route that takes tokens there and back over any communicator,
/// ranks that are threads, and step_balancer, which does all of it. Each floor has an umbrella of
/// its own (ballast/partition.hpp, ballast/pipeline.hpp, ...), and every header can be included by
/// itself.

// IWYU pragma: begin_exports
#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/version.hpp>
// IWYU pragma: end_exports
