// SPDX-License-Identifier: Apache-2.0
#include "seeded_world.hpp"

#include "../support/counted_allocations.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

// Threads are contexts of one thread of the system: handing the baton over is no call of the kernel's
// scheduler, so that a run takes a fraction of a millisecond, and there is nothing that could run at
// the same time.

namespace {

using namespace seeded_world;

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t stack_bytes = std::size_t{512} << 10U;
constexpr std::uint64_t most_places = 4'000'000;
constexpr std::int64_t longest_run = 600'000'000'000;  // ns
constexpr std::int64_t epoch = 1'000'000'000'000'000;  // ns; when a run begins

struct stack {
  stack()
  {
    constexpr std::size_t guard = 4096;
    void* const memory = ::mmap(nullptr, stack_bytes + guard, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || ::mprotect(memory, guard, PROT_NONE) != 0) { std::abort(); }
    bottom = static_cast<char*>(memory) + guard;
  }
  char* bottom = nullptr;  // never given back: the next run uses it
};

struct thread {
  enum class state { ready, waits, ended };

  ucontext_t context{};
  char* bottom = nullptr;
  std::size_t bytes = stack_bytes;
  std::function<void()> const* body = nullptr;
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;

  state now = state::ready;
  void const* waits_for = nullptr;
  char const* in = "";
  std::int64_t until = never;
  bool timed_out = false;
  std::uint32_t priority = 0;
  std::size_t of_body = 0;
  std::array<std::byte, 16> exceptions{};  // __cxa_eh_globals: what is caught, and how many fly
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
#endif
};

struct world {
  choices* from = nullptr;
  manner how;
  std::vector<std::unique_ptr<thread>> threads;
  thread* runs = nullptr;
  thread outside;
  std::int64_t now = epoch;
  std::uint64_t places = 0;
  std::uint64_t switches = 0;
  std::uint64_t next_change = 0;  // of a priority
  std::uint32_t preemptions = 0;
  bool has_woken = false;
  std::uint64_t trace = 0;
  std::optional<ending> ended;
  std::size_t mark = 0;                  // allocations when the one that runs began to
  std::vector<std::size_t> allocations;  // by body
  std::vector<std::size_t> allocations_of_threads;
  bool has_lacked = false;  // a thread for which memory is to be short has begun
  bool lacked = false;      // and it was
};

world* here = nullptr;  // while a run goes on and one of its threads runs

std::vector<char*>& free_stacks()
{
  static std::vector<char*> all;
  return all;
}

void mix(std::uint64_t word)
{
  here->trace = (here->trace ^ word) * 0x9e37'79b9'7f4a'7c15U;
  here->trace ^= here->trace >> 29U;
}

// The world's own memory is not the library's.
using spared = ballast_test::spared_allocations;

void pass_to(thread& next)
{
  world& all = *here;
  thread& self = *all.runs;
  if (&next == &self) { return; }
  ++all.switches;
  std::size_t const count = ballast_test::allocations_of_thread();
  if (&self != &all.outside) {
    auto& counts = self.body != nullptr ? all.allocations : all.allocations_of_threads;
    counts[self.of_body] += count - all.mark;
  }
  all.mark = count;
  spared const own;  // whose allocation is to fail is kept on its stack
  int const own_errno = errno;
  std::memcpy(self.exceptions.data(), abi::__cxa_get_globals(), self.exceptions.size());
  all.runs = &next;
#ifdef __SANITIZE_ADDRESS__
  bool const ends = self.now == thread::state::ended;
  __sanitizer_start_switch_fiber(ends ? nullptr : &self.fake_stack, next.bottom, next.bytes);
#endif
  ::swapcontext(&self.context, &next.context);
#ifdef __SANITIZE_ADDRESS__
  void const* from = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.fake_stack, &from, &bytes);
#endif
  std::memcpy(abi::__cxa_get_globals(), self.exceptions.data(), self.exceptions.size());
  errno = own_errno;
}

void leave(ending how)
{
  here->ended = how;
  pass_to(here->outside);
}

/// Who runs next: the one that runs, if it can go on, or another one.
void pass()
{
  world& all = *here;
  all.has_woken = false;
  for (;;) {
    std::array<thread*, 64> ready{};
    std::uint32_t many = 0;
    std::int64_t soonest = never;
    bool all_ended = true;
    bool self_is_ready = false;
    for (auto const& each : all.threads) {
      if (each->now == thread::state::ended) { continue; }
      all_ended = false;
      bool const is_due = each->now == thread::state::waits && each->until <= all.now;
      if (each->now == thread::state::ready || is_due) {
        self_is_ready = self_is_ready || each.get() == all.runs;
        ready[many++] = each.get();
      } else {
        soonest = std::min(soonest, each->until);
      }
    }
    if (all_ended) { return leave(ending::all_ended); }
    if (many == 0) {
      if (soonest == never) { return leave(ending::stuck); }
      all.now = soonest;
      if (all.now - epoch > longest_run) { return leave(ending::endless); }
      continue;
    }
    thread* next = ready[0];
    if (all.how.by_priority) {
      for (std::uint32_t at = 1; at < many; ++at) {
        if (ready[at]->priority > next->priority) { next = ready[at]; }
      }
    } else if (all.from->follows_path() && self_is_ready) {
      // The one that runs is the first choice; another one costs a preemption.
      std::swap(*std::find(ready.begin(), ready.begin() + many, all.runs), ready[0]);
      next = ready[all.from->below(all.preemptions < all.how.most_preemptions ? many : 1)];
      if (next != all.runs) { ++all.preemptions; }
    } else {
      next = ready[all.from->below(many)];
    }
    if (next->now == thread::state::waits) {  // by its timer
      next->now = thread::state::ready;
      next->timed_out = true;
    }
    next->until = never;
    next->waits_for = nullptr;
    all.now += all.from->follows_path() ? 1 : 1 + all.from->below(1000);
    for (std::size_t at = 0; at < all.threads.size(); ++at) {
      if (all.threads[at].get() == next) { mix(at); }
    }
    return pass_to(*next);
  }
}

/// A place where the one that runs may lose the baton.
void place()
{
  world& all = *here;
  if (++all.places > most_places) { return leave(ending::endless); }
  if (all.from->follows_path()) { return pass(); }
  if (all.how.by_priority) {
    if (all.places >= all.next_change) {
      all.next_change = all.places + 1 + all.from->below(200);
      all.runs->priority = all.from->below(1000);
      return pass();
    }
    if (all.has_woken) { pass(); }
    return;
  }
  if (all.how.one_in > 0 && all.from->below(all.how.one_in) == 0) { pass(); }
}

/// Waits until woken, or until that time; returns false then.
bool wait(void const* what, char const* in, std::int64_t until)
{
  world& all = *here;
  thread& self = *all.runs;
  if (++all.places > most_places) { leave(ending::endless); }
  self.now = thread::state::waits;
  self.waits_for = what;
  self.in = in;
  self.until = until;
  self.timed_out = false;
  pass();
  return !self.timed_out;
}

void wake(void const* what, bool one)
{
  world& all = *here;
  std::array<thread*, 64> found{};
  std::uint32_t many = 0;
  for (auto const& each : all.threads) {
    if (each->now == thread::state::waits && each->waits_for == what) {
      found[many++] = each.get();
    }
  }
  if (many == 0) { return; }
  all.has_woken = true;
  if (one) {
    found[0] = found[all.from->below(many)];
    many = 1;
  }
  for (std::uint32_t at = 0; at < many; ++at) { found[at]->now = thread::state::ready; }
}

void enter()
{
#ifdef __SANITIZE_ADDRESS__
  void const* from = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &from, &bytes);
  if (here->outside.bottom == nullptr) {  // the first thread comes from there
    here->outside.bottom = static_cast<char*>(const_cast<void*>(from));
    here->outside.bytes = bytes;
  }
#endif
  thread& self = *here->runs;
  std::memset(abi::__cxa_get_globals(), 0, self.exceptions.size());
  if (self.body != nullptr) {
    (*self.body)();
  } else if (here->how.lacking_allocation > 0 && here->how.lacking_body == self.of_body &&
             !std::exchange(here->has_lacked, true)) {
    ballast_test::failing_allocation const failing(here->how.lacking_allocation);
    (void)self.start(self.argument);
    here->lacked = failing.has_failed();
  } else {
    (void)self.start(self.argument);
  }
  self.now = thread::state::ended;
  wake(&self, false);
  pass();
  std::abort();
}

thread& begin(std::size_t of_body)
{
  spared const own;
  world& all = *here;
  thread& added = *all.threads.emplace_back(std::make_unique<thread>());
  if (free_stacks().empty()) { free_stacks().push_back(stack().bottom); }
  added.bottom = free_stacks().back();
  free_stacks().pop_back();
  added.of_body = of_body;
  added.priority = all.from->follows_path() ? 0 : all.from->below(1000);
  ::getcontext(&added.context);
  added.context.uc_stack.ss_sp = added.bottom;
  added.context.uc_stack.ss_size = stack_bytes;
  added.context.uc_link = nullptr;
  ::makecontext(&added.context, enter, 0);
  return added;
}

bool is_of_world(std::uint64_t id)
{
  for (auto const& each : here->threads) {
    if (reinterpret_cast<std::uint64_t>(each.get()) == id) { return true; }
  }
  return false;
}

/// The function of that name that the program would call without this file.
template <class F>
F real(char const* name)
{
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

std::int64_t time_of(timespec const& at)
{
  return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

bool in_world()
{
  return here != nullptr && here->runs != &here->outside;
}

int lock_in_world(pthread_mutex_t* mutex)
{
  while (::pthread_mutex_trylock(mutex) != 0) { (void)wait(mutex, "a mutex", never); }
  return 0;
}

int real_unlock(pthread_mutex_t* mutex)
{
  static auto const unlock = real<int (*)(pthread_mutex_t*)>("pthread_mutex_unlock");
  return unlock(mutex);
}

int wait_in_world(pthread_cond_t* condition, pthread_mutex_t* mutex, std::int64_t until)
{
  world& all = *here;
  real_unlock(mutex);
  wake(mutex, false);
  std::uint32_t const idle = all.from->follows_path() ? 0 : all.how.idle_wakes;
  bool const wakes = idle > 0 && all.from->below(idle) == 0;
  bool in_time = true;
  if (wakes) {
    pass();
  } else {
    in_time = wait(condition, "a condition", until);
  }
  lock_in_world(mutex);
  return in_time ? 0 : ETIMEDOUT;
}

}  // namespace

// ---- What a thread of the world calls --------------------------------------------------------------

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex)
{
  if (in_world()) {
    place();
    return lock_in_world(mutex);
  }
  static auto const lock = real<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  return lock(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex)
{
  int const done = real_unlock(mutex);
  if (in_world()) { wake(mutex, false); }
  return done;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex)
{
  if (in_world()) { return wait_in_world(condition, mutex, never); }
  static auto const wait = real<int (*)(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  return wait(condition, mutex);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, timespec const* until)
{
  if (in_world()) { return wait_in_world(condition, mutex, time_of(*until)); }
  static auto const wait =
      real<int (*)(pthread_cond_t*, pthread_mutex_t*, timespec const*)>("pthread_cond_timedwait");
  return wait(condition, mutex, until);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           timespec const* until)
{
  if (in_world()) { return wait_in_world(condition, mutex, time_of(*until)); }
  static auto const wait =
      real<int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, timespec const*)>(
          "pthread_cond_clockwait");
  return wait(condition, mutex, clock, until);
}

int pthread_cond_signal(pthread_cond_t* condition)
{
  if (in_world()) { return wake(condition, true), 0; }
  static auto const signal = real<int (*)(pthread_cond_t*)>("pthread_cond_signal");
  return signal(condition);
}

int pthread_cond_broadcast(pthread_cond_t* condition)
{
  if (in_world()) { return wake(condition, false), 0; }
  static auto const broadcast = real<int (*)(pthread_cond_t*)>("pthread_cond_broadcast");
  return broadcast(condition);
}

int pthread_create(pthread_t* id, pthread_attr_t const* attributes, void* (*start)(void*),
                   void* argument)
{
  if (in_world()) {
    thread& added = begin(here->runs->of_body);
    added.start = start;
    added.argument = argument;
    *id = reinterpret_cast<pthread_t>(&added);
    return 0;
  }
  static auto const create =
      real<int (*)(pthread_t*, pthread_attr_t const*, void* (*)(void*), void*)>("pthread_create");
  return create(id, attributes, start, argument);
}

int pthread_join(pthread_t id, void** returned)
{
  if (in_world() && is_of_world(id)) {
    auto* const other = reinterpret_cast<thread*>(id);
    while (other->now != thread::state::ended) { (void)wait(other, "a thread's end", never); }
    return 0;
  }
  static auto const join = real<int (*)(pthread_t, void**)>("pthread_join");
  return join(id, returned);
}

int nanosleep(timespec const* time, timespec* left)
{
  if (in_world()) {
    (void)wait(nullptr, "a sleep", here->now + time_of(*time));
    return 0;
  }
  static auto const sleep = real<int (*)(timespec const*, timespec*)>("nanosleep");
  return sleep(time, left);
}

int sched_yield()
{
  if (in_world()) { return pass(), 0; }
  static auto const yield = real<int (*)()>("sched_yield");
  return yield();
}

int clock_gettime(clockid_t clock, timespec* into)
{
  if (in_world()) {
    here->now += 20;
    into->tv_sec = here->now / 1'000'000'000;
    into->tv_nsec = here->now % 1'000'000'000;
    return 0;
  }
  static auto const read = real<int (*)(clockid_t, timespec*)>("clock_gettime");
  return read(clock, into);
}

}  // extern "C"

// ---- The world ---------------------------------------------------------------------------------

report seeded_world::run(choices& from, manner how,
                         std::vector<std::function<void()>> const& bodies)
{
  world all;
  all.from = &from;
  all.how = how;
  all.runs = &all.outside;
  all.allocations.assign(bodies.size(), 0);
  all.allocations_of_threads.assign(bodies.size(), 0);
  all.mark = ballast_test::allocations_of_thread();
  here = &all;
  for (std::size_t body = 0; body < bodies.size(); ++body) { begin(body).body = &bodies[body]; }
  pass();
  here = nullptr;

  report said;
  said.how = all.ended.value_or(ending::endless);
  said.trace = all.trace;
  said.switches = all.switches;
  said.thread_lacked_memory = all.lacked;
  said.allocations = all.allocations;
  said.allocations_of_threads = all.allocations_of_threads;
  said.lasted = std::chrono::nanoseconds(all.now - epoch);
  for (auto& each : all.threads) {
    if (each->now == thread::state::ended) {
      free_stacks().push_back(each->bottom);
    } else {
      said.where += ballast::detail::concat(
          said.where.empty() ? "" : ", ", "thread ",
          static_cast<std::size_t>(&each - all.threads.data()), " of body ", each->of_body,
          each->now == thread::state::ready ? " runs" : " waits for ",
          each->now == thread::state::ready ? "" : each->in);
    }
  }
  return said;
}

void seeded_world::note(std::uint64_t word)
{
  if (here != nullptr) { mix(word); }
}

std::uint32_t seeded_world::drawn_below(std::uint32_t many)
{
  return in_world() ? here->from->below(many) : 0;
}
