// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_PROGRESS_HPP
#define BALLAST_EXAMPLES_PROGRESS_HPP

#include "cleanup.hpp"

#include <unistd.h>

#include <chrono>
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
  ~progress() { at_end.erase_line(); }

  /// Whether anybody can see it.
  [[nodiscard]] bool is_seen() const noexcept { return terminal_; }

  /// `what` returns the text; it is called only when the line is due.
  template <class Text>
  void update(Text const& what)
  {
    auto const now = clock::now();
    if (!terminal_ || now < next_) { return; }
    at_end.line_shown = true;
    next_ = now + std::chrono::milliseconds(100);
    std::string const line = "\r\033[K" + what();
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;

  bool terminal_ = isatty(STDERR_FILENO) == 1;
  clock::time_point next_ = clock::now() + std::chrono::seconds(2);
};

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PROGRESS_HPP
