// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_LIST_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_LIST_HPP

#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// How many samples of one kind a pattern has. Samples of one kind cost the same.
struct pattern_entry {
  std::uint32_t kind;
  std::uint32_t times;
};

/// What one bag may hold, as numbers of samples of each kind: a growing list of such patterns.
///
/// Complexity  8 bytes of scratch per entry and 4 per pattern.
class pattern_list {
 public:
  pattern_list(std::size_t patterns, std::size_t entries, workspace::frame& scratch)
      : ends_(scratch.take<std::uint32_t>(patterns + 1)),
        entries_(scratch.take<pattern_entry>(entries))
  {
    ends_[0] = 0;
  }

  void clear() noexcept { count_ = 0; }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  /// The entries of all patterns.
  [[nodiscard]] std::size_t entries() const noexcept { return ends_[count_]; }

  [[nodiscard]] std::span<pattern_entry const> operator[](std::size_t pattern) const noexcept
  {
    return entries_.subspan(ends_[pattern], ends_[pattern + 1] - ends_[pattern]);
  }

  /// Returns false where there is no room for it.
  [[nodiscard]] bool add(std::span<pattern_entry const> pattern) noexcept
  {
    if (count_ + 1 == ends_.size() || entries() + pattern.size() > entries_.size()) {
      return false;
    }
    std::copy(pattern.begin(), pattern.end(),
              entries_.begin() + static_cast<std::ptrdiff_t>(entries()));
    ends_[count_ + 1] = ends_[count_] + static_cast<std::uint32_t>(pattern.size());
    ++count_;
    return true;
  }

 private:
  std::span<std::uint32_t> ends_;  // [k]: the entries of the first k patterns
  std::span<pattern_entry> entries_;
  std::size_t count_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_LIST_HPP
