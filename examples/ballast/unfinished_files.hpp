// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

namespace cli {

class staged_files;

/// The temporary files of a write that is under way, for a program that may be stopped in the
/// middle of it.
///
/// Keep one in static storage, give it to `write_files`, and call `remove` in the handlers of
/// SIGINT, SIGTERM and whatever else ends the program. Libraries install no handlers by themselves.
///
/// Expects     one write at a time; the handler ends the program.
/// Ensures     (1) remove() may be called in a signal handler at any time; it leaves errno as it
///                 was
///             (2) it removes the temporary files that are there, and nothing else
class unfinished_files {
 public:
  constexpr unfinished_files() noexcept = default;
  unfinished_files(unfinished_files const&) = delete;
  unfinished_files& operator=(unfinished_files const&) = delete;

  void remove() const noexcept
  {
    int const before = errno;
    for (name const* each = newest_.load(); each != nullptr; each = each->older) {
      (void)unlink(each->path.c_str());
    }
    errno = before;
  }

 private:
  friend class staged_files;

  struct name {
    std::string path;
    name const* older = nullptr;
  };

  /// Names a file that is about to be created. `added` stays where it is until it is forgotten.
  void add(name& added) noexcept
  {
    added.older = newest_.load();
    newest_.store(&added);
  }
  void forget_newest() noexcept { newest_.store(newest_.load()->older); }

  std::atomic<name const*> newest_ = nullptr;
  static_assert(decltype(newest_)::is_always_lock_free, "a signal handler must not wait");
};

}  // namespace cli
