// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/report: what happened: metrics, timelines, a log of steps.

// IWYU pragma: begin_exports
#include <ballast/report/chrome_trace.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/report/step_log.hpp>
#include <ballast/report/step_memory.hpp>
// IWYU pragma: end_exports
