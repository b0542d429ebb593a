// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <chrono>
#include <functional>

/// A world whose threads run one at a time, in an order that a seed says.
namespace seeded_world {

/// Where a run's choices come from: a seed, or a path through the tree of all choices.
class choices {
 public:
  explicit choices(std::uint64_t seed) : random_(seed) {}
  /// Takes the path, and the first of all choices behind its end; the path grows by what was taken.
  explicit choices(std::vector<std::pair<std::uint32_t, std::uint32_t>>& path)
      : random_(0), path_(&path)
  {}

  [[nodiscard]] std::uint32_t below(std::uint32_t many)
  {
    if (many <= 1) { return 0; }
    std::uint32_t taken = 0;
    if (path_ == nullptr) {
      taken = static_cast<std::uint32_t>(random_.below(many));
    } else {
      if (at_ == path_->size()) { path_->emplace_back(0, many); }
      taken = (*path_)[at_++].first;
    }
    return taken;
  }
  [[nodiscard]] bool follows_path() const { return path_ != nullptr; }

 private:
  ballast::random_source random_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>>* path_ = nullptr;
  std::size_t at_ = 0;
};

/// The path of the next leaf of the tree, depth first; false after the last one.
[[nodiscard]] inline bool next_path(std::vector<std::pair<std::uint32_t, std::uint32_t>>& path)
{
  while (!path.empty() && path.back().first + 1 == path.back().second) { path.pop_back(); }
  if (path.empty()) { return false; }
  ++path.back().first;
  return true;
}

/// How the baton goes round.
struct manner {
  /// Where a thread could lose the baton it does in one of so many places; 0: only when it waits.
  std::uint32_t one_in = 4;
  /// Threads have priorities, which change at a few places, and the highest one runs.
  bool by_priority = false;
  /// One of so many waits ends without a reason, as the standard allows; 0: none.
  std::uint32_t idle_wakes = 0;
  /// On a path: how often at most a thread loses the baton that could go on.
  std::uint32_t most_preemptions = 0;
  /// In the first thread that this body begins, the n-th allocation fails; 0: none.
  std::size_t lacking_body = 0;
  std::size_t lacking_allocation = 0;
};

enum class ending { all_ended, stuck, endless };

/// What became of a run.
struct report {
  ending how = ending::all_ended;
  std::string where;        // what each thread waited for, unless all ended
  std::uint64_t trace = 0;  // a word of all that happened, in order
  std::uint64_t switches = 0;
  std::chrono::nanoseconds lasted{};
  bool thread_lacked_memory = false;
  std::vector<std::size_t> allocations;             // of each body, on its own thread
  std::vector<std::size_t> allocations_of_threads;  // and on those that it has begun
};

/// Calls all bodies, each on a thread of the world, and returns when these and the threads that they
/// have begun have ended; or when none will ever act again, with the threads abandoned as they are.
///
/// In the world pthread's mutexes, conditions and threads, and with them those of std, sleeps and
/// clocks are the world's: time stands still while a thread runs, but for some nanoseconds, and goes
/// on to the next timer when all wait.
[[nodiscard]] report run(choices& from, manner how,
                         std::vector<std::function<void()>> const& bodies);

/// A word that belongs to what happens in the run: it is part of the trace.
void note(std::uint64_t word);

/// A choice of the run in the world, for what is drawn while it runs; 0 outside.
[[nodiscard]] std::uint32_t drawn_below(std::uint32_t many);

}  // namespace seeded_world
