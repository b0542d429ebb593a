// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/contract.hpp>

#include "own.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>
