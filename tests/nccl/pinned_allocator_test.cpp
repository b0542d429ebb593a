// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/device_memory.hpp>

#include "../support/nccl_shim.hpp"
#include "../support/test.hpp"

#include <new>

namespace {

using ballast::pinned_allocator;

template <class T>
using pinned_vector = std::vector<T, pinned_allocator<T>>;

static_assert(std::allocator_traits<pinned_allocator<int>>::is_always_equal::value);

TEST(PinnedAllocator, ServesAVector)
{
  {
    pinned_vector<float> values(100, 1.5F);
    EXPECT_EQ(ballast_test::live_pinned_arrays(), 1U);
    values.resize(10'000, 2.5F);
    EXPECT_EQ(ballast_test::live_pinned_arrays(), 1U);
    EXPECT_EQ(values[99], 1.5F);
    EXPECT_EQ(values[9'999], 2.5F);
  }
  EXPECT_EQ(ballast_test::live_pinned_arrays(), 0U);
}

TEST(PinnedAllocator, AlignsToACacheLine)  // Ensures (1)
{
  for (std::size_t bytes = 1; bytes < 200; bytes += 33) {
    pinned_vector<std::byte> const memory(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
  }
}

TEST(PinnedAllocator, FreesWhatAnotherAllocated)  // Ensures (2)
{
  pinned_allocator<int> const first;
  pinned_allocator<int> second = pinned_allocator<double>();
  EXPECT_EQ(first, second);
  int* const memory = pinned_allocator<int>(first).allocate(3);
  second.deallocate(memory, 3);
  EXPECT_EQ(ballast_test::live_pinned_arrays(), 0U);
}

TEST(PinnedAllocator, ThrowsWhereCudaRefuses)  // Errors
{
  ballast_test::refuse_pinned_memory(true);
  EXPECT_THROW((void)pinned_allocator<int>().allocate(1), std::bad_alloc);
  ballast_test::refuse_pinned_memory(false);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next check of the caller would find it";
}

TEST(PinnedAllocator, RefusesASizeThatNoNumberHolds)  // Errors
{
  constexpr std::size_t half = std::numeric_limits<std::size_t>::max() / 2;
  EXPECT_THROW((void)pinned_allocator<double>().allocate(half), std::bad_array_new_length);
}

}  // namespace
