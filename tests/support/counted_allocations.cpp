// SPDX-License-Identifier: Apache-2.0
#include "counted_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> count = 0;

}  // namespace

std::size_t ballast_test::allocations() noexcept
{
  return count;
}

#if defined(__SANITIZE_THREAD__)
#define BALLAST_TEST_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BALLAST_TEST_THREAD_SANITIZER
#endif
#endif

#ifdef BALLAST_TEST_THREAD_SANITIZER  // its run-time library has an operator new that must stay

#include <sanitizer/allocator_interface.h>

namespace {

void allocated(void const volatile*, std::size_t)
{
  ++count;
}
void freed(void const volatile*) {}

[[maybe_unused]] int const installed = __sanitizer_install_malloc_and_free_hooks(allocated, freed);

}  // namespace

#else

namespace {

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

#endif
