// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/workload: traces, data codes, synthetic lengths, histograms, sizes in modules:
/// where samples come from.

// IWYU pragma: begin_exports
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/sample_batch.hpp>
#include <ballast/workload/synthetic_lengths.hpp>
// IWYU pragma: end_exports
