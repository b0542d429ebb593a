// SPDX-License-Identifier: Apache-2.0
#include "counted_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> count = 0;

void* counted(std::size_t bytes) noexcept
{
  ++count;
  return std::malloc(bytes != 0 ? bytes : 1);
}

void* counted_or_throw(std::size_t bytes)
{
  if (void* const memory = counted(bytes)) { return memory; }
  throw std::bad_alloc();
}

}  // namespace

std::size_t ballast_test::allocations() noexcept
{
  return count;
}

// All forms but the over-aligned: a sanitizer's run-time library would supply what is left out.
void* operator new(std::size_t bytes)
{
  return counted_or_throw(bytes);
}
void* operator new[](std::size_t bytes)
{
  return counted_or_throw(bytes);
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept
{
  return counted(bytes);
}
void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept
{
  return counted(bytes);
}
void operator delete(void* memory) noexcept
{
  std::free(memory);
}
void operator delete[](void* memory) noexcept
{
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept
{
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept
{
  std::free(memory);
}
