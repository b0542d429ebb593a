// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_NCCL_QUEUE_HPP
#define BALLAST_GPU_DETAIL_NCCL_QUEUE_HPP

#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/detail/nccl_stream.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace ballast::inline v0::detail {

/// The messages of one group. After a call that NCCL refuses no other is made; none is made for
/// zero bytes.
class nccl_calls {
 public:
  nccl_calls(ncclComm_t comm, cudaStream_t stream) noexcept : comm_(comm), stream_(stream) {}

  void send(std::span<std::byte const> bytes, std::size_t peer)
  {
    if (bytes.empty() || !nccl_stream::accepted(code_)) { return; }
    name_ = "ncclSend";
    code_ = ncclSend(bytes.data(), bytes.size(), ncclUint8, static_cast<int>(peer), comm_, stream_);
  }

  void receive(std::span<std::byte> bytes, std::size_t peer)
  {
    if (bytes.empty() || !nccl_stream::accepted(code_)) { return; }
    name_ = "ncclRecv";
    code_ = ncclRecv(bytes.data(), bytes.size(), ncclUint8, static_cast<int>(peer), comm_, stream_);
  }

  /// The last call, and what it returned.
  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] ncclResult_t code() const noexcept { return code_; }

 private:
  ncclComm_t comm_;
  cudaStream_t stream_;
  std::string_view name_ = "ncclGroupStart";
  ncclResult_t code_ = ncclSuccess;
};

/// An NCCL communicator, borrowed or its own, and the stream that its work is queued on.
///
/// Expects     what nccl_stream expects; a borrowed communicator's variable does not move, and
///             outlives the queue.
/// Ensures     (1) submit, exchange and group queue their work and do not wait for it; what the
///                 caller queues next comes after it, whether or not NCCL is blocking
///             (2) after a failure no work of this communicator reads or writes memory, the owner's
///                 variable is null, and each further call returns the same error
///             (3) in the steady state nothing is allocated
///             (4) after destruction no work of any communicator is left in the stream
/// Errors      those of nccl_stream.
class nccl_queue {
 public:
  /// Borrows `comm`. Aborting it also frees it, and sets it to null.
  nccl_queue(ncclComm_t& comm, std::shared_ptr<nccl_stream> stream)
      : stream_(std::move(stream)), self_{.comm = &comm}
  {
    stream_->join(self_);
  }

  /// Has no communicator until split() gives it one of its own.
  explicit nccl_queue(std::shared_ptr<nccl_stream> stream) : nccl_queue(own_, std::move(stream)) {}

  nccl_queue(nccl_queue const&) = delete;
  nccl_queue& operator=(nccl_queue const&) = delete;

  /// Waits first, at most until the deadline: memory that is in use must not be freed, and freeing
  /// pinned memory would wait for the device without a deadline.
  ~nccl_queue()
  {
    stream_->quiesce();
    if (own_ != nullptr) { destroy(); }
    stream_->leave(self_);
  }

  [[nodiscard]] ncclComm_t native() const noexcept { return *self_.comm; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_->native(); }

  /// Calls `function`, whose name in NCCL is `call`, with the communicator and the stream.
  template <class Function>
  [[nodiscard]] result<void> submit(std::string_view operation, std::string_view call,
                                    Function function)
  {
    if (self_.failure) { return tl::unexpected(*self_.failure); }
    stream_->queues(self_);
    return stream_->settle(self_, operation, call, function(native(), stream()));
  }

  /// Queues one group of messages, at most one to and one from each rank, which lie one after the
  /// other in rank order. No message is sent for zero bytes.
  ///
  /// The rank's own part is a message too: then the kernel that moves the others moves it at the
  /// same time, while a copy on the stream would run before or after them.
  [[nodiscard]] result<void> exchange(std::string_view operation, std::byte const* send,
                                      std::span<std::size_t const> send_bytes, std::byte* receive,
                                      std::span<std::size_t const> receive_bytes)
  {
    return group(operation, [&](nccl_calls& calls) {
      for (std::size_t peer = 0; peer < send_bytes.size(); ++peer) {
        calls.send({send, send_bytes[peer]}, peer);
        calls.receive({receive, receive_bytes[peer]}, peer);
        send += send_bytes[peer];
        receive += receive_bytes[peer];
      }
    });
  }

  /// Queues messages in one group: those that add(nccl_calls) gives.
  template <class Add>
  [[nodiscard]] result<void> group(std::string_view operation, Add add)
  {
    if (self_.failure) { return tl::unexpected(*self_.failure); }
    stream_->queues(self_);
    if (auto const code = ncclGroupStart(); !nccl_stream::accepted(code)) {
      return stream_->refused(self_, "ncclGroupStart", code);
    }
    nccl_calls calls(native(), stream());
    add(calls);
    // A group belongs to the thread: left open, it would take in the calls of other communicators.
    ncclResult_t const ended = ncclGroupEnd();
    return nccl_stream::accepted(calls.code())
               ? stream_->settle(self_, operation, "ncclGroupEnd", ended)
               : result<void>(stream_->refused(self_, calls.name(), calls.code()));
  }

  /// Notes a failure of CUDA on the stream, after which no work is left there.
  [[nodiscard]] tl::unexpected<error> give_up(std::string_view call, cudaError_t code)
  {
    return stream_->give_up(self_, cuda_failure(call, code));
  }

  /// The same, with the error of a failure of CUDA.
  tl::unexpected<error> give_up(tl::unexpected<error> why)
  {
    return stream_->give_up(self_, std::move(why));
  }

  /// Waits until query() is no longer cudaErrorNotReady; at the deadline it aborts.
  template <class Query>
  [[nodiscard]] result<void> await(std::string_view operation, Query query)
  {
    return stream_->await(self_, operation, query);
  }

  /// The failure of this communicator, if there was one.
  [[nodiscard]] result<void> state() const
  {
    if (self_.failure) { return tl::unexpected(*self_.failure); }
    return {};
  }

  /// Returns a queue on the same stream, for split() to give a communicator.
  [[nodiscard]] std::unique_ptr<nccl_queue> part() const
  {
    return std::make_unique<nccl_queue>(stream_);
  }

  /// Gives `part` a communicator of its own, for the ranks that give the same colour, in the order
  /// of `key`. It allocates nothing unless it fails: NCCL waits for all ranks, so none may throw
  /// here.
  [[nodiscard]] result<void> split(nccl_queue& part, int colour, int key)
  {
    if (self_.failure) { return tl::unexpected(*self_.failure); }
    ncclResult_t const code = ncclCommSplit(native(), colour, key, &part.own_, nullptr);
    // If NCCL is not blocking, it may return success although this communicator is in progress
    // until the new one is there, and then the new one is not ready at once.
    auto made = stream_->settle(self_, "split", "ncclCommSplit",
                                code == ncclSuccess ? ncclInProgress : code);
    if (made) { made = stream_->settle(part.self_, "split", "ncclCommSplit", ncclInProgress); }
    if (made) { return made; }
    // Whichever of the two failed, other ranks may have made the group without this one.
    (void)stream_->give_up(part.self_, tl::unexpected(made.error()));
    return stream_->give_up(self_, tl::unexpected(std::move(made).error()));
  }

  /// Waits until the stream is empty, if something was queued here. At the deadline it aborts, and
  /// then missing() returns the ranks that did not come.
  template <class Missing>
  [[nodiscard]] result<void> drain(std::string_view operation, Missing missing)
  {
    return stream_->drain(self_, operation, std::move(missing));
  }
  [[nodiscard]] result<void> drain(std::string_view operation)
  {
    return stream_->drain(self_, operation);
  }

  [[nodiscard]] result<void> can_wait(std::string_view operation) const
  {
    return stream_->can_wait(operation);
  }

  /// Waits until no work of any communicator is in the stream.
  void quiesce() { stream_->quiesce(); }

 private:
  /// ncclCommDestroy alone waits for ever for ranks that do not destroy theirs.
  void destroy()
  {
    if (self_.in_graph) {
      return stream_->bounded([own = own_] {
        ncclResult_t state = ncclCommFinalize(own);
        while (state == ncclInProgress && ncclCommGetAsyncError(own, &state) == ncclSuccess) {
          std::this_thread::yield();
        }
        (void)ncclCommDestroy(own);
      });
    }
    if (stream_->settle(self_, "split", "ncclCommFinalize", ncclCommFinalize(own_))) {
      (void)ncclCommDestroy(own_);
    }
  }

  std::shared_ptr<nccl_stream> stream_;
  ncclComm_t own_ = nullptr;
  nccl_member self_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_NCCL_QUEUE_HPP
