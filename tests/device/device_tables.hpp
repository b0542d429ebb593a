// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <ballast/cuda/device_route.hpp>
#include <ballast/cuda/prepared_route.cuh>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/streams.hpp>

#include <cstddef>
#include <vector>

namespace ballast_test {

/// A device_route and its memory.
class device_tables {
 public:
  explicit device_tables(ballast::route_bound bound)
      : device_(ballast::device_route::bytes(bound)),
        pinned_(ballast::device_route::bytes(bound)),
        route_(bound, device_.span(), pinned_)
  {}

  [[nodiscard]] ballast::device_route& route() { return route_; }

 private:
  ballast::device_array<std::byte> device_;
  std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned_;
  ballast::device_route route_;
};

/// The bytes that a prepared_route of these arrays takes.
[[nodiscard]] inline std::size_t prepared_bytes(ballast::device_route const& there,
                                                ballast::device_rows const& rows)
{
  std::size_t bytes = 0;
  EXPECT_EQ(ballast::prepared_route::device_bytes(there, rows, bytes), cudaSuccess);
  return bytes;
}

/// A prepared_route and its memory, prepared on the stream, with a side stream for what stays.
class prepared_tables {
 public:
  prepared_tables(ballast::device_route& there, ballast::device_rows const& rows,
                  cudaStream_t stream)
      : memory_(prepared_bytes(there, rows)), route_(there, rows, memory_.span(), &side_)
  {
    EXPECT_EQ(route_.prepare(stream), cudaSuccess);
  }

  [[nodiscard]] ballast::prepared_route const& route() const { return route_; }

 private:
  ballast::side_stream side_ = ballast::side_stream::make().value();
  ballast::device_array<std::byte> memory_;
  ballast::prepared_route route_;
};

}  // namespace ballast_test
