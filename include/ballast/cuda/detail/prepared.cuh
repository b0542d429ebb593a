// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/tiles.cuh>
#include <ballast/cuda/staged.hpp>

#include <cuda_runtime.h>

namespace ballast::inline v0::detail {

/// What prepared_route and prepared_heads are both: a staged plan, the shapes of arrays, and memory
/// of the device that find() writes once a step.
///
/// Prepared    cut(storage) takes its arrays, find(at, scans, stream) queues what writes them.
template <class Prepared, class Plan, class Shapes>
class prepared {
 public:
  [[nodiscard]] staged<Plan>& there() const noexcept { return there_; }
  [[nodiscard]] side_stream const* beside() const noexcept { return side_; }

  /// Finds all that depends on the plan, when the stream reaches it; call it after the plan's
  /// upload.
  [[nodiscard]] cudaError_t prepare(cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared::prepare");
    static_cast<Prepared const&>(*this).expect_plan();
    std::size_t bytes = device_.size();
    return device_.empty() ? cudaErrorInvalidValue : find_all(bytes, stream);
  }

 protected:
  prepared(staged<Plan>& there, Shapes const& shapes, std::span<std::byte> device,
           side_stream const* side)
      : there_(there), shapes_(shapes), device_(device), side_(side)
  {}

  [[nodiscard]] cudaError_t find_all(std::size_t& bytes, cudaStream_t stream) const
  {
    temporary_storage storage(device_.data());
    auto const& self = static_cast<Prepared const&>(*this);
    auto const at = self.cut(storage);
    return queue_scans(storage, bytes,
                       [&](scan_storage& scans) { return self.find(at, scans, stream); });
  }

  /// The arrays in the device's memory, for arrays of the shapes.
  [[nodiscard]] auto found(Shapes const& arrays, std::byte const* messages) const
  {
    BALLAST_EXPECTS(arrays.has_shapes_of(shapes_), "the exchange was prepared for other arrays: ",
                    "these are not as many of the same shapes; prepare one for them");
    BALLAST_EXPECTS(reinterpret_cast<std::uintptr_t>(messages) % message_alignment == 0,
                    "the messages do not begin at a multiple of ", message_alignment, " bytes");
    temporary_storage storage(device_.data());
    return static_cast<Prepared const&>(*this).cut(storage);
  }

  staged<Plan>& there_;
  Shapes shapes_;
  std::span<std::byte> device_;
  side_stream const* side_;
};

}  // namespace ballast::inline v0::detail
