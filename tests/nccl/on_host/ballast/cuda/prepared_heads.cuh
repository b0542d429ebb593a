// SPDX-License-Identifier: Apache-2.0
// Stands for <ballast/cuda/prepared_heads.cuh>, which nvcc alone compiles: the same calls, whose
// kernels are the host's over the same lists. Tests find it first: its folder lies before include/.
#pragma once

#include "../../../../cuda/head_copies_on_host.hpp"
#include "../../../../support/queued_work.hpp"
#include "../../../../support/test.hpp"

#include <cuda_runtime_api.h>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/staged.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/streams.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <cstring>

namespace ballast::inline v0 {

class prepared_heads {
 public:
  static cudaError_t device_bytes(staged<ulysses_plan>& there, std::uint32_t,
                                  device_heads const& shapes, std::size_t& bytes)
  {
    bytes = 8 * std::size_t{there.bound().sequences} * shapes.size() + 1;
    return cudaSuccess;
  }

  prepared_heads(staged<ulysses_plan>& there, std::uint32_t gpu, device_heads const& shapes,
                 std::span<std::byte> device, side_stream const* side = nullptr)
      : there_(there), gpu_(gpu), shapes_(shapes), device_(device), side_(side)
  {}

  /// Writes all over the memory, as scans would.
  cudaError_t prepare(cudaStream_t stream) const
  {
    std::size_t bytes = 0;
    EXPECT_EQ(device_bytes(there_, gpu_, shapes_, bytes), cudaSuccess);
    EXPECT_GE(device_.size(), bytes);
    is_prepared_ = true;
    return ballast_test::launch(stream,
                                [to = device_] { std::memset(to.data(), 0xdd, to.size()); });
  }

  cudaError_t pack(bool to_heads, device_heads const& heads, std::byte* messages,
                   cudaStream_t stream) const
  {
    expect_ready(heads);
    return ballast_test::launch(stream, [=, tables = there_.tables(), gpu = gpu_] {
      (to_heads ? ballast_test::pack_by_list<detail::packed_for_heads, device_heads>
                : ballast_test::pack_by_list<detail::packed_for_tokens, device_heads>)(tables, gpu,
                                                                                       heads,
                                                                                       messages);
    });
  }

  cudaError_t unpack(bool to_heads, device_heads const& heads, std::byte const* messages,
                     cudaStream_t stream, unpack_part part = unpack_part::all) const
  {
    expect_ready(heads);
    return ballast_test::launch(stream, [=, tables = there_.tables(), gpu = gpu_] {
      (to_heads ? ballast_test::unpack_by_list<detail::unpacked_to_heads, device_heads>
                : ballast_test::unpack_by_list<detail::head_sums, device_heads>)(tables, gpu, heads,
                                                                                 messages, part);
    });
  }

  [[nodiscard]] staged<ulysses_plan>& there() const { return there_; }
  [[nodiscard]] side_stream const* beside() const { return side_; }

 private:
  void expect_ready(device_heads const& heads) const
  {
    EXPECT_TRUE(is_prepared_);
    EXPECT_TRUE(heads.has_shapes_of(shapes_));
  }

  staged<ulysses_plan>& there_;
  std::uint32_t gpu_;
  device_heads shapes_;
  std::span<std::byte> device_;
  side_stream const* side_;
  mutable bool is_prepared_ = false;
};

}  // namespace ballast::inline v0
