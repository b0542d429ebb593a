// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/runtime: what runs beside training: the profiler of a model's modules, the
/// balancer of a training loop's steps, the orchestrator of a multimodal model's phases, the
/// scheduler of the next step, correction by measured times, pipelines that run.

// IWYU pragma: begin_exports
#include <ballast/runtime/adaptive_correction.hpp>
#include <ballast/runtime/agreed_clock.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_proxy.hpp>
#include <ballast/runtime/data/data_ranks.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>
#include <ballast/runtime/model_profiler.hpp>
#include <ballast/runtime/online_scheduler.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/orchestrator.hpp>
#include <ballast/runtime/phase_planner.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/runtime/schedule_layout.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/runtime/step_balancer.hpp>
// IWYU pragma: end_exports
