// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_CONFIG_HPP
#define BALLAST_CORE_CONFIG_HPP

// IWYU pragma: always_keep
// Every other header includes this one first, directly or through others. A header of that name
// does not exist: an error that ends the compilation, before thousands that follow from the first.
#if __cplusplus < 202002L
#error "ballast needs C++20: compile with -std=c++20 or newer"
#include "ballast needs C++20"
#endif

/// Marks leaf arithmetic that kernels may call: nothing for a host compiler, `__host__ __device__`
/// for nvcc. Callers need no `--expt-relaxed-constexpr`.
#ifdef __CUDACC__
#define BALLAST_HOST_DEVICE __host__ __device__
#else
#define BALLAST_HOST_DEVICE
#endif

#endif  // BALLAST_CORE_CONFIG_HPP
