// SPDX-License-Identifier: Apache-2.0
// Stands for <ballast/cuda/device_ulysses.cuh>.
#pragma once

#include <ballast/cuda/prepared_heads.cuh>
