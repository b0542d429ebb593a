// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/contract.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace ballast::inline v0 {

namespace detail {

/// What `cancellable` puts around the planners of its thread.
class cancel_scope {
 public:
  cancel_scope& operator=(cancel_scope&&) = delete;

  /// Whether the planners of this thread are to stop.
  [[nodiscard]] static bool is_cancelled() noexcept
  {
    return innermost != nullptr && innermost->asks();
  }

 protected:
  explicit cancel_scope(bool (*poll)(cancel_scope&)) noexcept
      : poll_(poll), outer_(std::exchange(innermost, this))
  {}
  ~cancel_scope() { innermost = outer_; }

 private:
  [[nodiscard]] bool asks() noexcept
  {
    is_stopped_ = is_stopped_ || poll_(*this) || (outer_ != nullptr && outer_->asks());
    return is_stopped_;
  }

  static inline constinit thread_local cancel_scope* innermost = nullptr;

  bool (*poll_)(cancel_scope&);
  cancel_scope* outer_;
  bool is_stopped_ = false;
};

}  // namespace detail

/// While it lives, planners of this thread ask `poll` whether to stop. One that is told to returns
/// error_code::cancelled soon after, and never a plan.
///
///     std::atomic<bool> stop = false;  // set by another thread, or by a signal handler
///     cancellable const until([&stop] { return stop.load(); });
///     auto const layouts = search_layouts(problem, batches, options);
///
/// Expects     poll() returns quickly, since searches call it often, and throws nothing.
/// Ensures     (1) once poll() was true, every planner of this thread returns `cancelled` until this
///                 object goes, and poll() is not called again
///             (2) scopes nest: an outer one stops planners in an inner one
///             (3) planners that are not stopped return what they return without it
template <std::predicate<> Poll>
class cancellable : private detail::cancel_scope {
 public:
  explicit cancellable(Poll poll) noexcept(std::is_nothrow_move_constructible_v<Poll>)
      : cancel_scope([](cancel_scope& self) {
          return static_cast<bool>(static_cast<cancellable&>(self).ask_());
        }),
        ask_(std::move(poll))
  {}

 private:
  Poll ask_;
};

}  // namespace ballast::inline v0
