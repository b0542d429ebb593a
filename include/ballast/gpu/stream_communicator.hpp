// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_STREAM_COMMUNICATOR_HPP
#define BALLAST_GPU_STREAM_COMMUNICATOR_HPP

#include <ballast/comm/concepts.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

#include <concepts>

namespace ballast::inline v0 {

/// A communicator whose calls join a CUDA stream: what is queued there before a call is done before
/// its bytes leave, what is queued after it finds the bytes that came. Its arrays are where the GPU
/// reaches them.
template <class C>
concept stream_communicator = communicator<C> && requires(C const& comm) {
  { comm.stream() } -> std::same_as<cudaStream_t>;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_STREAM_COMMUNICATOR_HPP
