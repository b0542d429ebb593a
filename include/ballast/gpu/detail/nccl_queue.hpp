// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/numbered_places.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaError_t
#include <nccl.h>

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

  nccl_queue& operator=(nccl_queue&&) = delete;

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

/// The transfers of a rank over NCCL. Those begun between two starts are one group on the stream,
/// and an event behind it tells when all of them are done.
///
/// Expects     the same queue in every call, and what nccl_queue expects.
/// Ensures     (1) no call but wait_for waits for the stream; the first start() to a rank waits
///                 until NCCL has connected, at most until the deadline if NCCL is not blocking
///             (2) nothing is allocated, and no event created, where there were as many transfers
///                 and groups before
/// Errors      those of nccl_queue, without `ranks`: which rank holds up a stream NCCL does not
///             say.
class nccl_transfers {
 public:
  [[nodiscard]] result<transfer_id> send(nccl_queue const& queue, std::span<std::byte const> bytes,
                                         std::size_t peer)
  {
    return note(queue, {true, peer, bytes, {}});
  }

  [[nodiscard]] result<transfer_id> receive(nccl_queue const& queue, std::span<std::byte> bytes,
                                            std::size_t peer)
  {
    return note(queue, {false, peer, {}, bytes});
  }

  [[nodiscard]] result<void> start(nccl_queue& queue)
  {
    if (noted_.empty()) { return queue.state(); }
    auto const group = unused_group();
    if (!group) { return queue.give_up(tl::unexpected(group.error())); }
    auto queued = queue.group("start", [&](nccl_calls& calls) {
      for (std::size_t const index : noted_) {
        transfer const& each = all_[index];
        each.sends ? calls.send(each.from, each.peer) : calls.receive(each.to, each.peer);
      }
    });
    if (!queued) { return queued; }
    auto& [reached, under_way] = groups_[*group];
    if (auto const code = reached.record(queue.stream()); code != cudaSuccess) {
      return queue.give_up("cudaEventRecord", code);
    }
    under_way = noted_.size();
    for (std::size_t const index : noted_) {
      all_[index].is_queued = true;
      all_[index].group = *group;
    }
    noted_.clear();
    return {};
  }

  [[nodiscard]] result<bool> is_done(nccl_queue& queue, transfer_id id)
  {
    if (auto const sound = queue.state(); !sound) { return tl::unexpected(sound.error()); }
    transfer const& own = all_.at(id);
    if (!own.is_queued) { return false; }
    cudaError_t const reached = groups_[own.group].reached.state();
    if (reached == cudaErrorNotReady) { return false; }
    if (reached != cudaSuccess) { return queue.give_up("cudaEventQuery", reached); }
    return true;
  }

  [[nodiscard]] result<void> wait_for(nccl_queue& queue, transfer_id id)
  {
    transfer const& own = all_.at(id);
    if (auto const sound = queue.state(); !sound) { return sound; }
    BALLAST_EXPECTS(own.is_queued, "transfer ", to_index(id),
                    " is waited for before it was started");
    cuda_event const& reached = groups_[own.group].reached;
    auto done = queue.await(own.sends ? "send" : "receive", [&] { return reached.state(); });
    if (done) { end(id); }
    return done;
  }

  /// After a failure NCCL has been aborted, so that no array is in use.
  [[nodiscard]] bool cancel(nccl_queue& queue, transfer_id id)
  {
    bool const is_noted = !all_.at(id).is_queued;
    auto const done = is_done(queue, id);
    if (is_noted) { std::erase(noted_, to_index(id)); }
    end(id);
    return is_noted || !done || *done;
  }

 private:
  struct transfer {
    bool sends = false;
    std::size_t peer = 0;
    std::span<std::byte const> from;
    std::span<std::byte> to;
    bool is_queued = false;  // or noted only
    std::size_t group = 0;
  };

  /// The transfers of one start.
  struct started {
    cuda_event reached;
    std::size_t under_way = 0;
  };

  [[nodiscard]] result<transfer_id> note(nccl_queue const& queue, transfer own)
  {
    if (auto const sound = queue.state(); !sound) { return tl::unexpected(sound.error()); }
    all_.next() = own;
    noted_.reserve(all_.all().size());
    noted_.push_back(all_.begin());
    return to_id<transfer_id>(noted_.back());
  }

  [[nodiscard]] result<std::size_t> unused_group()
  {
    auto const unused = std::find_if(groups_.begin(), groups_.end(),
                                     [](started const& each) { return each.under_way == 0; });
    if (unused != groups_.end()) { return static_cast<std::size_t>(unused - groups_.begin()); }
    auto event = cuda_event::make();
    if (!event) { return tl::unexpected(std::move(event).error()); }
    groups_.push_back({*std::move(event), 0});
    return groups_.size() - 1;
  }

  void end(transfer_id id)
  {
    if (all_.at(id).is_queued) { --groups_[all_.at(id).group].under_way; }
    all_.end(to_index(id));
  }

  numbered_places<transfer> all_;
  std::vector<std::size_t> noted_;  // numbers of those since the last start
  std::vector<started> groups_;
};

}  // namespace ballast::inline v0::detail
