// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unfinished_files.hpp"

#include <atomic>

namespace cli {

/// What must not stay behind where a signal ends the program.
struct cleanup {
  unfinished_files files;
  std::atomic<bool> line_shown = false;  ///< of progress, on standard error

  /// May be called in a signal handler.
  void erase_line() noexcept;
};

/// In static storage, where signal handlers find it.
extern cleanup at_end;

/// From now on a signal that ends the program cleans up first. The program still ends by that
/// signal, as its parent expects; signals that were ignored at its start, as by nohup, still are.
void clean_up_when_stopped();

}  // namespace cli
