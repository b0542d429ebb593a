// SPDX-License-Identifier: Apache-2.0
#include "nccl_shim.hpp"

#include "counted_allocations.hpp"
#include "hand_moved_clock.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace {

// Enough that a training step allocates nothing here: kernels of one rank in streams, works of one
// kernel, works of one rank that wait for their peers.
constexpr std::size_t usual_kernels = 16;
constexpr std::size_t usual_works = 64;

std::atomic<std::size_t> communicators = 0;
std::atomic<std::size_t> messages = 0;
std::atomic<std::chrono::milliseconds> lag_of_kernels{};
std::atomic<int> version_of_library = NCCL_VERSION_CODE;
std::atomic<std::size_t> windows = 0;
std::atomic<std::size_t> lost_windows = 0;
std::atomic<bool> aborts_wait_for_all{};
std::atomic<std::size_t> waiting_kernels{};  // for a peer

enum class kind { send, receive, all_gather, broadcast, all_reduce };

/// One call for bytes to be moved.
struct work {
  kind what;
  std::byte const* from;
  std::byte* to;
  std::size_t bytes;
  std::size_t peer;  // or the root
  bool done = false;
};

void copy(std::byte* to, std::byte const* from, std::size_t bytes)
{
  if (bytes > 0 && to != from) { std::memcpy(to, from, bytes); }
}

/// Works that wait for the same peers, in the order of their calls.
class line {
 public:
  line() { works_.reserve(usual_works); }
  [[nodiscard]] bool empty() const { return works_.empty(); }
  [[nodiscard]] work const& front() const { return *works_.front(); }
  void push(work& each) { works_.push_back(&each); }
  void remove(work const& each) { std::erase(works_, &each); }
  void finish_front()
  {
    works_.front()->done = true;
    works_.erase(works_.begin());
  }

 private:
  std::vector<work*> works_;
};

struct endpoint;

/// What the ranks of a clique share. Bytes are copied under its mutex, by whoever comes last.
class fabric {
 public:
  struct vote {
    int colour = 0;
    int key = 0;
    bool cast = false;
    std::shared_ptr<endpoint> part;
  };

  explicit fabric(std::size_t size)
      : votes(size), ranks(size), sends_(size * size), receives_(size * size), collectives_(size)
  {}

  /// Adds the work of a rank, and moves what it completes.
  void post(work& each, std::size_t rank)
  {
    line_of(each, rank).push(each);
    switch (each.what) {
      case kind::send: match(rank * ranks + each.peer); break;
      case kind::receive: match(each.peer * ranks + rank); break;
      default: match_collective(); break;
    }
  }

  void remove(work const& each, std::size_t rank) { line_of(each, rank).remove(each); }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<vote> votes;  // of the split that is under way
  std::size_t splits = 0;
  std::size_t const ranks;

 private:
  line& line_of(work const& each, std::size_t rank)
  {
    switch (each.what) {
      case kind::send: return sends_[rank * ranks + each.peer];
      case kind::receive: return receives_[each.peer * ranks + rank];
      default: return collectives_[rank];
    }
  }

  void match(std::size_t pair)
  {
    if (sends_[pair].empty() || receives_[pair].empty()) { return; }
    work const& send = sends_[pair].front();
    work const& receive = receives_[pair].front();
    if (send.bytes != receive.bytes) { return; }
    copy(receive.to, send.from, send.bytes);
    sends_[pair].finish_front();
    receives_[pair].finish_front();
    changed.notify_all();
  }

  void match_collective()
  {
    if (std::ranges::any_of(collectives_, &line::empty)) { return; }
    work const& first = collectives_.front().front();
    auto const alike = [&](line const& each) {
      work const& other = each.front();
      return other.what == first.what && other.bytes == first.bytes && other.peer == first.peer;
    };
    if (!std::ranges::all_of(collectives_, alike)) { return; }
    switch (first.what) {
      case kind::all_gather: gather(); break;
      case kind::broadcast:
        for (line const& each : collectives_) {
          copy(each.front().to, collectives_[first.peer].front().from, first.bytes);
        }
        break;
      default: reduce(); break;
    }
    for (line& each : collectives_) { each.finish_front(); }
    changed.notify_all();
  }

  void gather()
  {
    for (line const& to : collectives_) {
      std::byte* next = to.front().to;
      for (line const& from : collectives_) {
        copy(next, from.front().from, from.front().bytes);
        next += from.front().bytes;
      }
    }
  }

  void reduce()
  {
    for (std::size_t index = 0; index < collectives_.front().front().bytes; ++index) {
      unsigned sum = 0;
      for (line const& each : collectives_) {
        sum += std::to_integer<unsigned>(each.front().from[index]);
      }
      for (line const& each : collectives_) {
        each.front().to[index] = static_cast<std::byte>(sum);
      }
    }
  }

  std::vector<line> sends_;     // [from * ranks + to]
  std::vector<line> receives_;  // [from * ranks + to]
  std::vector<line> collectives_;
};

/// What one group puts into a stream.
struct kernel final : ballast_test::stream_work {
  kernel() { works.reserve(usual_works); }

  void run() override;
  void end() override;
  stream_work& again() override;

  std::shared_ptr<endpoint> owner;  // while it is queued
  std::vector<work> works;
};

/// One rank of a clique; a stream that holds work for it keeps it when its handle is gone. All but
/// the first two are guarded by the clique's mutex.
struct endpoint {
  endpoint(std::shared_ptr<fabric> group, std::size_t place)
      : clique(std::move(group)), rank(place), spare(usual_kernels)
  {
    for (auto& each : spare) { each = std::make_unique<kernel>(); }
  }

  std::shared_ptr<fabric> const clique;
  std::size_t const rank;
  bool aborted = false;
  ncclResult_t asynchronous = ncclSuccess;
  std::size_t queued = 0;  // kernels that have not ended, those of graphs too
  std::vector<std::unique_ptr<kernel>> spare;
};

/// A kernel of a rank, which end() takes back.
kernel& next_kernel(std::shared_ptr<endpoint> const& self)
{
  std::lock_guard const lock(self->clique->mutex);
  ++self->queued;
  if (self->spare.empty()) { self->spare.push_back(std::make_unique<kernel>()); }
  kernel& next = *self->spare.back().release();
  self->spare.pop_back();
  next.owner = self;
  return next;
}

ballast_test::stream_work& kernel::again()
{
  kernel& next = next_kernel(owner);
  next.works = works;
  return next;
}

void kernel::run()
{
  fabric& clique = *owner->clique;
  std::unique_lock lock(clique.mutex);
  if (!owner->aborted) {
    for (work& each : works) { clique.post(each, owner->rank); }
    ++waiting_kernels;
    ballast::detail::wait_by_clock(clique.changed, lock, std::chrono::milliseconds::max(), [&] {
      return owner->aborted ||
             (owner->asynchronous == ncclSuccess && std::ranges::all_of(works, &work::done));
    });
    --waiting_kernels;
    for (work const& each : works) {
      if (!each.done) { clique.remove(each, owner->rank); }
    }
    if (owner->aborted) {
      lock.unlock();
      std::this_thread::sleep_for(lag_of_kernels.load());
    }
  }
}

void kernel::end()
{
  works.clear();
  auto const self = std::exchange(owner, nullptr);  // it may end with this function
  std::lock_guard const lock(self->clique->mutex);
  self->spare.push_back(std::unique_ptr<kernel>(this));
  --self->queued;
  self->clique->changed.notify_all();
}

/// The calls of this thread between ncclGroupStart and ncclGroupEnd.
struct group {
  group() { works.reserve(usual_works); }

  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  ncclResult_t failure = ncclSuccess;
  std::vector<work> works;
  std::vector<ncclComm_t> aborts;
};
thread_local group open_group;

}  // namespace

struct ncclWindow_vidmem {
  void* memory;
};

struct ncclComm {
  explicit ncclComm(std::shared_ptr<endpoint> rank) : self(std::move(rank))
  {
    held.reserve(usual_works);
    ++communicators;
  }
  ~ncclComm()
  {
    --communicators;
    windows -= registered.size();
  }

  [[nodiscard]] bool in_progress() const { return polls_left > 0; }

  ncclResult_t fail(ncclResult_t code, char const* why)
  {
    last_error = why;
    return code;
  }

  /// What a call gives for which a failure was ordered.
  ncclResult_t ordered_failure()
  {
    if (failure_to_come == ncclSuccess || calls_before_it-- > 0) { return ncclSuccess; }
    return fail(std::exchange(failure_to_come, ncclSuccess), "told to fail");
  }

  /// Puts the works into the stream, or keeps them until it has been asked often enough.
  ncclResult_t launch(std::vector<work>& works, cudaStream_t stream)
  {
    polls_left = polls;
    if (!in_progress()) {
      queue(works, stream);
      return ncclSuccess;
    }
    held.swap(works);
    held_for = stream;
    return ncclInProgress;
  }

  ncclResult_t state()
  {
    {
      std::lock_guard const lock(self->clique->mutex);
      if (self->asynchronous != ncclSuccess) {
        return fail(self->asynchronous, "a link went down");
      }
    }
    if (!in_progress()) { return ncclSuccess; }
    if (polls_left != ballast_test::never && --polls_left == 0) {
      if (held_for != nullptr) { queue(held, std::exchange(held_for, nullptr)); }
      hand_over_part();
    }
    return ncclInProgress;
  }

  /// A split writes the new communicator when it is done, and not before.
  void hand_over_part()
  {
    if (part_to != nullptr) { *std::exchange(part_to, nullptr) = part.release(); }
  }

  std::shared_ptr<endpoint> self;
  std::unique_ptr<ncclComm> part;  // what a split has made
  ncclComm_t* part_to = nullptr;   // and where the caller waits for it
  std::size_t polls = 0;           // what a call takes to come into effect
  std::size_t polls_left = 0;      // of those
  std::size_t parts_polls = 0;
  std::vector<std::unique_ptr<ncclWindow_vidmem>> registered;  // symmetric windows
  ncclResult_t failure_to_come = ncclSuccess;
  std::size_t calls_before_it = 0;
  std::string last_error;

 private:
  /// Takes the works and leaves an empty array of the same capacity.
  void queue(std::vector<work>& works, cudaStream_t stream)
  {
    kernel& next = next_kernel(self);
    next.works.swap(works);
    ballast_test::push(stream, next);
  }

  std::vector<work> held;
  cudaStream_t held_for = nullptr;
};

namespace {

/// Frees the communicator when all that it queued is over.
void reclaim(ncclComm_t comm)
{
  std::unique_ptr<ncclComm> const owned(comm);
  if (comm->self->aborted && lag_of_kernels.load() > std::chrono::milliseconds(0)) { return; }
  ballast::detail::wait_clock::watched_wait own;
  while (comm->self->aborted && aborts_wait_for_all && waiting_kernels > 0) {
    own.look_in_vain();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  own.end();
  endpoint const& self = *comm->self;
  std::unique_lock lock(self.clique->mutex);
  ballast::detail::wait_by_clock(self.clique->changed, lock, std::chrono::milliseconds::max(),
                                 [&] { return self.queued == 0; });
}

ncclResult_t close_group()
{
  ballast_test::spared_allocations const spared;
  group& calls = open_group;
  for (ncclComm_t const comm : std::exchange(calls.aborts, {})) { reclaim(comm); }
  ncclComm_t const comm = std::exchange(calls.comm, nullptr);
  ncclResult_t const failure = std::exchange(calls.failure, ncclSuccess);
  if (failure != ncclSuccess) { calls.works.clear(); }
  if (failure != ncclSuccess || comm == nullptr) { return failure; }
  return comm->launch(calls.works, calls.stream);
}

/// Adds a call to the open group, or makes it a group of its own.
ncclResult_t add(ncclComm_t comm, cudaStream_t stream, work const& each, ncclDataType_t type)
{
  ballast_test::spared_allocations const spared;
  group& calls = open_group;
  auto const judge = [&] {
    if (auto const code = comm->ordered_failure(); code != ncclSuccess) { return code; }
    if (comm->in_progress()) { return comm->fail(ncclInvalidUsage, "still in progress"); }
    if (type != ncclUint8) { return comm->fail(ncclInvalidArgument, "not bytes"); }
    if (each.peer >= comm->self->clique->ranks) {
      return comm->fail(ncclInvalidArgument, "no such rank");
    }
    if (calls.comm != nullptr && (calls.comm != comm || calls.stream != stream)) {
      return comm->fail(ncclInvalidUsage, "several communicators or streams in one group");
    }
    return ncclSuccess;
  };
  ncclResult_t const judged = judge();
  if (judged == ncclSuccess) {
    calls.comm = comm;
    calls.stream = stream;
    calls.works.push_back(each);
  } else {
    calls.failure = judged;
  }
  return calls.depth > 0 ? judged : close_group();
}

std::byte const* bytes(void const* memory)
{
  return static_cast<std::byte const*>(memory);
}
std::byte* bytes(void* memory)
{
  return static_cast<std::byte*>(memory);
}

/// The ranks of a new clique, in order.
std::vector<std::shared_ptr<endpoint>> clique_of(std::size_t ranks)
{
  auto const clique = std::make_shared<fabric>(ranks);
  std::vector<std::shared_ptr<endpoint>> members;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    members.push_back(std::make_shared<endpoint>(clique, rank));
  }
  return members;
}

void form_parts(std::vector<fabric::vote>& votes)
{
  std::vector<fabric::vote*> order;
  for (fabric::vote& each : votes) { order.push_back(&each); }
  std::ranges::sort(order, [](fabric::vote const* a, fabric::vote const* b) {
    return std::tuple(a->colour, a->key, a) < std::tuple(b->colour, b->key, b);
  });
  for (auto first = order.begin(); first != order.end();) {
    auto const last = std::find_if(first, order.end(), [&](fabric::vote const* each) {
      return each->colour != (*first)->colour;
    });
    for (auto& member : clique_of(static_cast<std::size_t>(last - first))) {
      (*first++)->part = std::move(member);
    }
  }
  for (fabric::vote& each : votes) { each.cast = false; }
}

}  // namespace

// ---- NCCL ---------------------------------------------------------------------------------------

char const* ncclGetErrorString(ncclResult_t code)
{
  switch (code) {
    case ncclSuccess: return "no error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unhandled error";
  }
}

char const* ncclGetLastError(ncclComm_t comm)
{
  return comm == nullptr ? "" : comm->last_error.c_str();
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ranks, int const*)
{
  for (auto& member : clique_of(static_cast<std::size_t>(ranks))) {
    *comms++ = std::make_unique<ncclComm>(std::move(member)).release();
  }
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t const comm, int* ranks)
{
  if (comm == nullptr) { return ncclInvalidArgument; }
  *ranks = static_cast<int>(comm->self->clique->ranks);
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t const comm, int* rank)
{
  if (comm == nullptr) { return ncclInvalidArgument; }
  *rank = static_cast<int>(comm->self->rank);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state)
{
  ballast_test::spared_allocations const spared;
  if (comm == nullptr) { return ncclInvalidArgument; }
  *state = comm->state();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
  ballast_test::spared_allocations const spared;
  endpoint& self = *comm->self;
  {
    std::lock_guard const lock(self.clique->mutex);
    self.aborted = true;
    self.clique->changed.notify_all();
  }
  open_group.aborts.push_back(comm);
  return open_group.depth > 0 ? ncclSuccess : close_group();
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
  ballast_test::spared_allocations const spared;
  if (comm->in_progress()) { return comm->fail(ncclInvalidUsage, "still in progress"); }
  comm->polls_left = comm->polls;
  return comm->in_progress() ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
  ballast_test::spared_allocations const spared;
  lost_windows += comm->registered.size();
  reclaim(comm);
  return ncclSuccess;
}

ncclResult_t ncclGetVersion(int* version)
{
  *version = version_of_library;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes)
{
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory)
{
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int flags)
{
  if (auto const code = comm->ordered_failure(); code != ncclSuccess) { return code; }
  if (comm->in_progress() || bytes == 0 || flags != NCCL_WIN_COLL_SYMMETRIC) {
    return comm->fail(ncclInvalidArgument, "no symmetric window");
  }
  comm->registered.push_back(std::make_unique<ncclWindow_vidmem>(ncclWindow_vidmem{memory}));
  *window = comm->registered.back().get();
  ++windows;
  comm->polls_left = comm->polls;
  return comm->in_progress() ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
  std::erase_if(comm->registered, [&](auto const& each) { return each.get() == window; });
  --windows;
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* part, ncclConfig_t*)
{
  ballast_test::spared_allocations const spared;
  *part = nullptr;
  if (auto const code = comm->ordered_failure(); code != ncclSuccess) { return code; }
  if (comm->in_progress() || colour < 0) {
    return comm->fail(ncclInvalidUsage, "not now, or no colour");
  }
  endpoint& self = *comm->self;
  fabric& clique = *self.clique;
  std::unique_lock lock(clique.mutex);
  std::size_t const turn = clique.splits;
  fabric::vote& mine = clique.votes[self.rank];
  mine = {colour, key, true, nullptr};
  if (std::ranges::all_of(clique.votes, &fabric::vote::cast)) {
    form_parts(clique.votes);
    ++clique.splits;
    clique.changed.notify_all();
  }
  clique.changed.wait(lock, [&] { return clique.splits != turn || self.aborted; });
  if (clique.splits == turn) { return comm->fail(ncclInternalError, "aborted"); }
  comm->part = std::make_unique<ncclComm>(std::move(mine.part));
  comm->part->polls = comm->parts_polls;
  comm->part->polls_left = comm->parts_polls;
  comm->part->parts_polls = comm->parts_polls;
  comm->part_to = part;
  comm->polls_left = comm->polls;
  if (!comm->in_progress()) { comm->hand_over_part(); }
  return ncclSuccess;  // also while it is in progress, as NCCL 2.28 does
}

ncclResult_t ncclGroupStart()
{
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
  return --open_group.depth > 0 ? ncclSuccess : close_group();
}

ncclResult_t ncclSend(void const* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
  ++messages;
  return add(comm, stream,
             {kind::send, bytes(from), nullptr, count, static_cast<std::size_t>(peer)}, type);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
  return add(comm, stream,
             {kind::receive, nullptr, bytes(to), count, static_cast<std::size_t>(peer)}, type);
}

ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
  return add(comm, stream, {kind::all_gather, bytes(from), bytes(to), count, 0}, type);
}

ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
  return add(comm, stream,
             {kind::broadcast, bytes(from), bytes(to), count, static_cast<std::size_t>(root)},
             type);
}

ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
  if (operation != ncclSum) { return comm->fail(ncclInvalidArgument, "not a sum"); }
  return add(comm, stream, {kind::all_reduce, bytes(from), bytes(to), count, 0}, type);
}

// ---- For tests ----------------------------------------------------------------------------------

void ballast_test::make_non_blocking(ncclComm_t comm, std::size_t polls)
{
  comm->polls = polls;
  comm->parts_polls = polls;
}

void ballast_test::make_parts_non_blocking(ncclComm_t comm, std::size_t polls)
{
  comm->parts_polls = polls;
}

void ballast_test::fail_call(ncclComm_t comm, std::size_t calls_before, ncclResult_t code)
{
  comm->failure_to_come = code;
  comm->calls_before_it = calls_before;
}

void ballast_test::fail_asynchronously(ncclComm_t comm, ncclResult_t code)
{
  std::lock_guard const lock(comm->self->clique->mutex);
  comm->self->asynchronous = code;
}

void ballast_test::abort_before_kernels_end(std::chrono::milliseconds lag)
{
  lag_of_kernels = lag;
}

void ballast_test::have_aborts_wait_for_all_kernels(bool wait)
{
  aborts_wait_for_all = wait;
}

std::size_t ballast_test::live_communicators()
{
  return communicators;
}

void ballast_test::pretend_nccl_version(int version)
{
  version_of_library = version;
}

std::size_t ballast_test::live_windows()
{
  return windows;
}

std::size_t ballast_test::windows_left_behind()
{
  return lost_windows;
}

std::size_t ballast_test::messages_queued()
{
  return messages;
}
