// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_PROCESS_COPY_ENGINE_COMMUNICATOR_HPP
#define BALLAST_GPU_PROCESS_COPY_ENGINE_COMMUNICATOR_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/detail/process_meeting.hpp>
#include <ballast/gpu/pinned_allocator.hpp>

#include <cstddef>

namespace ballast::inline v0 {

/// A copy_engine_communicator whose ranks are processes of one machine, as most jobs have them: a
/// process for each GPU. They reach each other's memory and events by CUDA's inter-process handles
/// (CUDA IPC), and meet over `Host`, any communicator between them for the host's arrays.
///
///     using communicator = process_copy_engine_communicator<mpi_communicator>;
///     auto comm = communicator::join(std::move(host), stream);
///
/// join() and the destructor are collective. What is sent is first copied into memory which peers
/// have opened, within the GPU and on its stream, unless it lies in memory of lend().
///
/// Expects     what copy_engine_communicator expects, but arrays need be reached by the own GPU
///             alone. The stream's device is the thread's current one in every call. Nobody else
///             uses `host`.
/// Ensures     as for threads: the exchange is the same, and so are the bytes
/// Errors      those of copy_engine_communicator and of `host`, whose deadline holds where ranks
///             wait for each other; options.deadline holds for streams. From join, on every rank:
///             transport with the peer in `ranks` where its memory or events cannot be opened,
///             peer_lost elsewhere. A rank whose CUDA failed waits for its peers' next call, at most
///             until the host's deadline, and tells them there.
/// Complexity  a call is two all-gathers of `host`, of some 160 + 16 P bytes and of one byte a rank.
template <communicator Host, class Allocator = pinned_allocator<std::byte>>
using process_copy_engine_communicator =
    copy_engine_communicator<Allocator, detail::process_meeting<Host>>;

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_PROCESS_COPY_ENGINE_COMMUNICATOR_HPP
