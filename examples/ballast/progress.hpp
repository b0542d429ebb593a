// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_PROGRESS_HPP
#define BALLAST_EXAMPLES_PROGRESS_HPP

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string_view>

namespace cli {

/// One line on standard error that says what is going on, once that has taken two seconds; nothing
/// where standard error is no terminal.
class progress {
 public:
  progress() = default;
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress()
  {
    if (visible_) { std::fputs("\r\033[K", stderr); }
  }

  void update(std::string_view what)
  {
    auto const now = clock::now();
    if (!terminal_ || now < next_) { return; }
    next_ = now + std::chrono::milliseconds(100);
    visible_ = true;
    std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(what.size()), what.data());
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;

  bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool visible_ = false;
  clock::time_point next_ = clock::now() + std::chrono::seconds(2);
};

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PROGRESS_HPP
