// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
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

/// What a caught exception says, in one line.
[[nodiscard]] inline std::string thrown_text(std::exception_ptr const& thrown)
{
#ifdef __cpp_exceptions
  try {
    std::rethrow_exception(thrown);
  } catch (std::exception const& problem) {
    return in_one_line(problem.what());
  } catch (...) {
    return "something that is no std::exception";
  }
#else
  static_cast<void>(thrown);
  return {};  // nothing throws
#endif
}

/// Throws it again where memory was lacking: that is an exception everywhere, and no error.
inline void rethrow_if_out_of_memory(std::exception_ptr const& thrown)
{
#ifdef __cpp_exceptions
  try {
    std::rethrow_exception(thrown);
  } catch (std::bad_alloc const&) {
    throw;
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
#else
  static_cast<void>(thrown);
#endif
}

/// A text that ranks tell each other, cut between letters where it is long.
struct told_text {
  std::array<char, 256> bytes{};  // with a zero behind the last

  told_text() = default;
  explicit told_text(std::string_view text)
  {
    constexpr std::string_view cut = "...";
    std::size_t const most = bytes.size() - 1;
    bool const is_cut = text.size() > most;
    std::size_t const shown = is_cut ? whole_characters(text, most - cut.size()) : text.size();
    std::copy_n(text.begin(), shown, bytes.begin());
    if (is_cut) { std::copy(cut.begin(), cut.end(), bytes.data() + shown); }
  }
};

}  // namespace ballast::inline v0::detail
