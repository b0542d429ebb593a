// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_DEVICE_DEVICE_BAG_HPP
#define BALLAST_TESTS_DEVICE_DEVICE_BAG_HPP

#include <gtest/gtest.h>
#include <ballast/cuda/device_ulysses.cuh>
#include <ballast/gpu/device_array.hpp>
#include <ballast/gpu/pinned_allocator.hpp>

#include <cstddef>
#include <vector>

namespace ballast_test {

/// A device_ulysses and its memory.
class device_bag {
 public:
  explicit device_bag(ballast::ulysses_bound bound)
      : device_(bytes_of(bound)),
        pinned_(ballast::device_ulysses::pinned_bytes(bound)),
        heads_(bound, device_.span(), pinned_)
  {}

  [[nodiscard]] ballast::device_ulysses& heads() { return heads_; }

 private:
  static std::size_t bytes_of(ballast::ulysses_bound bound)
  {
    std::size_t bytes = 0;
    EXPECT_EQ(ballast::device_ulysses::device_bytes(bound, bytes), cudaSuccess);
    return bytes;
  }

  ballast::device_array<std::byte> device_;
  std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned_;
  ballast::device_ulysses heads_;
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_DEVICE_DEVICE_BAG_HPP
