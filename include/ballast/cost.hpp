// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/cost: what a sample costs, and how a model of it is fitted to measured times.

// IWYU pragma: begin_exports
#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/cost/measured_times.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/sharded_weights.hpp>
// IWYU pragma: end_exports
