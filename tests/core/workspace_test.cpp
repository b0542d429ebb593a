// SPDX-License-Identifier: Apache-2.0
#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

namespace {

using ballast::workspace;
using ballast_test::allocations;

template <class T>
concept can_be_taken =
    requires(workspace::frame& scratch) { scratch.template take<T>(std::size_t{1}); };

static_assert(can_be_taken<int> && can_be_taken<std::max_align_t>);
static_assert(!can_be_taken<std::string>, "nobody would run its destructor");

bool is_aligned(void const* memory, std::size_t alignment)
{
  return reinterpret_cast<std::uintptr_t>(memory) % alignment == 0;
}

TEST(Workspace, AlignsArraysForTheirType)  // Ensures (1)
{
  workspace memory;
  auto scratch = memory.open();
  for (std::size_t odd = 1; odd < 40; odd += 2) {
    EXPECT_EQ(scratch.take<std::uint8_t>(odd).size(), odd);
    EXPECT_TRUE(is_aligned(scratch.take<std::uint64_t>(odd).data(), alignof(std::uint64_t)));
    EXPECT_TRUE(is_aligned(scratch.take<std::max_align_t>(odd).data(), alignof(std::max_align_t)));
  }
}

TEST(Workspace, GivesAnEmptyArrayForZero)
{
  workspace memory;
  auto scratch = memory.open();
  EXPECT_TRUE(scratch.take<int>(0).empty());
  EXPECT_EQ(scratch.take<int>(2).size(), 2U);
  EXPECT_TRUE(scratch.take<int>(0).empty());
}

// Fills every array with its own number and, when its frame closes, finds it untouched: arrays of
// live frames neither overlap nor move, however deep the frames nest.
void nest(workspace& memory, ballast::random_source& random, std::uint32_t depth)
{
  auto scratch = memory.open();
  std::vector<std::span<std::uint32_t>> arrays;
  for (std::uint32_t taken = 0; taken < 5; ++taken) {
    arrays.push_back(scratch.take<std::uint32_t>(static_cast<std::size_t>(random.below(300))));
    std::ranges::fill(arrays.back(), 10 * depth + taken);
    if (depth < 4) { nest(memory, random, depth + 1); }
  }
  for (std::uint32_t taken = 0; taken < 5; ++taken) {
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(arrays[taken], 10 * depth + taken)),
              arrays[taken].size());
  }
}

TEST(Workspace, KeepsArraysOfNestedFramesApartAndInPlace)  // Ensures (1) (3)
{
  workspace memory;
  ballast::random_source random(20240607);
  for (int round = 0; round < 5; ++round) { nest(memory, random, 1); }
}

TEST(Workspace, ReusesTheMemoryOfAClosedFrame)
{
  workspace memory;
  void* first = nullptr;
  {
    auto scratch = memory.open();
    first = scratch.take<int>(10).data();
  }
  auto scratch = memory.open();
  EXPECT_EQ(scratch.take<int>(10).data(), first);
}

// One call tree with arrays of the given sizes, some of them in an inner frame.
void step(workspace& memory, std::span<std::size_t const> sizes)
{
  auto outer = memory.open();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    (void)outer.take<std::uint64_t>(sizes[i]);
    auto inner = memory.open();
    (void)inner.take<std::uint8_t>(sizes[sizes.size() - 1 - i]);
  }
}

TEST(Workspace, AllocatesNothingForArraysNoLargerThanBefore)  // Ensures (2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 200; ++trial) {
    workspace memory;
    std::vector<std::size_t> sizes(8);
    for (std::size_t& size : sizes) { size = static_cast<std::size_t>(random.below(5000)); }
    std::size_t const before_warm_up = allocations();
    step(memory, sizes);
    ASSERT_GT(allocations(), before_warm_up);

    for (int round = 0; round < 20; ++round) {
      std::vector<std::size_t> smaller = sizes;
      for (std::size_t& size : smaller) { size = static_cast<std::size_t>(random.below(size + 1)); }
      std::size_t const before = allocations();
      step(memory, smaller);
      ASSERT_EQ(allocations(), before) << "trial " << trial << " round " << round;
    }
  }
}

TEST(WorkspaceDeathTest, GivesArraysOfTheInnermostFrameOnly)  // Expects
{
  workspace memory;
  auto outer = memory.open();
  (void)outer.take<int>(3);
  {
    auto inner = memory.open();
    (void)inner.take<int>(3);
    EXPECT_DEATH((void)outer.take<int>(1),
                 "frame 1 of a workspace was asked for an array while frame 2 is the innermost");
  }
  (void)outer.take<int>(1);
}

TEST(WorkspaceDeathTest, ClosesTheInnermostFrameFirst)  // Expects
{
  workspace memory;
  std::optional<workspace::frame> outer(std::in_place, memory);
  std::optional<workspace::frame> inner(std::in_place, memory);
  EXPECT_DEATH(outer.reset(), "frame 1 of a workspace was closed while frame 2 is the innermost");
  inner.reset();
  outer.reset();
}

}  // namespace
