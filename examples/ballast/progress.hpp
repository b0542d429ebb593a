// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cleanup.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace cli {

/// One line on standard error that says what is going on, once that has taken two seconds, and is
/// gone when the work is done or interrupted. Where standard error is no terminal, as on a log, a
/// line every ten seconds, with the seconds so far, which stays.
class progress {
 public:
  using clock = std::chrono::steady_clock;

  progress() = default;
  /// Expects that standard error is no terminal: time between the lines that stay.
  explicit progress(clock::duration between_lines) : between_lines_(between_lines) {}
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() { at_end.erase_line(); }

  /// Whether anybody looks at it.
  [[nodiscard]] bool is_seen() const noexcept { return terminal_; }

  /// `what` returns the text; it is called only when the line is due.
  template <class Text>
  void update(Text const& what)
  {
    auto const now = clock::now();
    if (now < next_) { return; }
    std::string line;
    if (terminal_) {
      at_end.line_shown = true;
      next_ = now + std::chrono::milliseconds(100);
      line = "\r\033[K" + what();
    } else {
      next_ = now + between_lines_;
      auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begun_).count();
      line = "ballast: " + what() + ", " + std::to_string(seconds) + " s so far\n";
    }
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  clock::duration between_lines_ = std::chrono::seconds(10);
  clock::time_point begun_ = clock::now();
  clock::time_point next_ = begun_ + (terminal_ ? std::chrono::seconds(2) : between_lines_);
};

}  // namespace cli
