// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/tables.hpp>

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_memcpy.cuh>

namespace bench {

template <ballast::detail::contiguous_copy_list List>
struct source_of {
  List list;
  [[nodiscard]] BALLAST_HOST_DEVICE std::byte const* operator()(std::uint32_t index) const
  {
    return list(index).from;
  }
};

template <ballast::detail::contiguous_copy_list List>
struct destination_of {
  List list;
  [[nodiscard]] BALLAST_HOST_DEVICE std::byte* operator()(std::uint32_t index) const
  {
    return list(index).to;
  }
};

template <ballast::detail::contiguous_copy_list List>
struct bytes_of {
  List list;
  [[nodiscard]] BALLAST_HOST_DEVICE std::size_t operator()(std::uint32_t index) const
  {
    return list(index).bytes();
  }
};

/// `cub::DeviceMemcpy::Batched`, for lists of contiguous copies. CUB sorts the copies by size into
/// those for a group of threads, for a warp, and for several blocks.
struct cub_copies {
  template <ballast::detail::contiguous_copy_list List>
  [[nodiscard]] cudaError_t operator()(void* temporary, std::size_t& temporary_bytes,
                                       List const& list, std::uint32_t count,
                                       cudaStream_t stream) const
  {
    thrust::counting_iterator<std::uint32_t> const indices(0);
    return cub::DeviceMemcpy::Batched(
        temporary, temporary_bytes, thrust::transform_iterator(indices, source_of<List>{list}),
        thrust::transform_iterator(indices, destination_of<List>{list}),
        thrust::transform_iterator(indices, bytes_of<List>{list}), count, stream);
  }
};

}  // namespace bench
