#include <ballast/partition/concepts.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;

TEST(Batching, DecidesWhatALoadIs)
{
  std::vector<tokens> const lengths{9, 4, 2};
  auto const length = [](tokens of) { return of; };
  auto const one_bag = one_gpu_bags(1);
  auto const packed = partition(lengths, one_bag, round_robin{}, length);
  auto const padded = partition(lengths, one_bag, padded_batches{}, length);
  ASSERT_TRUE(packed && padded);
  EXPECT_EQ(packed->batches, batching::packed);
  EXPECT_EQ(packed->loads.front(), 9 + 4 + 2);
  EXPECT_EQ(padded->batches, batching::padded);
  EXPECT_EQ(padded->loads.front(), 3 * 9);
}

}  // namespace
