// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace ballast::inline v0::detail {

/// A thread that calls one function whenever it is told to, while its owner does something else.
///
/// Expects     start() and wait() are called in turn, by one thread at a time.
/// Ensures     (1) what the owner wrote before start() the function sees, and what it wrote the
///                 owner sees after wait()
///             (2) what the function throws is thrown() after wait()
///             (3) each start() makes one call: the destructor ends the thread after the last one,
///                 also where that had not begun, since threads of other ranks may wait for it
///             (4) start() and wait() allocate nothing
template <std::invocable Work>
class work_thread {
 public:
  explicit work_thread(Work work) : work_(std::move(work)), thread_([this] { run(); }) {}
  work_thread(work_thread const&) = delete;
  work_thread& operator=(work_thread const&) = delete;
  ~work_thread()
  {
    {
      std::lock_guard const lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Has the thread call the function; returns at once.
  void start()
  {
    {
      std::lock_guard const lock(mutex_);
      BALLAST_EXPECTS(state_ == state::idle,
                      "a call was started before the last one was waited for");
      state_ = state::asked;
    }
    changed_.notify_all();
  }

  /// Returns when the call is over: true if it was not over yet.
  bool wait()
  {
    std::unique_lock lock(mutex_);
    BALLAST_EXPECTS(state_ != state::idle, "no call was started");
    bool const waits = state_ != state::done;
    if (waits) {
      changed_.wait(lock, [this] { return state_ == state::done; });
    }
    state_ = state::idle;
    return waits;
  }

  /// Whether wait() would return at once.
  [[nodiscard]] bool ready() const
  {
    std::lock_guard const lock(mutex_);
    return state_ != state::asked;
  }

  /// What the last call threw, once; null if it returned.
  [[nodiscard]] std::exception_ptr thrown() { return std::exchange(thrown_, nullptr); }

 private:
  enum class state : std::uint8_t { idle, asked, done };

  void run()
  {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || state_ == state::asked; });
      if (state_ != state::asked) { return; }
      lock.unlock();
      thrown_ = thrown_by(work_);
      lock.lock();
      state_ = state::done;
      changed_.notify_all();
    }
  }

  Work work_;
  std::exception_ptr thrown_;  // the thread's while it is asked

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  state state_ = state::idle;
  bool ending_ = false;
  std::thread thread_;  // last: it begins when all else is there
};

}  // namespace ballast::inline v0::detail
