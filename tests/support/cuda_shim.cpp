// SPDX-License-Identifier: Apache-2.0
#include "cuda_shim.hpp"

#include "counted_allocations.hpp"
#include "hand_moved_clock.hpp"

#include <ballast/core.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <variant>

namespace {

// Enough that a training step allocates nothing here.
constexpr std::size_t usual_tasks = 1024;

std::atomic<std::size_t> tasks_in_streams = 0;
std::atomic<std::size_t> pinned_arrays = 0;
std::atomic<std::size_t> pinned_calls_that_wait = 0;
std::atomic<std::size_t> frees_that_wait = 0;
std::atomic<bool> pinned_memory_refused = false;
std::atomic<std::size_t> device_arrays = 0;
std::atomic<std::size_t> events = 0;
std::atomic<std::size_t> copies = 0;
std::atomic<std::uint64_t> streams_made = 0;
std::atomic<std::uint64_t> longest_delay = 0;  // microseconds
thread_local cudaError_t last_cuda_error = cudaSuccess;
thread_local int current_device = 0;

struct {
  std::mutex mutex;
  int count = 1;
  bool reach_each_other = false;
  std::size_t most_peers = SIZE_MAX;
  std::set<std::pair<int, int>> enabled;
} devices;

struct {
  std::mutex mutex;
  std::string function;
  std::size_t calls_before = 0;
  cudaStream_t stream = nullptr;
  cudaError_t code = cudaSuccess;
} order;

cudaError_t said(cudaError_t code)
{
  if (code != cudaSuccess) { last_cuda_error = code; }
  return code;
}

/// Whether the call is one for which a failure was ordered, which is the thread's last error then.
bool fails(char const* function, cudaStream_t stream = nullptr)
{
  std::lock_guard const lock(order.mutex);
  if (order.code == cudaSuccess || order.function != function) { return false; }
  if (order.stream != nullptr && order.stream != stream) { return false; }
  if (order.calls_before > 0) {
    --order.calls_before;
    return false;
  }
  last_cuda_error = std::exchange(order.code, cudaSuccess);
  return true;
}

/// How far a stream has come, which is kept for those who wait when the stream is gone.
class progress {
 public:
  void step()
  {
    std::lock_guard const lock(mutex_);
    ++done_;
    changed_.notify_all();
  }

  void wait_for(std::uint64_t tasks)
  {
    std::unique_lock lock(mutex_);
    ballast::detail::wait_by_clock(changed_, lock, std::chrono::milliseconds::max(),
                                   [&] { return done_ >= tasks; });
  }

  [[nodiscard]] bool has_done(std::uint64_t tasks)
  {
    std::lock_guard const lock(mutex_);
    return done_ >= tasks;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t done_ = 0;
};

struct copy {
  void* to;
  void const* from;
  std::size_t bytes;
};

/// A place in a stream; in another stream it is the task of waiting for that.
struct place {
  std::shared_ptr<progress> stream;
  std::uint64_t tasks_before;

  void wait() const { stream->wait_for(tasks_before); }
  [[nodiscard]] bool is_reached() const { return stream->has_done(tasks_before); }
};

struct host_function {
  cudaHostFn_t function;
  void* argument;
};

/// Where a stream writes when it has come so far.
struct stamp {
  std::shared_ptr<std::chrono::steady_clock::time_point> when;
};

// ---- What processes share ----

/// How often the event was recorded, and the last of these records that its stream has reached.
struct shared_event {
  std::atomic<std::uint64_t> recorded;
  std::atomic<std::uint64_t> reached;
  std::atomic<int> opened;
  std::atomic<bool> is_gone;
};

struct shared_array {
  std::size_t offset;  // in the file
  std::size_t bytes;
  pid_t owner;
  std::atomic<int> opened;
  std::atomic<bool> is_gone;
};

struct shared_state {
  static constexpr std::size_t most = 512;
  static constexpr std::size_t file_bytes = std::size_t{1} << 32U;  // hardly any of it is written

  std::atomic<std::size_t> used = 0;
  std::atomic<std::size_t> events = 0;
  std::atomic<std::size_t> arrays = 0;
  std::atomic<std::size_t> freed = 0;
  std::atomic<std::size_t> rules_broken = 0;
  shared_event event[most];
  shared_array array[most];
};

struct {
  shared_state* state = nullptr;
  int file = -1;
  std::mutex mutex;
  std::map<void*, std::size_t> arrays;  // that this process sees, of its own and opened
} shared;

/// A record of a shared event; as a task, that it is reached.
struct shared_record {
  shared_event* event;
  std::uint64_t number;
};

/// Waits for such a record.
struct shared_wait {
  shared_record record;
};

using task = std::variant<copy, place, host_function, stamp, ballast_test::stream_work*,
                          shared_record, shared_wait>;

}  // namespace

struct CUstream_st {
  CUstream_st() : device(current_device), random_(streams_made++)
  {
    waiting_.reserve(usual_tasks);
    worker_ = std::thread([this] { work_off(); });
  }

  ~CUstream_st()
  {
    {
      std::lock_guard const lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    worker_.join();
    destroy_graph();
  }

  void launch_graph()
  {
    for (task const& each : graph_) {
      auto* const* work = std::get_if<ballast_test::stream_work*>(&each);
      push(work != nullptr ? task(&(*work)->again()) : each);
    }
  }

  void destroy_graph()
  {
    for (task const& each : std::exchange(graph_, {})) {
      if (auto* const* work = std::get_if<ballast_test::stream_work*>(&each)) { (*work)->end(); }
    }
  }

  void push(task each)
  {
    std::lock_guard const lock(mutex_);
    if (captured) { return graph_.push_back(std::move(each)); }
    if (!std::exchange(acts_, true)) { ballast_test::hand_moved_clock::begin_to_act(); }
    waiting_.push_back(std::move(each));
    ++pushed_;
    ++tasks_in_streams;
    changed_.notify_all();
  }

  /// Behind all that is queued.
  place end()
  {
    std::lock_guard const lock(mutex_);
    return {progress_, pushed_};
  }

  cudaError_t query()
  {
    std::lock_guard const lock(mutex_);
    if (captured) { return cudaErrorStreamCaptureUnsupported; }
    if (failure_ != cudaSuccess) { return failure_; }
    return waiting_.empty() && !busy_ ? cudaSuccess : cudaErrorNotReady;
  }

  void fail(cudaError_t code)
  {
    std::lock_guard const lock(mutex_);
    failure_ = code;
  }

  std::atomic<bool> captured = false;

  int const device;

 private:
  void run(copy const& each)
  {
    if (std::uint64_t const longest = longest_delay; longest > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_.below(longest)));
    }
    std::memcpy(each.to, each.from, each.bytes);
  }
  static void run(place const& each) { each.wait(); }
  // Time may pass meanwhile: it may wait for it.
  static void run(host_function const& each)
  {
    ballast_test::hand_moved_clock::end_to_act();
    each.function(each.argument);
    ballast_test::hand_moved_clock::begin_to_act();
  }
  static void run(stamp const& each) { *each.when = std::chrono::steady_clock::now(); }
  static void run(ballast_test::stream_work* each) { each->run(); }
  static void run(shared_record const& each) { each.event->reached = each.number; }
  static void run(shared_wait const& each)
  {
    while (each.record.event->reached < each.record.number) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void work_off()
  {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (waiting_.empty() && std::exchange(acts_, false)) {
        ballast_test::hand_moved_clock::end_to_act();
      }
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) { return; }
      task const next = std::move(waiting_.front());
      waiting_.erase(waiting_.begin());
      busy_ = true;
      lock.unlock();
      std::visit([&](auto const& each) { run(each); }, next);
      lock.lock();
      busy_ = false;
      --tasks_in_streams;
      progress_->step();
      lock.unlock();
      if (auto* const* work = std::get_if<ballast_test::stream_work*>(&next)) { (*work)->end(); }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<task> waiting_;
  std::vector<task> graph_;
  std::uint64_t pushed_ = 0;
  std::shared_ptr<progress> const progress_ = std::make_shared<progress>();
  ballast::random_source random_;
  bool busy_ = false;
  bool acts_ = false;  // has tasks, or ends one
  bool ending_ = false;
  cudaError_t failure_ = cudaSuccess;
  std::thread worker_;
};

struct CUevent_st {
  explicit CUevent_st(bool with_time) : timed(with_time) { ++events; }
  ~CUevent_st() { --events; }

  bool const timed;
  stamp reached = {};  // of a timed event that was recorded

  int const device = current_device;
  std::mutex mutex;
  place recorded = {};  // nowhere, until it is
  shared_event* shared = nullptr;
  bool is_opened = false;  // another process's
};

// ---- Errors and devices -------------------------------------------------------------------------

char const* cudaGetErrorString(cudaError_t code)
{
  switch (code) {
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    default: return "unknown error";
  }
}

cudaError_t cudaGetLastError()
{
  return std::exchange(last_cuda_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError()
{
  return last_cuda_error;
}

cudaError_t cudaGetDevice(int* device)
{
  if (fails("cudaGetDevice")) { return last_cuda_error; }
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
  if (fails("cudaSetDevice")) { return last_cuda_error; }
  std::lock_guard const lock(devices.mutex);
  if (device < 0 || device >= devices.count) { return said(cudaErrorInvalidDevice); }
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer)
{
  if (fails("cudaDeviceCanAccessPeer")) { return last_cuda_error; }
  std::lock_guard const lock(devices.mutex);
  *can = devices.reach_each_other && device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
  ballast_test::spared_allocations const spared;
  if (fails("cudaDeviceEnablePeerAccess")) { return last_cuda_error; }
  std::lock_guard const lock(devices.mutex);
  if (!devices.reach_each_other) { return said(cudaErrorPeerAccessUnsupported); }
  auto const peers =
      std::ranges::count(devices.enabled, current_device, &std::pair<int, int>::first);
  if (static_cast<std::size_t>(peers) >= devices.most_peers) { return said(cudaErrorTooManyPeers); }
  bool const is_new = devices.enabled.emplace(current_device, peer).second;
  return said(is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

// ---- Streams and events -------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream)
{
  ballast_test::spared_allocations const spared;
  *stream = std::make_unique<CUstream_st>().release();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned)
{
  if (fails("cudaStreamCreateWithFlags")) { return last_cuda_error; }
  return cudaStreamCreate(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  std::unique_ptr<CUstream_st>(stream).reset();
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device)
{
  if (fails("cudaStreamGetDevice", stream)) { return last_cuda_error; }
  *device = stream->device;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status)
{
  *status = stream != nullptr && stream->captured ? cudaStreamCaptureStatusActive
                                                  : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  return said(stream->query());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  stream->end().wait();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
  ballast_test::spared_allocations const spared;
  if (fails("cudaStreamWaitEvent", stream)) { return last_cuda_error; }
  std::lock_guard const lock(event->mutex);
  if (event->shared != nullptr) {
    if (event->shared->is_gone) { ++shared.state->rules_broken; }
    stream->push(shared_wait{{event->shared, event->shared->recorded}});
  } else if (event->recorded.stream != nullptr) {
    stream->push(event->recorded);
  }
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument)
{
  ballast_test::spared_allocations const spared;
  stream->push(host_function{function, argument});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags)
{
  ballast_test::spared_allocations const spared;
  if (fails("cudaEventCreateWithFlags")) { return last_cuda_error; }
  auto made = std::make_unique<CUevent_st>((flags & cudaEventDisableTiming) == 0);
  if ((flags & cudaEventInterprocess) != 0) {
    if (made->timed || shared.state == nullptr) { return said(cudaErrorInvalidValue); }
    made->shared = &shared.state->event[shared.state->events++];
  }
  *event = made.release();
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  ballast_test::spared_allocations const spared;
  if (fails("cudaEventRecord", stream)) { return last_cuda_error; }
  if (event->device != stream->device) { return said(cudaErrorInvalidResourceHandle); }
  std::lock_guard const lock(event->mutex);
  if (event->timed) {
    event->reached.when = std::make_shared<std::chrono::steady_clock::time_point>();
    stream->push(event->reached);
  }
  if (event->shared != nullptr) {
    stream->push(shared_record{event->shared, ++event->shared->recorded});
  }
  event->recorded = stream->end();
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  if (fails("cudaEventSynchronize")) { return last_cuda_error; }
  place recorded;
  {
    std::lock_guard const lock(event->mutex);
    recorded = event->recorded;
  }
  if (recorded.stream != nullptr) { recorded.wait(); }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  if (fails("cudaEventQuery")) { return last_cuda_error; }
  std::lock_guard const lock(event->mutex);
  place const& recorded = event->recorded;
  return recorded.stream == nullptr || recorded.is_reached() ? cudaSuccess
                                                             : said(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end)
{
  if (fails("cudaEventElapsedTime")) { return last_cuda_error; }
  if (start->reached.when == nullptr || end->reached.when == nullptr) {
    return said(cudaErrorInvalidResourceHandle);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(*end->reached.when - *start->reached.when).count();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  if (shared_event* const both = event->shared; both != nullptr) {
    if (event->is_opened) {
      --both->opened;
    } else {
      both->is_gone = true;
      if (both->opened > 0) { ++shared.state->rules_broken; }
    }
  }
  std::unique_ptr<CUevent_st>(event).reset();
  return cudaSuccess;
}

// ---- Copies -------------------------------------------------------------------------------------

cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream)
{
  ballast_test::spared_allocations const spared;
  if (fails("cudaMemcpyAsync", stream)) { return last_cuda_error; }
  ++copies;
  if (bytes > 0) { stream->push(copy{to, from, bytes}); }
  return cudaSuccess;
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, void const* const* from, std::size_t const* bytes,
                                 std::size_t count, cudaMemcpyAttributes* attributes,
                                 std::size_t* first_of, std::size_t kinds, cudaStream_t stream)
{
  ballast_test::spared_allocations const spared;
  if (fails("cudaMemcpyBatchAsync", stream)) { return last_cuda_error; }
  bool sound = stream != nullptr && count > 0 && kinds == 1 && first_of[0] == 0 &&
               attributes[0].srcAccessOrder == cudaMemcpySrcAccessOrderStream;
  for (std::size_t each = 0; each < count; ++each) {
    sound = sound && to[each] != nullptr && from[each] != nullptr && bytes[each] > 0;
  }
  if (!sound) { return said(cudaErrorInvalidValue); }
  copies += count;
  for (std::size_t each = count; each-- > 0;) {
    stream->push(copy{to[each], from[each], bytes[each]});
  }
  return cudaSuccess;
}

// ---- Memory -------------------------------------------------------------------------------------

namespace {

/// Without content: a sanitizer sees who reads what was never written.
void* pages(std::size_t bytes)
{
  constexpr std::size_t page = 4096;
  return std::aligned_alloc(page, (bytes + page - 1) / page * page);
}

/// Shows this process an array; each time at another address.
void* map_shared(std::size_t index)
{
  shared_array const& each = shared.state->array[index];
  void* const memory = ::mmap(nullptr, each.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.file,
                              static_cast<off_t>(each.offset));
  if (memory == MAP_FAILED) { return nullptr; }
  std::lock_guard const lock(shared.mutex);
  shared.arrays[memory] = index;
  return memory;
}

void* shared_pages(std::size_t bytes)
{
  constexpr std::size_t page = 4096;
  std::size_t const room = (bytes + page - 1) / page * page;
  std::size_t const index = shared.state->arrays++;
  std::size_t const offset = shared.state->used.fetch_add(room);
  if (index >= shared_state::most || offset + room > shared_state::file_bytes) { return nullptr; }
  shared_array& made = shared.state->array[index];
  made.offset = offset;
  made.bytes = room;
  made.owner = ::getpid();
  return map_shared(index);
}

/// Takes the array out of this process's sight; nullptr if it is none of these.
shared_array* unmap_shared(void* memory, bool opened)
{
  std::lock_guard const lock(shared.mutex);
  auto const found = shared.arrays.find(memory);
  if (found == shared.arrays.end()) { return nullptr; }
  shared_array& each = shared.state->array[found->second];
  if ((each.owner != ::getpid()) != opened) { return nullptr; }
  ::munmap(memory, each.bytes);
  shared.arrays.erase(found);
  return &each;
}

bool free_shared(void* memory)
{
  shared_array* const each = unmap_shared(memory, false);
  if (each == nullptr) { return false; }
  each->is_gone = true;
  ++shared.state->freed;
  if (each->opened > 0) { ++shared.state->rules_broken; }
  return true;
}

/// The handle of the array or event with that number, and its number.
template <class Handle>
Handle shared_handle(std::size_t number)
{
  Handle made{};
  std::memcpy(&made, &++number, sizeof(number));
  return made;
}

template <class Handle>
std::size_t shared_number(Handle const& handle)
{
  std::size_t number = 0;
  std::memcpy(&number, &handle, sizeof(number));
  return number - 1;
}

}  // namespace

cudaError_t cudaMallocHost(void** memory, std::size_t bytes)
{
  if (tasks_in_streams > 0) { ++pinned_calls_that_wait; }
  bool const refused = pinned_memory_refused || ballast_test::allocation_fails();
  *memory = refused ? nullptr : pages(bytes);
  if (*memory == nullptr) { return said(cudaErrorMemoryAllocation); }
  ++pinned_arrays;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory)
{
  if (tasks_in_streams > 0) {
    ++pinned_calls_that_wait;
    ++frees_that_wait;
  }
  // CUDA's waits for what is queued, which may use the memory. Here processes do: ranks that are threads
  // have their streams in common, which may be stuck.
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (shared.state != nullptr && tasks_in_streams > 0 &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  std::free(memory);
  --pinned_arrays;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes)
{
  if (fails("cudaMalloc")) { return last_cuda_error; }
  *memory = shared.state != nullptr ? shared_pages(bytes) : pages(bytes);
  if (*memory == nullptr) { return said(cudaErrorMemoryAllocation); }
  ++device_arrays;
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t)
{
  if (fails("cudaMallocAsync")) { return last_cuda_error; }
  return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream)
{
  auto const free_it = [](void* array) {
    std::free(array);
    --device_arrays;
  };
  return cudaLaunchHostFunc(stream, free_it, memory);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total)
{
  *free = 2'000'000;
  *total = 16'000'000;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory)
{
  if (memory != nullptr) {
    --device_arrays;
    frees_that_wait += tasks_in_streams > 0 ? 1U : 0U;
    if (shared.state != nullptr && free_shared(memory)) { return cudaSuccess; }
  }
  std::free(memory);
  return cudaSuccess;
}

// ---- Between processes --------------------------------------------------------------------------

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory)
{
  if (fails("cudaIpcGetMemHandle")) { return last_cuda_error; }
  std::lock_guard const lock(shared.mutex);
  auto const found = shared.arrays.find(memory);
  if (found == shared.arrays.end()) { return said(cudaErrorInvalidValue); }
  *handle = shared_handle<cudaIpcMemHandle_t>(found->second);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned flags)
{
  if (fails("cudaIpcOpenMemHandle")) { return last_cuda_error; }
  std::size_t const number = shared_number(handle);
  if (number >= shared_state::most || flags != cudaIpcMemLazyEnablePeerAccess) {
    return said(cudaErrorInvalidValue);
  }
  shared_array& each = shared.state->array[number];
  // Nor does CUDA open what the same process has allocated.
  if (each.owner == ::getpid() || each.is_gone) { return said(cudaErrorInvalidResourceHandle); }
  ++each.opened;
  *memory = map_shared(number);
  return *memory != nullptr ? cudaSuccess : said(cudaErrorMapBufferObjectFailed);
}

cudaError_t cudaIpcCloseMemHandle(void* memory)
{
  shared_array* const each = unmap_shared(memory, true);
  if (each == nullptr) { return said(cudaErrorInvalidValue); }
  --each->opened;
  return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event)
{
  if (fails("cudaIpcGetEventHandle")) { return last_cuda_error; }
  if (event->shared == nullptr) { return said(cudaErrorInvalidResourceHandle); }
  *handle = shared_handle<cudaIpcEventHandle_t>(
      static_cast<std::size_t>(event->shared - shared.state->event));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle)
{
  if (fails("cudaIpcOpenEventHandle")) { return last_cuda_error; }
  std::size_t const number = shared_number(handle);
  if (number >= shared_state::most) { return said(cudaErrorInvalidValue); }
  auto opened = std::make_unique<CUevent_st>(false);
  opened->shared = &shared.state->event[number];
  opened->is_opened = true;
  ++opened->shared->opened;
  *event = opened.release();
  return cudaSuccess;
}

ballast_test::shared_cuda::shared_cuda()
{
  void* const memory = ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared.state = memory == MAP_FAILED ? nullptr : new (memory) shared_state();
  shared.file = ::memfd_create("device", 0);
  if (::ftruncate(shared.file, static_cast<off_t>(shared_state::file_bytes)) != 0) { std::abort(); }
}

ballast_test::shared_cuda::~shared_cuda()
{
  ::munmap(std::exchange(shared.state, nullptr), sizeof(shared_state));
  ::close(shared.file);
}

std::size_t ballast_test::shared_cuda::arrays_left() const
{
  return shared.state->arrays - shared.state->freed;
}

std::size_t ballast_test::shared_cuda::rules_broken() const
{
  return shared.state->rules_broken;
}

// ---- For tests ----------------------------------------------------------------------------------

void ballast_test::push(cudaStream_t stream, stream_work& work)
{
  stream->push(&work);
}

void ballast_test::delay_copies(std::chrono::microseconds at_most)
{
  longest_delay = static_cast<std::uint64_t>(at_most.count());
}

void ballast_test::fail_cuda_call(char const* function, std::size_t calls_before, cudaError_t code,
                                  cudaStream_t stream)
{
  std::lock_guard const lock(order.mutex);
  order.function = function;
  order.calls_before = calls_before;
  order.stream = stream;
  order.code = code;
}

void ballast_test::fail_stream(cudaStream_t stream, cudaError_t code)
{
  stream->fail(code);
}

void ballast_test::capture(cudaStream_t stream, bool captured)
{
  stream->captured = captured;
}

void ballast_test::launch_graph(cudaStream_t stream)
{
  stream->launch_graph();
}

void ballast_test::destroy_graph(cudaStream_t stream)
{
  stream->destroy_graph();
}

void ballast_test::refuse_pinned_memory(bool refuse)
{
  pinned_memory_refused = refuse;
}

void ballast_test::pretend_devices(int count, bool reach_each_other, std::size_t most_peers)
{
  std::lock_guard const lock(devices.mutex);
  devices.count = count;
  devices.most_peers = most_peers;
  devices.reach_each_other = reach_each_other;
  devices.enabled.clear();
}

std::size_t ballast_test::accesses_enabled()
{
  std::lock_guard const lock(devices.mutex);
  return devices.enabled.size();
}

std::size_t ballast_test::pinned_calls_behind_work()
{
  return pinned_calls_that_wait;
}

std::size_t ballast_test::frees_behind_work()
{
  return frees_that_wait;
}

std::size_t ballast_test::live_pinned_arrays()
{
  return pinned_arrays;
}

std::size_t ballast_test::live_device_arrays()
{
  return device_arrays;
}

std::size_t ballast_test::live_events()
{
  return events;
}

std::size_t ballast_test::copies_queued()
{
  return copies;
}
