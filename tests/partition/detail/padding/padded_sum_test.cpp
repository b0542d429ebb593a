#include <ballast/partition/detail/padding/padded_sum.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

using ballast::detail::padded_sum;

constexpr padded_sum batch_of_two(ballast::cost_units packed, ballast::cost_units padded)
{
  padded_sum batch;
  batch.add(packed, padded);
  batch.add(3 * packed, 2 * padded);
  return batch;
}

static_assert(padded_sum{}.load() == 0);
static_assert(batch_of_two(5, 0).load() == 20);      // Ensures (1)
static_assert(batch_of_two(0, 7).load() == 2 * 14);  // Ensures (1)
static_assert(batch_of_two(5, 7).load() == 20 + 28);

TEST(PaddedSum, PadsOnePartToTheLargest)
{
  padded_sum batch = batch_of_two(1, 4);
  batch.add(0, 1);
  EXPECT_EQ(batch.load(), 4 + 3 * 8);
}

}  // namespace
