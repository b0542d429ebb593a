// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

namespace ballast::inline v0::detail {

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
  explicit ahead(std::function<result<void>(Plan&)> make) : make_(std::move(make)) {}
  ahead& operator=(ahead&&) = delete;
  ~ahead()
  {
    if (!thread_.joinable()) { return; }
    tell(ending_);
    thread_.join();
  }

  [[nodiscard]] Plan& present() noexcept { return plans_[present_]; }
  [[nodiscard]] Plan const& present() const noexcept { return plans_[present_]; }
  /// Whether a plan was asked for and not taken.
  [[nodiscard]] bool is_started() const noexcept { return is_started_; }
  /// Plans for which take() had to wait.
  [[nodiscard]] std::uint64_t waited() const noexcept { return waited_; }
  /// Whether take() returns at once.
  [[nodiscard]] bool ready() const
  {
    std::lock_guard const lock(mutex_);
    return !is_asked_;
  }

  void start()
  {
    BALLAST_EXPECTS(!is_started_, "a plan was asked for before the last one was taken");
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { run(); });
    }
    is_started_ = true;
    tell(is_asked_);
  }

  /// Waits for the next plan, which then is the present one. Throws what making it threw.
  ///
  /// Errors      those of make().
  [[nodiscard]] result<void> take()
  {
    BALLAST_EXPECTS(is_started_, "no plan was asked for");
    is_started_ = false;
    {
      std::unique_lock lock(mutex_);
      waited_ += is_asked_ ? 1U : 0U;
      changed_.wait(lock, [this] { return !is_asked_; });
    }
    if (auto const thrown = std::exchange(thrown_, nullptr)) { std::rethrow_exception(thrown); }
    if (made_) { present_ = 1 - present_; }
    return std::exchange(made_, {});
  }

 private:
  void tell(bool& what)
  {
    {
      std::lock_guard const lock(mutex_);
      what = true;
    }
    changed_.notify_all();
  }

  void run()
  {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || is_asked_; });
      if (!is_asked_) { return; }
      lock.unlock();
      thrown_ = thrown_by([this] { made_ = make_(plans_[1 - present_]); });
      lock.lock();
      is_asked_ = false;
      changed_.notify_all();
    }
  }

  std::function<result<void>(Plan&)> make_;
  std::array<Plan, 2> plans_;  // with {} g++ 12 ends the first twice where the second throws
  std::size_t present_ = 0;
  bool is_started_ = false;
  std::uint64_t waited_ = 0;
  // The thread's while it is asked:
  result<void> made_;
  std::exception_ptr thrown_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ballast::inline v0::detail
