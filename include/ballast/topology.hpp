// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/topology: compute bags and where they lie on the nodes of a job, and which rank
/// computes what.

// IWYU pragma: begin_exports
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>
#include <ballast/topology/process_grid.hpp>
// IWYU pragma: end_exports
