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

/// Two plans: the present one, which the caller has, and the next one, which a thread makes
/// meanwhile.
///
/// Make        result<void>(Plan&); from start() until take() has returned it runs on the thread.
/// Expects     start() and take() are called in turn, by one thread at a time.
/// Ensures     (1) the thread begins with the first start(), and the destructor ends it after the
///                 last plan that was asked for, taken or not
///             (2) a plan that is refused leaves the present one as it is
template <std::default_initializable Plan, class Make>
class ahead {
 public:
  explicit ahead(Make make) : make_(std::move(make)) {}
  ahead(ahead const&) = delete;
  ahead& operator=(ahead const&) = delete;

  [[nodiscard]] Plan& present() noexcept { return plans_[present_]; }
  [[nodiscard]] Plan const& present() const noexcept { return plans_[present_]; }
  /// Whether a plan was asked for and not taken.
  [[nodiscard]] bool is_started() const noexcept { return is_started_; }
  /// Plans for which take() had to wait.
  [[nodiscard]] std::uint64_t waited() const noexcept { return waited_; }
  /// Whether take() returns at once.
  [[nodiscard]] bool ready() const { return !thread_ || thread_->ready(); }

  void start()
  {
    if (!thread_) { thread_.emplace(make_next{this}); }
    is_started_ = true;
    thread_->start();
  }

  /// Waits for the next plan, which then is the present one. Throws what making it threw.
  ///
  /// Errors      those of Make.
  [[nodiscard]] result<void> take()
  {
    is_started_ = false;
    waited_ += thread_->wait() ? 1U : 0U;
    if (auto const thrown = thread_->thrown()) { std::rethrow_exception(thrown); }
    if (made_) { present_ = 1 - present_; }
    return std::exchange(made_, {});
  }

 private:
  struct make_next {
    ahead* self;
    void operator()() const { self->made_ = self->make_(self->plans_[1 - self->present_]); }
  };

  Make make_;
  std::array<Plan, 2> plans_;  // with {} g++ 12 ends the first twice where the second throws
  std::size_t present_ = 0;
  bool is_started_ = false;
  std::uint64_t waited_ = 0;
  result<void> made_;
  std::optional<work_thread<make_next>> thread_;  // last: it ends before all else
};

}  // namespace ballast::inline v0::detail
