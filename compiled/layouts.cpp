// SPDX-License-Identifier: Apache-2.0
#define BALLAST_COMPILED  // other parts have these
#include <ballast/partition/partition.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include "own.hpp"

#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/parallelism/search_layouts.hpp>
