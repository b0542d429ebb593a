// SPDX-License-Identifier: Apache-2.0
#include "counted_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace {

std::atomic<std::size_t> count = 0;
std::atomic<std::size_t> alive = 0;
thread_local std::size_t count_of_thread = 0;
thread_local std::size_t to_go = 0;  // the n-th from now on fails; 0 is none
thread_local bool failed = false;

}  // namespace

std::size_t ballast_test::allocations() noexcept
{
  return count;
}

std::size_t ballast_test::allocations_alive() noexcept
{
  return alive;
}

std::size_t ballast_test::allocations_of_thread() noexcept
{
  return count_of_thread;
}

ballast_test::failing_allocation::failing_allocation(std::size_t n) noexcept
{
  to_go = n;
  failed = false;
}

ballast_test::failing_allocation::~failing_allocation()
{
  to_go = 0;
}

bool ballast_test::failing_allocation::has_failed() const noexcept
{
  return failed;
}

ballast_test::spared_allocations::spared_allocations() noexcept : to_go_(std::exchange(to_go, 0)) {}

ballast_test::spared_allocations::~spared_allocations()
{
  to_go = to_go_;
}

bool ballast_test::allocation_fails() noexcept
{
  if (to_go == 0 || --to_go > 0) { return false; }
  failed = true;
  return true;
}

#if defined(__SANITIZE_THREAD__)
#define BALLAST_TEST_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BALLAST_TEST_THREAD_SANITIZER
#endif
#endif

bool ballast_test::allocations_can_fail() noexcept
{
#ifdef BALLAST_TEST_THREAD_SANITIZER
  return false;
#else
  return true;
#endif
}

#ifdef BALLAST_TEST_THREAD_SANITIZER  // its run-time library has an operator new that must stay

#include <sanitizer/allocator_interface.h>

namespace {

void allocated(void const volatile*, std::size_t)
{
  ++count;
  ++count_of_thread;
}
void freed(void const volatile*) {}

[[maybe_unused]] int const installed = __sanitizer_install_malloc_and_free_hooks(allocated, freed);

}  // namespace

#else

namespace {

void* counted(std::size_t bytes, std::size_t alignment = 0) noexcept
{
  ++count;
  ++count_of_thread;
  if (ballast_test::allocation_fails()) { return nullptr; }
  ++alive;
  std::size_t const at_least_one = bytes != 0 ? bytes : 1;
  if (alignment == 0) { return std::malloc(at_least_one); }
  return std::aligned_alloc(alignment, (at_least_one + alignment - 1) / alignment * alignment);
}

void* counted_or_throw(std::size_t bytes, std::size_t alignment = 0)
{
  if (void* const memory = counted(bytes, alignment)) { return memory; }
  throw std::bad_alloc();
}

void give_back(void* memory) noexcept
{
  if (memory != nullptr) { --alive; }
  std::free(memory);
}

}  // namespace

// All forms: a sanitizer's run-time library would supply what is left out.
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
void* operator new(std::size_t bytes, std::align_val_t alignment)
{
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment)
{
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept
{
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept
{
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept
{
  give_back(memory);
}
void operator delete[](void* memory) noexcept
{
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept
{
  give_back(memory);
}
void operator delete[](void* memory, std::size_t) noexcept
{
  give_back(memory);
}

void operator delete(void* memory, std::align_val_t) noexcept
{
  give_back(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept
{
  give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept
{
  give_back(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept
{
  give_back(memory);
}

#endif
