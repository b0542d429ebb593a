// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/ahead.hpp>

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
