// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/device_ulysses.cuh>

#include "../cuda/head_copies_on_host.hpp"
#include "../route/bag_arrays.hpp"
#include "device_bag.hpp"
#include "gpu_test.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>

namespace {

using ballast::tokens;
using ballast::ulysses_bound;
using ballast_test::bag_case;
using ballast_test::device_bag;
using ballast_test::tables_on_host;

class DeviceUlysses : public ballast_test::gpu_test {
 protected:
  /// The tables as kernels find them when the stream reaches them.
  void expect_tables(ballast::device_ulysses const& heads, bag_case const& bag) const
  {
    auto const spare = heads.bound().sequences - static_cast<std::uint32_t>(bag.lengths.size());
    tables_on_host const expected(bag, spare);
    auto const tables = heads.tables();
    ASSERT_EQ(tables.items(), expected->items());
    EXPECT_EQ(tables.split, expected->split);
    std::vector<tokens> lengths(tables.line());
    std::vector<tokens> first_rows(tables.items());
    auto const read = [&](std::vector<tokens>& to, tokens const* from) {
      ASSERT_EQ(cudaMemcpyAsync(to.data(), from, to.size() * sizeof(tokens), cudaMemcpyDeviceToHost,
                                stream()),
                cudaSuccess);
    };
    read(lengths, tables.lengths);
    read(first_rows, tables.first_rows);
    std::vector<std::int32_t> cu_seqlens(tables.line());
    ASSERT_EQ(
        cudaMemcpyAsync(cu_seqlens.data(), heads.cu_seqlens(),
                        cu_seqlens.size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost, stream()),
        cudaSuccess);
    ASSERT_EQ(wait(), cudaSuccess);
    std::vector<std::int32_t> expected_seqlens(tables.line());
    bag.plan().write_cu_seqlens(expected_seqlens);
    EXPECT_EQ(cu_seqlens, expected_seqlens);
    EXPECT_EQ(lengths, std::vector<tokens>(expected->lengths, expected->lengths + tables.line()));
    EXPECT_EQ(first_rows,
              std::vector<tokens>(expected->first_rows, expected->first_rows + tables.items()));
  }
};

TEST_F(DeviceUlysses, SumsTheRowsOfAllGpus)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 50; ++trial) {
    bag_case const bag = ballast_test::random_bag(random, 8);
    auto const sequences = static_cast<std::uint32_t>(bag.lengths.size() + 1 + random.below(3));
    device_bag device({sequences, bag.gpus, bag.query_heads, bag.kv_heads});
    ASSERT_TRUE(device.heads().stage(bag.plan()));
    ASSERT_EQ(device.heads().upload(stream()), cudaSuccess);
    expect_tables(device.heads(), bag);
  }
}

// More sums than one block of threads makes, with totals near the most that 32 bits count.
TEST_F(DeviceUlysses, SumsManyLongSequences)
{
  bag_case const bag{64, std::vector<tokens>(5000, 429'000), 64};
  device_bag device({5000, 64, 64});
  ASSERT_TRUE(device.heads().stage(bag.plan()));
  ASSERT_EQ(device.heads().upload(stream()), cudaSuccess);
  expect_tables(device.heads(), bag);
}

TEST_F(DeviceUlysses, HasNoTokensBeforeTheFirstPlan)
{
  device_bag device({3, 2, 4});
  ASSERT_EQ(device.heads().upload(stream()), cudaSuccess);
  expect_tables(device.heads(), {2, {}, 4});
}

TEST_F(DeviceUlysses, IsUploadedByAGraphWithEveryStepsPlan)  // Ensures (1)
{
  device_bag device({4, 3, 8});
  auto const upload = ballast_test::graph_of(
      stream(), [&](cudaStream_t captured) { return device.heads().upload(captured); });
  for (std::vector<tokens> const& lengths :
       {std::vector<tokens>{5, 0, 9, 100}, std::vector<tokens>{}, std::vector<tokens>{3}}) {
    bag_case const bag{3, lengths, 8};
    ASSERT_TRUE(device.heads().stage(bag.plan()));
    ASSERT_EQ(upload.replay(stream()), cudaSuccess);
    expect_tables(device.heads(), bag);
  }
}

}  // namespace
