// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_NVTX_RANGE_HPP
#define BALLAST_GPU_NVTX_RANGE_HPP

#include <ballast/core/contract.hpp>

#ifdef BALLAST_NVTX_ENABLED
#include <nvtx3/nvToolsExt.h>
#endif

namespace ballast::inline v0 {

/// A named range of a thread's time in Nsight Systems, from construction to destruction. It does
/// nothing unless BALLAST_NVTX_ENABLED is defined before the first include, in all files of the
/// program.
class nvtx_range {
 public:
#ifdef BALLAST_NVTX_ENABLED
  explicit nvtx_range(char const* name) { nvtxRangePushA(name); }
  ~nvtx_range() { nvtxRangePop(); }
#else
  explicit nvtx_range(char const*) noexcept {}
  ~nvtx_range() noexcept {}  // so that one that is only declared is no unused variable
#endif
  nvtx_range(nvtx_range const&) = delete;
  nvtx_range& operator=(nvtx_range const&) = delete;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_NVTX_RANGE_HPP
