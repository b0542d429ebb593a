// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// What a caught exception says, in one line.
[[nodiscard]] BALLAST_ONCE std::string thrown_text(std::exception_ptr const& thrown);

/// Throws it again where memory was lacking: that is an exception everywhere, and no error.
BALLAST_ONCE void rethrow_if_out_of_memory(std::exception_ptr const& thrown);

/// A text that ranks tell each other, cut between letters where it is long.
struct told_text {
  std::array<char, 256> bytes{};  // with a zero behind the last

  told_text() = default;
  BALLAST_ONCE explicit told_text(std::string_view text);
};

/// A thread that makes one call each time that it is asked: the part of `ahead` that knows no plan.
class asked_thread {
 public:
  explicit asked_thread(std::function<void()> call) : call_(std::move(call)) {}
  asked_thread& operator=(asked_thread&&) = delete;
  BALLAST_ONCE ~asked_thread();

  /// Whether the call that was asked for last has returned.
  [[nodiscard]] BALLAST_ONCE bool ready() const;
  BALLAST_ONCE void ask();
  /// Returns when ready, and counts where it had to wait. Throws what the call threw.
  BALLAST_ONCE void wait(std::uint64_t& waited);

 private:
  struct state;

  std::function<void()> call_;
  state* state_ = nullptr;  // from the first ask()
};

/// Two plans: the present one, which the caller has, and the next one, which a thread makes
/// meanwhile.
///
/// Expects     make(plan) is called on the thread, from start() until take() has returned; start() and
///             take() are called in turn, by one thread at a time.
/// Ensures     (1) the thread begins with the first start(), sees what was written before it, and
///                 what it wrote is seen after take()
///             (2) each start() makes one call: the destructor ends the thread after the last one,
///                 also where that had not begun, since threads of other ranks may wait for it
///             (3) a plan that is refused leaves the present one as it is
///             (4) nothing is allocated but for the thread
template <std::default_initializable Plan>
class ahead {
 public:
  explicit ahead(std::function<result<void>(Plan&)> make)
      : make_(std::move(make)), thread_([this] { made_ = make_(plans_[1 - present_]); })
  {}

  [[nodiscard]] Plan& present() noexcept { return plans_[present_]; }
  [[nodiscard]] Plan const& present() const noexcept { return plans_[present_]; }
  /// Whether a plan was asked for and not taken.
  [[nodiscard]] bool is_started() const noexcept { return is_started_; }
  /// Plans for which take() had to wait.
  [[nodiscard]] std::uint64_t waited() const noexcept { return waited_; }
  /// Whether take() returns at once.
  [[nodiscard]] bool ready() const { return thread_.ready(); }

  void start()
  {
    BALLAST_EXPECTS(!is_started_, "a plan was asked for before the last one was taken");
    thread_.ask();
    is_started_ = true;
  }

  /// Waits for the next plan, which then is the present one. Throws what making it threw.
  ///
  /// Errors      those of make().
  [[nodiscard]] result<void> take()
  {
    BALLAST_EXPECTS(is_started_, "no plan was asked for");
    is_started_ = false;
    thread_.wait(waited_);
    if (made_) { present_ = 1 - present_; }
    return std::exchange(made_, {});
  }

 private:
  std::function<result<void>(Plan&)> make_;
  std::array<Plan, 2> plans_;  // with {} g++ 12 ends the first twice where the second throws
  std::size_t present_ = 0;
  bool is_started_ = false;
  std::uint64_t waited_ = 0;
  result<void> made_;    // the thread's while it is asked
  asked_thread thread_;  // last: it ends before all else
};

}  // namespace ballast::inline v0::detail

#ifndef BALLAST_COMPILED

#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

namespace ballast::inline v0::detail {

[[nodiscard]] BALLAST_ONCE std::string thrown_text(std::exception_ptr const& thrown)
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

BALLAST_ONCE void rethrow_if_out_of_memory(std::exception_ptr const& thrown)
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

BALLAST_ONCE told_text::told_text(std::string_view text)
{
  constexpr std::string_view cut = "...";
  std::size_t const most = bytes.size() - 1;
  bool const is_cut = text.size() > most;
  std::size_t const shown = is_cut ? whole_characters(text, most - cut.size()) : text.size();
  std::copy_n(text.begin(), shown, bytes.begin());
  if (is_cut) { std::copy(cut.begin(), cut.end(), bytes.data() + shown); }
}

/// What a thread and who asks it share.
struct asked_thread::state {
  std::exception_ptr thrown;  // the thread's while it is asked
  std::mutex mutex;
  std::condition_variable changed;
  bool is_asked = false;
  bool ending = false;
  std::thread thread;

  void tell(bool& what)
  {
    {
      std::lock_guard const lock(mutex);
      what = true;
    }
    changed.notify_all();
  }

  void run(std::function<void()> const& call)
  {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || is_asked; });
      if (!is_asked) { return; }
      lock.unlock();
      thrown = thrown_by(call);
      lock.lock();
      is_asked = false;
      changed.notify_all();
    }
  }
};

BALLAST_ONCE asked_thread::~asked_thread()
{
  if (state_ == nullptr) { return; }
  if (state_->thread.joinable()) {
    state_->tell(state_->ending);
    state_->thread.join();
  }
  delete state_;
}

BALLAST_ONCE bool asked_thread::ready() const
{
  if (state_ == nullptr) { return true; }
  std::lock_guard const lock(state_->mutex);
  return !state_->is_asked;
}

BALLAST_ONCE void asked_thread::ask()
{
  if (state_ == nullptr) { state_ = new state; }
  if (!state_->thread.joinable()) {
    state_->thread = std::thread([this] { state_->run(call_); });
  }
  state_->tell(state_->is_asked);
}

BALLAST_ONCE void asked_thread::wait(std::uint64_t& waited)
{
  {
    std::unique_lock lock(state_->mutex);
    waited += state_->is_asked ? 1U : 0U;
    state_->changed.wait(lock, [this] { return !state_->is_asked; });
  }
  if (auto const thrown = std::exchange(state_->thrown, nullptr)) {
    std::rethrow_exception(thrown);
  }
}

}  // namespace ballast::inline v0::detail

#endif
