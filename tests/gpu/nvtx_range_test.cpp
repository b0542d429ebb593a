// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/streams.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::nvtx_range;

TEST(NvtxRange, IsNothingUnlessAskedFor)
{
#ifdef NVTX_VERSION
  FAIL() << "nvtx3 was included without BALLAST_NVTX_ENABLED";
#endif
  static_assert(std::is_empty_v<nvtx_range>);
  static_assert(!std::is_copy_constructible_v<nvtx_range>);
  nvtx_range const range("ballast::nothing");
}

}  // namespace
