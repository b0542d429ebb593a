// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/temporary_storage.hpp>

#include "../../support/test.hpp"

namespace {

using ballast::detail::device_attribute;

TEST(DeviceAttribute, IsCudasOrItsError)
{
  int device = 0;
  cudaError_t const has_device = cudaGetDevice(&device);
  int threads = -1;
  EXPECT_EQ(device_attribute(threads, cudaDevAttrMaxThreadsPerBlock), has_device);
  if (has_device == cudaSuccess) {
    EXPECT_GE(threads, 1024);
  } else {
    EXPECT_EQ(threads, -1);
  }
  (void)cudaGetLastError();
}

}  // namespace
