// SPDX-License-Identifier: Apache-2.0
#define BALLAST_COMPILED  // other parts have these
#include <ballast/partition/detail/placement/plan_search.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include "own.hpp"

#include <ballast/partition/grid/partition_grid.hpp>
