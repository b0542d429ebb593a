// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_NCCL_STREAM_HPP
#define BALLAST_GPU_DETAIL_NCCL_STREAM_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/detail/stream_wait.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// An NCCL communicator among those that queue on one stream.
struct nccl_member {
  ncclComm_t* comm;       // its owner's variable, null once it has been aborted
  bool pending = false;   // something was queued since the stream was last found empty
  bool in_graph = false;  // something was captured with the stream, and may run at any time
  std::optional<error> failure = {};

  /// Whether the stream may have work of it.
  [[nodiscard]] bool may_run() const noexcept { return pending || in_graph; }
};

/// A CUDA stream, the NCCL communicators that queue on it (its members), and waits for them that
/// end at a deadline.
///
/// NCCL itself waits for ever: a kernel whose peer does not come runs on, and the stream does not
/// get past it. Here a wait asks the stream and NCCL in turn. On an asynchronous error of NCCL, on
/// an error of CUDA, or at the deadline, it ends all work by ncclCommAbort.
///
/// One cannot find out which kernel holds up the stream, and cannot abort a communicator whose
/// kernels are behind the one that does. So all members that may have work in the stream fail
/// together. What was queued while the stream was captured runs whenever the graph is launched, of
/// which nothing is told here: from then on every wait asks the stream.
///
/// Expects     graphs that hold work of a member are launched on the stream. Its device is the
///             thread's current one; one thread at a time, with no NCCL group open.
/// Ensures     (1) after a failure of a member its communicator is null, and so are those of all
///                 members that may have work in the stream: it no longer reads or writes memory
///             (2) members without such work are not touched
///             (3) no error stays CUDA's last error
///             (4) no call of NCCL is waited for longer than the deadline
/// Errors      transport, with the code and the text of NCCL or CUDA; timed_out. Members that fail
///             together with another get its error without `ranks`, since these have other numbers
///             in their groups.
class nccl_stream {
 public:
  nccl_stream(cudaStream_t stream, std::chrono::milliseconds deadline) noexcept
      : stream_(stream), deadline_(deadline)
  {}

  [[nodiscard]] cudaStream_t native() const noexcept { return stream_; }

  /// From now on until leave(), `member` must not move.
  void join(nccl_member& member)
  {
    ending_.reserve(members_.size() + 1);
    members_.push_back(&member);
  }
  void leave(nccl_member& member) noexcept { std::erase(members_, &member); }

  /// Returns the result of `call`; if the communicator is not blocking, waits until it is done.
  [[nodiscard]] result<void> settle(nccl_member& self, std::string_view operation,
                                    std::string_view call, ncclResult_t code)
  {
    bool const in_time = code != ncclInProgress || poll(deadline_, [&] {
                           code = state_of(self);
                           return code != ncclInProgress;
                         });
    if (!in_time) { return late(self, operation, nobody); }
    return code == ncclSuccess ? result<void>() : refused(self, call, code);
  }

  /// Whether one can wait for the stream.
  ///
  /// Errors      wrong_order, while it is captured: what is queued does not run, and to ask for it
  ///             would end the capture. Nothing is given up.
  [[nodiscard]] result<void> can_wait(std::string_view operation) const
  {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    if (auto const code = cudaStreamIsCapturing(stream_, &state); code != cudaSuccess) {
      return cuda_failure("cudaStreamIsCapturing", code);
    }
    if (state == cudaStreamCaptureStatusNone) { return {}; }
    return fail(error_code::wrong_order, 0, operation,
                ": the stream is being captured, and what is queued does not run; end the capture "
                "first, and wait after the graph was launched");
  }

  /// Notes that this member is about to queue something.
  void queues(nccl_member& self) const
  {
    self.pending = true;
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    bool const known = cudaStreamIsCapturing(stream_, &state) == cudaSuccess;
    self.in_graph = self.in_graph || !known || state != cudaStreamCaptureStatusNone;
  }

  /// Waits until the stream is empty, if this member may have work in it. At the deadline it
  /// aborts, and then missing() returns the ranks that did not come. While the stream is captured
  /// it has the error of can_wait().
  template <class Missing>
  [[nodiscard]] result<void> drain(nccl_member& self, std::string_view operation, Missing missing)
  {
    if (self.may_run() && !self.failure) {
      if (auto can = can_wait(operation); !can) { return can; }
    }
    auto const query = [&] { return self.may_run() ? detail::state_of(stream_) : cudaSuccess; };
    if (auto done = await(self, operation, query, missing); !done) { return done; }
    if (self.may_run()) {
      for (nccl_member* const each : members_) { each->pending = false; }
    }
    return {};
  }

  /// Waits until query() says something else than cudaErrorNotReady. At the deadline it aborts, as
  /// drain() does.
  template <class Query, class Missing = std::vector<rank_id> (*)()>
  [[nodiscard]] result<void> await(nccl_member& self, std::string_view operation, Query query,
                                   Missing missing = nobody)
  {
    if (self.failure) { return tl::unexpected(*self.failure); }
    cudaError_t state = cudaSuccess;
    ncclResult_t comm = ncclSuccess;
    bool const in_time = poll(deadline_, [&] {
      state = query();
      comm = state_of(self);
      return state != cudaErrorNotReady || !accepted(comm);
    });
    if (!accepted(comm)) { return refused(self, "what was queued on NCCL", comm); }
    if (!in_time) { return late(self, operation, missing); }
    if (state != cudaSuccess) { return give_up(self, cuda_failure("cudaStreamQuery", state)); }
    return {};
  }

  [[nodiscard]] result<void> drain(nccl_member& self, std::string_view operation)
  {
    return drain(self, operation, nobody);
  }

  /// Waits until no member has work in the stream; those that fail keep their error.
  void quiesce()
  {
    for (nccl_member* const each : members_) {
      if (each->may_run()) { (void)drain(*each, "wait"); }
    }
  }

  /// Returns the member's failure, after NCCL returned `code` for `call`.
  [[nodiscard]] tl::unexpected<error> refused(nccl_member& self, std::string_view call,
                                              ncclResult_t code)
  {
    std::string text = ncclGetErrorString(code);
    char const* const details = ncclGetLastError(*self.comm);
    if (details != nullptr && *details != '\0') { text.append(": ").append(details); }
    return give_up(self, comm_failure::transport(call, code, text));
  }

  /// Ends the work of this member and of all members that may have work in the stream, and waits
  /// for the stream, at most until the deadline: where ranks are threads of a process, NCCL may end
  /// an abort before its kernels.
  ///
  /// An abort frees memory, and so waits for the device: for graphs, and for what a communicator of
  /// another stream waits for. That one ends by its own deadline, if this call comes back.
  tl::unexpected<error> give_up(nccl_member& self, tl::unexpected<error> why)
  {
    bounded([comms = abandon(self, why.value())] { abort_together(comms); });
    if (can_wait("wait")) {
      (void)poll(deadline_, [this] { return detail::state_of(stream_) != cudaErrorNotReady; });
    }
    return why;
  }

  /// Has a thread call a function of NCCL that does not return while the device is held up, or a
  /// graph lives in which the communicator's work was captured, and waits for it at most until the
  /// deadline. Then the thread goes on by itself, until the owner of the graph destroys it.
  template <class Function>
  void bounded(Function function) const
  {
    int device = 0;
    bool const known = cudaGetDevice(&device) == cudaSuccess;
    try {
      auto const ended = std::make_shared<std::atomic<bool>>(false);
      std::thread([=] {
        if (known) { (void)cudaSetDevice(device); }
        function();
        *ended = true;
      }).detach();
      (void)poll(deadline_, [&ended] { return ended->load(); }, false);
    } catch (std::exception const&) {  // no memory or no thread is left
      function();
    }
  }

  /// "In progress" is not a failure: the communicator is not blocking.
  [[nodiscard]] static bool accepted(ncclResult_t code) noexcept
  {
    return code == ncclSuccess || code == ncclInProgress;
  }

 private:
  static std::vector<rank_id> nobody() { return {}; }

  /// In one group, so that NCCL tells all kernels to end before the first abort waits for its own.
  static void abort_together(std::vector<ncclComm_t> const& comms)
  {
    (void)ncclGroupStart();
    for (ncclComm_t const comm : comms) { (void)ncclCommAbort(comm); }
    (void)ncclGroupEnd();
  }

  /// Takes the communicators of all members that may have work in the stream.
  std::vector<ncclComm_t> abandon(nccl_member& self, error const& why)
  {
    for (nccl_member* const each : members_) {
      if (each != &self && !each->may_run()) { continue; }
      each->pending = false;
      each->in_graph = false;
      if (!each->failure) { each->failure = why; }
      if (*each->comm != nullptr) { ending_.push_back(std::exchange(*each->comm, nullptr)); }
    }
    return std::move(ending_);
  }

  [[nodiscard]] static ncclResult_t state_of(nccl_member const& member)
  {
    ncclResult_t state = ncclSuccess;
    ncclResult_t const asked = ncclCommGetAsyncError(*member.comm, &state);
    return asked == ncclSuccess ? state : asked;
  }

  template <class Missing>
  [[nodiscard]] tl::unexpected<error> late(nccl_member& self, std::string_view operation,
                                           Missing missing)
  {
    (void)give_up(self, comm_failure::timed_out(operation, deadline_, {}));
    self.failure = comm_failure::timed_out(operation, deadline_, missing()).value();
    return tl::unexpected(*self.failure);
  }

  cudaStream_t stream_;
  std::chrono::milliseconds deadline_;
  std::vector<nccl_member*> members_;
  std::vector<ncclComm_t> ending_;  // with room for all, so that giving up allocates nothing
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_NCCL_STREAM_HPP
