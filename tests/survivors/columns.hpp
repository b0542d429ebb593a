// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "faults.hpp"

#include <chrono>
#include <cstddef>

namespace survivors {

answers on_threads(std::size_t ranks, fault what, std::chrono::milliseconds deadline);

/// Threads over stand-ins for NCCL and CUDA.
answers over_nccl(std::size_t ranks, fault what, std::chrono::milliseconds deadline);

/// Starts mpirun with this program, `program`, whose processes call mpi_rank().
answers over_mpi(char const* program, std::size_t ranks, fault what,
                 std::chrono::milliseconds deadline);
int mpi_rank(fault what, std::chrono::milliseconds deadline);

}  // namespace survivors
