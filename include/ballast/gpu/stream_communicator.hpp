// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_STREAM_COMMUNICATOR_HPP
#define BALLAST_GPU_STREAM_COMMUNICATOR_HPP

#include <ballast/comm/communicator.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

#include <concepts>

namespace ballast::inline v0 {

/// A communicator whose calls join a CUDA stream: work that is queued there before a call is done
/// before its bytes are sent, and work that is queued after it finds the received bytes. Its arrays
/// lie in memory that the GPU reaches.
template <class C>
concept stream_communicator = communicator<C> && requires(C const& comm) {
  { comm.stream() } -> std::same_as<cudaStream_t>;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_STREAM_COMMUNICATOR_HPP
