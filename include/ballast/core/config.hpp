// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_CONFIG_HPP
#define BALLAST_CORE_CONFIG_HPP

/// Marks leaf arithmetic that kernels may call: nothing for a host compiler, `__host__ __device__`
/// for nvcc. Callers need no `--expt-relaxed-constexpr`.
#ifdef __CUDACC__
#define BALLAST_HOST_DEVICE __host__ __device__
#else
#define BALLAST_HOST_DEVICE
#endif

#endif  // BALLAST_CORE_CONFIG_HPP
