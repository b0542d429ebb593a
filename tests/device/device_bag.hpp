// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/device_ulysses.cuh>
#include <ballast/cuda/prepared_heads.cuh>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/streams.hpp>

#include <cstddef>
#include <cstdint>
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

/// A prepared_heads of these arrays and its memory, not yet prepared, with a side stream for what
/// stays.
class prepared_bag {
 public:
  prepared_bag(ballast::device_ulysses& plan, std::uint32_t gpu, ballast::device_heads const& heads)
      : memory_(bytes_of(plan, gpu, heads)), heads_(plan, gpu, heads, memory_.span(), &side_)
  {}

  [[nodiscard]] ballast::prepared_heads const& heads() const { return heads_; }

 private:
  static std::size_t bytes_of(ballast::device_ulysses& plan, std::uint32_t gpu,
                              ballast::device_heads const& heads)
  {
    std::size_t bytes = 0;
    EXPECT_EQ(ballast::prepared_heads::device_bytes(plan, gpu, heads, bytes), cudaSuccess);
    return bytes;
  }

  ballast::side_stream side_ = ballast::side_stream::make().value();
  ballast::device_array<std::byte> memory_;
  ballast::prepared_heads heads_;
};

}  // namespace ballast_test
