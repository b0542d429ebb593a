// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_NCCL_QUEUE_HPP
#define BALLAST_GPU_DETAIL_NCCL_QUEUE_HPP

#include <ballast/core/result.hpp>
#include <ballast/gpu/detail/nccl_stream.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace ballast::inline v0::detail {

/// An NCCL communicator, borrowed or its own, and the stream that its work is queued on.
///
/// Expects     a borrowed communicator's variable stays where it is and outlives the queue; as
///             nccl_stream.
/// Ensures     (1) submit and exchange leave their work in the stream: they do not wait for it, and
///                 what the caller queues next comes behind it, whether or not NCCL is blocking
///             (2) after a failure nothing of this communicator reads or writes memory any more,
///                 the owner's variable is null, and each further call gives the same error
///             (3) in the steady state nothing is allocated
///             (4) when the queue is gone nothing of any communicator is left in the stream
/// Errors      as nccl_stream.
class nccl_queue {
 public:
  /// Borrows `comm`; if it has to be aborted, which frees it as well, it is set to null.
  nccl_queue(ncclComm_t& comm, std::shared_ptr<nccl_stream> stream)
      : stream_(std::move(stream)), self_{.comm = &comm}
  {
    stream_->join(self_);
  }

  /// Has no communicator until split() gives it one of its own.
  explicit nccl_queue(std::shared_ptr<nccl_stream> stream) : nccl_queue(own_, std::move(stream)) {}

  nccl_queue(nccl_queue const&) = delete;
  nccl_queue& operator=(nccl_queue const&) = delete;

  /// Waits first, at most until the deadline: to free memory that is in use is wrong, and to free
  /// pinned memory takes as long as the device is busy.
  ~nccl_queue()
  {
    stream_->quiesce();
    if (own_ != nullptr) { destroy(); }
    stream_->leave(self_);
  }

  [[nodiscard]] ncclComm_t native() const noexcept { return *self_.comm; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_->native(); }

  /// Queues what `function`, called `call` in NCCL, queues on the communicator and stream it is
  /// given.
  template <class Function>
  [[nodiscard]] result<void> submit(std::string_view operation, std::string_view call,
                                    Function function)
  {
    if (self_.failure) { return tl::unexpected(*self_.failure); }
    self_.pending = true;
    return stream_->settle(self_, operation, call, function(native(), stream()));
  }

  /// Queues one group of messages, at most one to and one from each rank, laid out one after the
  /// other in rank order; zero bytes are no message.
  ///
  /// The rank's own part is a message as well: it is then moved by the kernel that moves the
  /// others, beside them, where a copy on the stream would come before or after.
  [[nodiscard]] result<void> exchange(std::string_view operation, std::byte const* send,
                                      std::span<std::size_t const> send_bytes, std::byte* receive,
                                      std::span<std::size_t const> receive_bytes)
  {
    if (self_.failure) { return tl::unexpected(*self_.failure); }
    self_.pending = true;
    std::string_view call = "ncclGroupStart";
    ncclResult_t code = ncclGroupStart();
    if (!nccl_stream::accepted(code)) { return stream_->refused(self_, call, code); }
    for (std::size_t peer = 0; peer < send_bytes.size() && nccl_stream::accepted(code); ++peer) {
      if (send_bytes[peer] > 0) {
        call = "ncclSend";
        code =
            ncclSend(send, send_bytes[peer], ncclUint8, static_cast<int>(peer), native(), stream());
        send += send_bytes[peer];
      }
      if (receive_bytes[peer] > 0 && nccl_stream::accepted(code)) {
        call = "ncclRecv";
        code = ncclRecv(receive, receive_bytes[peer], ncclUint8, static_cast<int>(peer), native(),
                        stream());
        receive += receive_bytes[peer];
      }
    }
    // A group is the thread's: left open, it would swallow the work of every other communicator.
    ncclResult_t const ended = ncclGroupEnd();
    return nccl_stream::accepted(code) ? stream_->settle(self_, operation, "ncclGroupEnd", ended)
                                       : result<void>(stream_->refused(self_, call, code));
  }

  /// The queue, on the same stream, of those ranks that give the same colour, in the order of
  /// `key`; it owns its communicator.
  [[nodiscard]] result<std::unique_ptr<nccl_queue>> split(int colour, int key)
  {
    if (self_.failure) { return tl::unexpected(*self_.failure); }
    auto part = std::make_unique<nccl_queue>(stream_);
    auto made = stream_->settle(self_, "split", "ncclCommSplit",
                                ncclCommSplit(native(), colour, key, &part->own_, nullptr));
    // Where NCCL is not blocking, the new communicator comes up in its own time.
    if (made) { made = stream_->settle(part->self_, "split", "ncclCommSplit", ncclInProgress); }
    if (made) { return part; }
    // Whichever of the two failed, other ranks may have a part that this one is missing from.
    (void)stream_->give_up(part->self_, tl::unexpected(made.error()));
    return stream_->give_up(self_, tl::unexpected(std::move(made).error()));
  }

  /// Waits until the stream is empty, if something was queued here; at the deadline `missing` is
  /// asked, after the abort, who did not come.
  template <class Missing>
  [[nodiscard]] result<void> drain(std::string_view operation, Missing missing)
  {
    return stream_->drain(self_, operation, std::move(missing));
  }
  [[nodiscard]] result<void> drain(std::string_view operation)
  {
    return stream_->drain(self_, operation);
  }

  /// Waits until nothing of any communicator is in the stream.
  void quiesce() { stream_->quiesce(); }

 private:
  /// ncclCommDestroy alone waits without end for ranks that do not come to destroy theirs.
  void destroy()
  {
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
