// SPDX-License-Identifier: Apache-2.0
// Stands for <ballast/cuda/prepared_heads.cuh> and <ballast/cuda/device_ulysses.cuh>, which nvcc alone
// compiles: the same calls and tables, whose kernels are the host's over the same lists. Tests find it
// first: its folder lies before include/.
#pragma once

#include "../../../../cuda/head_copies_on_host.hpp"
#include "../../../../support/queued_work.hpp"
#include "../../../../support/test.hpp"

#include <cuda_runtime_api.h>
#include <ballast/cuda/detail/head_copies.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/streams.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <cstring>

namespace ballast::inline v0 {

struct ulysses_bound {
  std::uint32_t sequences = 1;
  std::uint32_t gpus = 1;
  std::uint32_t query_heads = 1;
  std::uint32_t kv_heads = 0;

  [[nodiscard]] head_split split() const noexcept { return {query_heads, gpus, kv_heads}; }
};

/// Tables in the device's memory: lengths, cu_seqlens and, as an upload finds them there, first rows.
class device_ulysses {
 public:
  static std::size_t pinned_bytes(ulysses_bound bound)
  {
    return (std::size_t{bound.sequences} + 1) * (sizeof(tokens) + sizeof(std::int32_t));
  }
  static cudaError_t device_bytes(ulysses_bound bound, std::size_t& bytes)
  {
    ulysses_tables const tables{nullptr, nullptr, bound.sequences, bound.split()};
    bytes = pinned_bytes(bound) + (tables.items() + 1) * sizeof(tokens);
    return cudaSuccess;
  }

  device_ulysses(ulysses_bound bound, std::span<std::byte> device, std::span<std::byte> pinned)
      : bound_(bound),
        lengths_(reinterpret_cast<tokens*>(device.data())),
        pinned_(reinterpret_cast<tokens*>(pinned.data()))
  {
    std::size_t bytes = 0;
    EXPECT_EQ(device_bytes(bound, bytes), cudaSuccess);
    EXPECT_GE(device.size(), bytes);
    EXPECT_GE(pinned.size(), pinned_bytes(bound));
  }

  result<void> stage(ulysses_plan const& plan)
  {
    EXPECT_EQ(plan.split(), bound_.split());
    EXPECT_LE(plan.lengths().size(), bound_.sequences);
    std::size_t const line = std::size_t{bound_.sequences} + 1;
    auto* const end = std::ranges::copy(plan.lengths(), pinned_).out;
    std::fill(end, pinned_ + line, tokens{0});
    plan.write_cu_seqlens({reinterpret_cast<std::int32_t*>(pinned_ + line), line});
    plan_ = plan;
    return {};
  }

  cudaError_t upload(cudaStream_t stream) const
  {
    auto const code =
        cudaMemcpyAsync(lengths_, pinned_, pinned_bytes(bound_), cudaMemcpyHostToDevice, stream);
    if (code != cudaSuccess) { return code; }
    return ballast_test::launch(stream, [all = tables(), rows = first_rows()] {
      tokens sum = 0;
      for (std::uint32_t item = 0; item < all.items(); ++item) {
        if (item % all.line() == 0) { sum = 0; }
        rows[item] = sum;
        sum += all.item(item);
      }
    });
  }

  [[nodiscard]] ulysses_bound bound() const { return bound_; }
  [[nodiscard]] ulysses_tables tables() const
  {
    return {lengths_, first_rows(), bound_.sequences, bound_.split()};
  }
  [[nodiscard]] std::int32_t const* cu_seqlens() const
  {
    return reinterpret_cast<std::int32_t*>(lengths_ + bound_.sequences + 1);
  }
  [[nodiscard]] ulysses_plan const& plan() const { return plan_; }
  [[nodiscard]] workspace& memory() { return memory_; }

 private:
  /// Behind what an upload copies.
  [[nodiscard]] tokens* first_rows() const
  {
    return lengths_ + (pinned_bytes(bound_) + sizeof(tokens) - 1) / sizeof(tokens);
  }

  ulysses_bound bound_;
  tokens* lengths_;
  tokens* pinned_;
  ulysses_plan plan_;
  workspace memory_;
};

class prepared_heads {
 public:
  static cudaError_t device_bytes(device_ulysses& plan, std::uint32_t, device_heads const& shapes,
                                  std::size_t& bytes)
  {
    bytes = 8 * std::size_t{plan.bound().sequences} * shapes.size() + 1;
    return cudaSuccess;
  }

  prepared_heads(device_ulysses& plan, std::uint32_t gpu, device_heads const& shapes,
                 std::span<std::byte> device, side_stream const* side = nullptr)
      : plan_(plan), gpu_(gpu), shapes_(shapes), device_(device), side_(side)
  {}

  /// Writes all over the memory, as scans would.
  cudaError_t prepare(cudaStream_t stream) const
  {
    std::size_t bytes = 0;
    EXPECT_EQ(device_bytes(plan_, gpu_, shapes_, bytes), cudaSuccess);
    EXPECT_GE(device_.size(), bytes);
    is_prepared_ = true;
    return ballast_test::launch(stream,
                                [to = device_] { std::memset(to.data(), 0xdd, to.size()); });
  }

  cudaError_t pack_to_heads(device_heads const& heads, std::byte* messages,
                            cudaStream_t stream) const
  {
    return pack<detail::packed_for_heads>(heads, messages, stream);
  }
  cudaError_t unpack_to_heads(device_heads const& heads, std::byte const* messages,
                              cudaStream_t stream, unpack_part part = unpack_part::all) const
  {
    return unpack<detail::unpacked_to_heads>(heads, messages, stream, part);
  }
  cudaError_t pack_to_tokens(device_heads const& heads, std::byte* messages,
                             cudaStream_t stream) const
  {
    return pack<detail::packed_for_tokens>(heads, messages, stream);
  }
  cudaError_t unpack_to_tokens(device_heads const& heads, std::byte const* messages,
                               cudaStream_t stream, unpack_part part = unpack_part::all) const
  {
    return unpack<detail::head_sums>(heads, messages, stream, part);
  }

  [[nodiscard]] device_ulysses& plan() const { return plan_; }
  [[nodiscard]] side_stream const* beside() const { return side_; }

 private:
  void expect_ready(device_heads const& heads) const
  {
    EXPECT_TRUE(is_prepared_);
    EXPECT_TRUE(heads.has_shapes_of(shapes_));
  }

  template <class List>
  cudaError_t pack(device_heads const& heads, std::byte* messages, cudaStream_t stream) const
  {
    expect_ready(heads);
    return ballast_test::launch(stream, [=, tables = plan_.tables(), gpu = gpu_] {
      ballast_test::pack_by_list<List>(tables, gpu, heads, messages);
    });
  }
  template <class List>
  cudaError_t unpack(device_heads const& heads, std::byte const* messages, cudaStream_t stream,
                     unpack_part part) const
  {
    expect_ready(heads);
    return ballast_test::launch(stream, [=, tables = plan_.tables(), gpu = gpu_] {
      ballast_test::unpack_by_list<List>(tables, gpu, heads, messages, part);
    });
  }

  device_ulysses& plan_;
  std::uint32_t gpu_;
  device_heads shapes_;
  std::span<std::byte> device_;
  side_stream const* side_;
  mutable bool is_prepared_ = false;
};

}  // namespace ballast::inline v0
