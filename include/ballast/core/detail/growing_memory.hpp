// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_GROWING_MEMORY_HPP
#define BALLAST_CORE_DETAIL_GROWING_MEMORY_HPP

#include <ballast/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <list>

namespace ballast::inline v0::detail {

/// Memory that grows, and gives nothing back before its end: to free memory of a GPU, CUDA may wait
/// for the device, and so for a peer whose kernel waits for this thread.
///
/// Block       has a size().
/// Ensures     (1) a block stays where it is, and valid, until the end
///             (2) each block has at least twice the size of the one before, so that all together
///                 have less than twice that of the last, and few are made
/// Errors      those of make; the blocks are then what they were.
template <class Block>
class growing_memory {
 public:
  [[nodiscard]] bool has(std::size_t count) const
  {
    return !blocks_.empty() && blocks_.back().size() >= count;
  }

  /// The last block if it has so many elements, or a new one of them or more, make(elements).
  template <class Make>
  [[nodiscard]] Block& at_least(std::size_t count, Make const& make)
  {
    if (!has(count)) {
      std::size_t const before = blocks_.empty() ? 0 : blocks_.back().size();
      blocks_.push_back(make(std::max(count, 2 * before)));
    }
    return blocks_.back();
  }

 private:
  std::list<Block> blocks_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_GROWING_MEMORY_HPP
