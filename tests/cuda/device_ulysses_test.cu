// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/device_ulysses.cuh>

#include "../route/bag_arrays.hpp"
#include "../support/counted_allocations.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>

namespace {

using ballast::device_ulysses;
using ballast::tokens;
using ballast::ulysses_bound;
using ballast_test::bag_case;

constexpr ulysses_bound bound{.sequences = 4, .gpus = 3, .query_heads = 8};

// What upload() would copy; nothing here looks at the device's side.
struct staged_lengths {
  std::vector<tokens> pinned;
  device_ulysses heads;

  staged_lengths() : pinned(8, -1), heads(bound, {}, std::as_writable_bytes(std::span(pinned))) {}

  [[nodiscard]] std::vector<tokens> lengths() const { return {pinned.begin(), pinned.begin() + 5}; }
  [[nodiscard]] std::vector<std::int32_t> cu_seqlens() const
  {
    auto const* const begin = reinterpret_cast<std::int32_t const*>(pinned.data() + 5);
    return {begin, begin + 5};
  }
};

TEST(DeviceUlysses, StagesThePlansLengthsAndZerosBehindThem)
{
  staged_lengths staged;
  EXPECT_EQ(staged.lengths(), std::vector<tokens>(5, 0));
  EXPECT_EQ(staged.heads.plan().rows(), 0);
  auto const four = bag_case{3, {5, 0, 9, 100}, 8}.plan();
  ASSERT_TRUE(staged.heads.stage(four));
  EXPECT_EQ(staged.lengths(), (std::vector<tokens>{5, 0, 9, 100, 0}));
  EXPECT_EQ(staged.cu_seqlens(), (std::vector<std::int32_t>{0, 5, 5, 14, 114}));
  EXPECT_EQ(staged.heads.plan(), four);
  ASSERT_TRUE(staged.heads.stage(bag_case{3, {7}, 8}.plan()));
  EXPECT_EQ(staged.lengths(), (std::vector<tokens>{7, 0, 0, 0, 0}));
  EXPECT_EQ(staged.cu_seqlens(), (std::vector<std::int32_t>{0, 7, 7, 7, 7}));
}

TEST(DeviceUlysses, RefusesMoreSequencesThanItIsMadeFor)  // Ensures (2)
{
  staged_lengths staged;
  auto const kept = bag_case{3, {7}, 8}.plan();
  ASSERT_TRUE(staged.heads.stage(kept));
  auto const refused = staged.heads.stage(bag_case{3, {3, 3, 3, 3, 3}, 8}.plan());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(refused.error().message,
            "the bag has 5 sequences, and what holds its plan on the device is made for 4; make it "
            "for the most of any step");
  EXPECT_EQ(staged.lengths(), (std::vector<tokens>{7, 0, 0, 0, 0}));
  EXPECT_EQ(staged.heads.plan(), kept);
  auto const many = staged.heads.stage(bag_case{3, {ballast::longest_sample, 1}, 8}.plan());
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message,
            "the bag has 2147483648 rows, and cu_seqlens counts them in 32 bits; give it fewer "
            "sequences");
}

TEST(DeviceUlysses, StagesWithoutAllocating)  // Ensures (3)
{
  staged_lengths staged;
  std::vector<ballast::ulysses_plan> const plans = {bag_case{3, {5, 0, 9, 100}, 8}.plan(),
                                                    bag_case{3, {}, 8}.plan()};
  std::size_t const before = ballast_test::allocations();
  for (auto const& plan : plans) { (void)staged.heads.stage(plan); }
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(DeviceUlysses, SaysHowLargeItsMemoryIs)
{
  EXPECT_EQ(device_ulysses::pinned_bytes(bound), 5 * (sizeof(tokens) + sizeof(std::int32_t)));
  std::size_t bytes = 0;
  if (device_ulysses::device_bytes(bound, bytes) == cudaSuccess) {  // there is a GPU
    EXPECT_GE(bytes, (5 + 4 * 5) * sizeof(tokens));
  }
  (void)cudaGetLastError();
}

TEST(DeviceUlyssesDeathTest, RejectsOtherBagsAndBounds)
{
  staged_lengths staged;
  EXPECT_DEATH((void)staged.heads.stage(bag_case{2, {7}, 8}.plan()),
               "the plan is for 2 GPUs, 8 query heads");
  EXPECT_DEATH((void)staged.heads.stage(bag_case{3, {7}, 4}.plan()),
               "the plan is for 3 GPUs, 4 query heads");
  auto const made = [&](ulysses_bound other, std::size_t pinned) {
    device_ulysses{other, {}, std::as_writable_bytes(std::span(staged.pinned)).first(pinned)};
  };
  EXPECT_DEATH(made({0, 3, 8}, 60), "a bag of 3 GPUs with 0 sequences and 8");
  EXPECT_DEATH(made({4, 0, 8}, 60), "a bag of 0 GPUs with 4 sequences and 8");
  EXPECT_DEATH(made({4, 3, 0}, 60), "a bag of 3 GPUs with 4 sequences and 0");
  EXPECT_DEATH(made(bound, 59), "59 bytes of pinned memory for a bag that takes 60");
  EXPECT_DEATH(made({1'000'000'000, 3, 8}, 60), "too many to be numbered");
}

}  // namespace
