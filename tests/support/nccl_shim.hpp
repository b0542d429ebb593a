// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_shim.hpp"

#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

/// NCCL for machines without a GPU: nccl_shim.cpp defines the functions that
/// <ballast/gpu/nccl_*.hpp> calls, and cuda_shim.cpp the streams. Ranks are threads and memory is
/// the host's.
///
/// It keeps what makes NCCL hard to use right. What one group holds proceeds together, and what is
/// queued behind it waits. A send meets its receive by the order between two ranks, a collective
/// its peers by the order of collectives. What meets nothing, or meets another size, waits until
/// ncclCommAbort. A communicator that is not blocking must be asked before it can be used again. An
/// abort waits until the communicator's kernels have left the stream, behind whatever is before
/// them; a group of aborts first tells all kernels to end. To destroy or to abort a communicator
/// waits while a graph lives that has captured its work.
///
/// It is stricter in two things: all work of a group must be for one communicator and stream, and
/// misuse that NCCL leaves undefined is ncclInvalidUsage.
namespace ballast_test {

/// From now on the communicator is not blocking: a call that queues or splits leaves it in
/// progress, its work not yet queued, until ncclCommGetAsyncError has said so `polls` times.
void make_non_blocking(ncclComm_t comm, std::size_t polls);

/// The same for what will be split from it, and for nothing else.
void make_parts_non_blocking(ncclComm_t comm, std::size_t polls);

/// A number of polls that a communicator never sees: it does not come to connect.
inline constexpr std::size_t never = SIZE_MAX;

/// After `calls_before` more calls that queue or split, the next one gives this instead.
void fail_call(ncclComm_t comm, std::size_t calls_before, ncclResult_t code);

/// From now on an abort returns at once, and its kernels leave the stream that much later, as where
/// several ranks of a process abort and NCCL reclaims with the last of them; zero is as at the
/// start.
void abort_before_kernels_end(std::chrono::milliseconds lag);

/// Whether an abort returns only when no kernel of any communicator waits for a peer, as where they
/// are on one device, whose memory it frees.
void have_aborts_wait_for_all_kernels(bool wait);

/// ncclCommGetAsyncError says this from now on, and nothing that is queued there proceeds.
void fail_asynchronously(ncclComm_t comm, ncclResult_t code);

/// Communicators that were neither destroyed nor aborted.
[[nodiscard]] std::size_t live_communicators();

/// ncclGetVersion says this from now on; at the start, that of the header.
void pretend_nccl_version(int version);

/// Symmetric windows that are registered, and those that were when their communicator was destroyed.
[[nodiscard]] std::size_t live_windows();
[[nodiscard]] std::size_t windows_left_behind();

/// Messages that were handed to ncclSend since the start, empty ones too.
[[nodiscard]] std::size_t messages_queued();

}  // namespace ballast_test
