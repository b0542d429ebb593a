// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_HPP
#define BALLAST_RUNTIME_HPP

/// All of ballast/runtime: what runs beside training: the profiler of a model's modules, and the
/// balancer of a training loop's steps.

#include <ballast/runtime/agreed_clock.hpp>
#include <ballast/runtime/memory_profiler.hpp>
#include <ballast/runtime/model_profiler.hpp>
#include <ballast/runtime/profiler_clock.hpp>
#include <ballast/runtime/reprofile.hpp>
#include <ballast/runtime/step_balancer.hpp>

#endif  // BALLAST_RUNTIME_HPP
