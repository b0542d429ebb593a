// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_PROGRESS_HPP
#define BALLAST_EXAMPLES_PROGRESS_HPP

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

namespace cli {

/// One line on standard error that says what is going on, once that has taken two seconds; nothing
/// where standard error is no terminal. It is gone when the work is done or interrupted.
class progress {
 public:
  progress() = default;
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress()
  {
    if (visible_) { clear(); }
  }

  /// `what` returns the text; it is called only when the line is due.
  template <class Text>
  void update(Text const& what)
  {
    auto const now = clock::now();
    if (!terminal_ || now < next_) { return; }
    if (!visible_) { std::signal(SIGINT, clear_and_stop); }
    visible_ = true;
    next_ = now + std::chrono::milliseconds(100);
    std::string const line = "\r\033[K" + what();
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;

  static void clear() noexcept
  {
    constexpr char erase[] = "\r\033[K";
    // write() may be called from a signal handler; a failure has no consequence.
    [[maybe_unused]] auto const written = write(STDERR_FILENO, erase, sizeof(erase) - 1);
  }
  static void clear_and_stop(int signal)
  {
    clear();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }

  bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool visible_ = false;
  clock::time_point next_ = clock::now() + std::chrono::seconds(2);
};

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PROGRESS_HPP
