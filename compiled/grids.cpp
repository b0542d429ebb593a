// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/partition_grid.hpp>
