// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_NCCL_QUEUE_HPP
#define BALLAST_COMM_NCCL_QUEUE_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t, cudaStreamQuery
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Whose task it is to destroy an NCCL communicator.
enum class nccl_ownership : bool { borrowed, owned };

/// An NCCL communicator and the CUDA stream that its work is queued on, with an end to every wait.
///
/// NCCL itself waits for ever: a kernel whose peer does not come spins on the GPU, and so does the
/// stream behind it. Here a wait asks the stream and NCCL in turn and, on NCCL's asynchronous
/// error, on CUDA's, or at the deadline, ends all by ncclCommAbort.
///
/// Expects     the stream belongs to the communicator's device, which is the thread's current one;
///             one thread at a time, with no NCCL group open.
/// Ensures     (1) submit and exchange leave their work in the stream: they do not wait for it, and
///                 what the caller queues next comes behind it, whether or not NCCL is blocking
///             (2) after a failure nothing of this communicator reads or writes memory any more,
///                 native() is null, and each further call gives the same error
///             (3) in the steady state nothing is allocated
/// Errors      transport, with the code and the text of NCCL or CUDA; timed_out.
class nccl_queue {
 public:
  nccl_queue(ncclComm_t comm, cudaStream_t stream, std::chrono::milliseconds deadline,
             nccl_ownership ownership) noexcept
      : comm_(comm), stream_(stream), deadline_(deadline), ownership_(ownership)
  {}
  nccl_queue(nccl_queue const&) = delete;
  nccl_queue& operator=(nccl_queue const&) = delete;

  /// Waits first, at most until the deadline, since the memory in use may be freed next.
  ~nccl_queue()
  {
    if (pending_) { (void)drain("wait"); }
    if (comm_ != nullptr && ownership_ == nccl_ownership::owned) { (void)ncclCommDestroy(comm_); }
  }

  [[nodiscard]] ncclComm_t native() const noexcept { return comm_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }

  /// Queues what `function`, called `call` in NCCL, queues on the communicator and stream it is
  /// given.
  template <class Function>
  [[nodiscard]] result<void> submit(std::string_view operation, std::string_view call,
                                    Function function)
  {
    if (failure_) { return tl::unexpected(*failure_); }
    pending_ = true;
    return settle(operation, call, function(comm_, stream_));
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
    if (failure_) { return tl::unexpected(*failure_); }
    pending_ = true;
    std::string_view call = "ncclGroupStart";
    ncclResult_t code = ncclGroupStart();
    if (!accepted(code)) { return refused(call, code); }
    for (std::size_t peer = 0; peer < send_bytes.size() && accepted(code); ++peer) {
      if (send_bytes[peer] > 0) {
        call = "ncclSend";
        code = ncclSend(send, send_bytes[peer], ncclUint8, static_cast<int>(peer), comm_, stream_);
        send += send_bytes[peer];
      }
      if (receive_bytes[peer] > 0 && accepted(code)) {
        call = "ncclRecv";
        code = ncclRecv(receive, receive_bytes[peer], ncclUint8, static_cast<int>(peer), comm_,
                        stream_);
        receive += receive_bytes[peer];
      }
    }
    // A group is the thread's: left open, it would swallow the work of every other communicator.
    ncclResult_t const ended = ncclGroupEnd();
    return accepted(code) ? settle(operation, "ncclGroupEnd", ended) : refused(call, code);
  }

  /// The queue, on the same stream, of those ranks that give the same colour, in the order of
  /// `key`; it owns its communicator.
  [[nodiscard]] result<std::unique_ptr<nccl_queue>> split(int colour, int key)
  {
    auto part = std::make_unique<nccl_queue>(nullptr, stream_, deadline_, nccl_ownership::owned);
    auto made = submit("split", "ncclCommSplit", [&](ncclComm_t comm, cudaStream_t) {
      return ncclCommSplit(comm, colour, key, &part->comm_, nullptr);
    });
    // Where NCCL is not blocking, the new communicator comes up in its own time.
    if (made) { made = part->settle("split", "ncclCommSplit", ncclInProgress); }
    if (!made) {
      part->abort();
      return tl::unexpected(std::move(made).error());
    }
    return part;
  }

  /// Waits until a communicator that is not blocking has done what `call` began, and judges that.
  [[nodiscard]] result<void> settle(std::string_view operation, std::string_view call,
                                    ncclResult_t code)
  {
    bool const in_time = code != ncclInProgress || poll([&] {
                           code = asynchronous_state();
                           return code != ncclInProgress;
                         });
    if (!in_time) {
      return late(operation, [] { return std::vector<rank_id>(); });
    }
    return code == ncclSuccess ? result<void>() : refused(call, code);
  }

  /// Waits until the stream is empty.
  [[nodiscard]] result<void> drain(std::string_view operation)
  {
    return drain(operation, [] { return std::vector<rank_id>(); });
  }

  /// The same; at the deadline `missing` is asked, after the abort, who did not come.
  template <class Missing>
  [[nodiscard]] result<void> drain(std::string_view operation, Missing missing)
  {
    if (failure_) { return tl::unexpected(*failure_); }
    cudaError_t stream = cudaErrorNotReady;
    ncclResult_t comm = ncclSuccess;
    bool const in_time = poll([&] {
      stream = cudaStreamQuery(stream_);
      comm = asynchronous_state();
      return stream != cudaErrorNotReady || !accepted(comm);
    });
    if (!accepted(comm)) { return refused("what was queued on NCCL", comm); }
    if (!in_time) { return late(operation, missing); }
    if (stream != cudaSuccess) {
      return give_up(
          comm_failure::transport("cudaStreamQuery", stream, cudaGetErrorString(stream)));
    }
    pending_ = false;
    return {};
  }

 private:
  /// In progress is no failure: the communicator is not blocking.
  [[nodiscard]] static bool accepted(ncclResult_t code) noexcept
  {
    return code == ncclSuccess || code == ncclInProgress;
  }

  [[nodiscard]] ncclResult_t asynchronous_state() const
  {
    ncclResult_t state = ncclSuccess;
    ncclResult_t const asked = ncclCommGetAsyncError(comm_, &state);
    return asked == ncclSuccess ? state : asked;
  }

  /// Asks until `done` or the deadline: at first without a pause, since most exchanges are short,
  /// later after a sixteenth of the time that has passed, since the cores are needed elsewhere.
  template <class Done>
  [[nodiscard]] bool poll(Done done) const
  {
    using namespace std::chrono;
    auto const begin = steady_clock::now();
    auto const patience = std::min<milliseconds>(deadline_, years(1));  // more overflows the clock
    for (;;) {
      if (done()) { return true; }
      auto const waited = steady_clock::now() - begin;
      if (waited >= patience) { return false; }
      if (waited < microseconds(200)) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::min<nanoseconds>(waited / 16, milliseconds(1)));
      }
    }
  }

  [[nodiscard]] tl::unexpected<error> refused(std::string_view call, ncclResult_t code)
  {
    std::string text = ncclGetErrorString(code);
    char const* const details = ncclGetLastError(comm_);
    if (details != nullptr && *details != '\0') { text.append(": ").append(details); }
    return give_up(comm_failure::transport(call, code, text));
  }

  template <class Missing>
  [[nodiscard]] tl::unexpected<error> late(std::string_view operation, Missing missing)
  {
    abort();
    return give_up(comm_failure::timed_out(operation, deadline_, missing()));
  }

  [[nodiscard]] tl::unexpected<error> give_up(tl::unexpected<error> why)
  {
    abort();
    failure_ = why.value();
    return why;
  }

  void abort() noexcept
  {
    if (comm_ != nullptr) { (void)ncclCommAbort(std::exchange(comm_, nullptr)); }
    pending_ = false;
  }

  ncclComm_t comm_;
  cudaStream_t stream_;
  std::chrono::milliseconds deadline_;
  nccl_ownership ownership_;
  bool pending_ = false;  // something was queued since the stream was last seen empty
  std::optional<error> failure_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_NCCL_QUEUE_HPP
