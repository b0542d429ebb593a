// SPDX-License-Identifier: Apache-2.0
#define BALLAST_COMPILED  // other parts have these
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/padded/pad_grid.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include "own.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/step_balancer.hpp>
