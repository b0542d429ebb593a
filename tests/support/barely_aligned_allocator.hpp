// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace ballast_test {

/// As little alignment as an allocator may give.
template <class T>
struct barely_aligned_allocator : std::allocator<T> {
  barely_aligned_allocator() = default;
  template <class U>
  barely_aligned_allocator(barely_aligned_allocator<U> const&)
  {}
  template <class U>
  struct rebind {
    using other = barely_aligned_allocator<U>;
  };
  T* allocate(std::size_t count) { return std::allocator<T>::allocate(count + 1) + 1; }
  void deallocate(T* memory, std::size_t count)
  {
    std::allocator<T>::deallocate(memory - 1, count + 1);
  }
};

}  // namespace ballast_test
