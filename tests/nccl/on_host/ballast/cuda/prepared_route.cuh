// SPDX-License-Identifier: Apache-2.0
// Stands for <ballast/cuda/prepared_route.cuh>, which nvcc alone compiles: the same calls, whose
// kernels are the host's over the same lists. So what makes them runs in a test, over the stand-in
// for CUDA. Tests find it first: its folder lies before include/.
#pragma once

#include "../../../../cuda/host_rows.hpp"
#include "../../../../support/queued_work.hpp"
#include "../../../../support/test.hpp"

#include <cuda_runtime_api.h>
#include <ballast/cuda/staged.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/streams.hpp>

#include <cstring>

namespace ballast::inline v0 {

class prepared_route {
 public:
  static cudaError_t device_bytes(staged<route_plan>& there, device_rows const& shapes,
                                  std::size_t& bytes)
  {
    bytes = 8 * std::size_t{there.bound().ranges} * shapes.count + 1;
    return cudaSuccess;
  }

  prepared_route(staged<route_plan>& there, device_rows const& shapes, std::span<std::byte> device,
                 side_stream const* side = nullptr)
      : there_(there), shapes_(shapes), device_(device), side_(side)
  {}

  /// Writes all over the memory, as scans would.
  cudaError_t prepare(cudaStream_t stream) const
  {
    std::size_t bytes = 0;
    EXPECT_EQ(device_bytes(there_, shapes_, bytes), cudaSuccess);
    EXPECT_GE(device_.size(), bytes);
    is_prepared_ = true;
    return ballast_test::launch(stream,
                                [to = device_] { std::memset(to.data(), 0xdd, to.size()); });
  }

  cudaError_t pack(bool forward, device_rows const& rows, std::byte* messages,
                   cudaStream_t stream) const
  {
    expect_ready(rows);
    auto const tables = there_.tables();
    auto const& table = forward ? tables.sent : tables.received;
    return ballast_test::launch(stream, [=] { ballast_test::pack_by_list(table, rows, messages); });
  }

  cudaError_t unpack(bool forward, device_rows const& rows, std::byte const* messages,
                     cudaStream_t stream, unpack_part part = unpack_part::all) const
  {
    expect_ready(rows);
    auto const tables = there_.tables();
    auto const& table = forward ? tables.received : tables.sent;
    return ballast_test::launch(stream, [=, kept = tables.kept, done = unpacked] {
      ballast_test::unpack_by_list(table, kept, !forward, rows, messages, part);
      if (done) { done(part); }
    });
  }

  /// Called when a part has been unpacked.
  mutable std::function<void(unpack_part)> unpacked;

  [[nodiscard]] staged<route_plan>& there() const { return there_; }
  [[nodiscard]] side_stream const* beside() const { return side_; }

 private:
  void expect_ready(device_rows const& rows) const
  {
    EXPECT_TRUE(is_prepared_);
    EXPECT_TRUE(rows.has_shapes_of(shapes_));
  }

  staged<route_plan>& there_;
  device_rows shapes_;
  std::span<std::byte> device_;
  side_stream const* side_;
  mutable bool is_prepared_ = false;
};

}  // namespace ballast::inline v0
