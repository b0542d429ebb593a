// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/device_route.hpp>

#include "../support/test.hpp"
#include "../support/trials.hpp"
#include "rows_on_host.hpp"

#include <cuda_bf16.h>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/route/row_array.hpp>

#include <cstring>

namespace {

using ballast::device_sequence_rows;
using ballast::tokens;

constexpr std::uint32_t most_sequences = 20;

/// Copies that kernels read where they were staged.
struct staged_copies {
  std::vector<tokens> memory;
  device_sequence_rows there;

  staged_copies() : memory(most_sequences + 2, -1), there(most_sequences, bytes(), bytes()) {}

  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(memory)); }
};

template <class T>
std::vector<T> drawn(std::size_t count, ballast::random_source& random)
{
  std::vector<T> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(static_cast<T>(static_cast<float>(random.between(-1000, 1000)) / 7));
  }
  return all;
}

template <class T>
bool same_bytes(std::vector<T> const& one, std::vector<T> const& other)
{
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
}

// The oracle is the host's functions; zeros below zero are among the numbers.
template <class T>
void expect_as_on_the_host(staged_copies& staged, std::vector<tokens> const& copies,
                           std::size_t width, ballast::random_source& random)
{
  auto const all = static_cast<std::size_t>(std::reduce(copies.begin(), copies.end()));
  ASSERT_TRUE(staged.there.stage(copies));
  auto const rows = drawn<T>(copies.size() * width, random);
  std::vector<T> repeated(all * width), expected(repeated.size());
  ballast_test::run_rows_on_host(
      ballast::detail::repeated_rows<T>{staged.there.table(), rows.data(), repeated.data(), width});
  ballast::repeat_rows<T>(copies, rows, expected);
  EXPECT_TRUE(same_bytes(repeated, expected));

  auto gradients = drawn<T>(repeated.size(), random);
  if (!gradients.empty()) { gradients.front() = -T{}; }
  std::vector<T> sums(rows.size()), expected_sums(rows.size());
  ballast_test::run_rows_on_host(
      ballast::detail::summed_rows<T>{staged.there.table(), gradients.data(), sums.data(), width});
  ballast::sum_rows<T>(copies, gradients, expected_sums);
  EXPECT_TRUE(same_bytes(sums, expected_sums));
}

TEST(DeviceSequenceRows, AreRepeatedAndSummedAsOnTheHost)
{
  ballast::random_source random(20250301);
  staged_copies staged;
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<tokens> copies(random.below(most_sequences + 1));
    for (tokens& each : copies) { each = random.between(0, 9); }
    std::size_t const width = random.below(20);
    expect_as_on_the_host<float>(staged, copies, width, random);
    expect_as_on_the_host<double>(staged, copies, width, random);
    if (testing::Test::HasFailure()) { return; }
  }
}

TEST(DeviceSequenceRows, Of16BitsAreAddedInFp32)
{
  staged_copies staged;
  ASSERT_TRUE(staged.there.stage(std::vector<tokens>{3}));
  std::vector<__nv_bfloat16> const gradients{256.0F, 1.0F, 1.0F};  // 257 is not one of bf16
  std::vector<__nv_bfloat16> sum(1);
  ballast_test::run_rows_on_host(ballast::detail::summed_rows<__nv_bfloat16>{
      staged.there.table(), gradients.data(), sum.data(), 1});
  EXPECT_EQ(static_cast<float>(sum[0]), 258);
}

TEST(DeviceSequenceRows, RefuseMoreSequencesThanTheyAreMadeFor)  // Ensures (1) (2)
{
  staged_copies staged;
  EXPECT_EQ(*staged.there.table().count, 0);
  ASSERT_TRUE(staged.there.stage(std::vector<tokens>{2, 1}));
  auto const refused = staged.there.stage(std::vector<tokens>(most_sequences + 1, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(refused.error().message,
            "there are rows of 21 sequences, and their table on the device is made for 20; make it "
            "for the most of any step");
  EXPECT_EQ(*staged.there.table().count, 2);
  EXPECT_EQ(staged.there.table().begins[2], 3);
}

TEST(DeviceSequenceRowsDeathTest, RejectTooLittleMemory)
{
  std::vector<std::byte> small(8);
  EXPECT_DEATH(device_sequence_rows(most_sequences, small, small), "for copies that take 176");
}

}  // namespace
