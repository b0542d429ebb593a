// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_UINT128_HPP
#define BALLAST_CORE_UINT128_HPP

#include <ballast/core/config.hpp>

#ifndef __SIZEOF_INT128__
#error "ballast needs a compiler with 128-bit integers: g++, clang or nvcc on a 64-bit machine"
#endif

namespace ballast::inline v0 {

/// Room for the exact product of two 64-bit numbers, on host and device.
__extension__ typedef unsigned __int128 uint128;  // `using` cannot carry __extension__

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_UINT128_HPP
