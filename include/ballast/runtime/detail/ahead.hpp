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
#include <ballast/runtime/detail/asked_thread.hpp>
#endif
