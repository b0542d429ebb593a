// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/tables.hpp>

#include "../route/bag_arrays.hpp"
#include "../support/test.hpp"
#include "head_copies_on_host.hpp"

namespace {

using ballast::bag_chunk;
using ballast::tokens;
using ballast_test::bag_case;
using ballast_test::tables_on_host;

RC_GTEST_PROP(UlyssesTables, SayWhatThePlanSays, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag, static_cast<std::uint32_t>(1 + random.below(3)));
  RC_ASSERT(tables->rows(bag.gpus) == plan.rows());
  RC_ASSERT(tables->split == plan.split());
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    RC_ASSERT(tables->rows(gpu) == plan.rows(gpu));
    std::vector<bag_chunk> parts;
    plan.for_each_chunk(gpu, [&](bag_chunk const& part) { parts.push_back(part); });
    std::size_t next = 0;
    for (std::uint32_t sequence = 0; sequence < tables->sequences; ++sequence) {
      bag_chunk const part = tables->part(gpu, sequence);
      if (part.count == 0) { continue; }
      RC_ASSERT(next < parts.size());
      RC_ASSERT(part == parts[next++]);
      for (tokens row = 0; row < part.count; ++row) {
        RC_ASSERT(tables->bag_row(gpu, part.own_row + row) == part.row + row);
      }
    }
    RC_ASSERT(next == parts.size());
  }
}

TEST(UlyssesTables, GiveGpusWithoutAChunkNoRows)
{
  for (std::uint32_t const gpus : {1U, 2U, 4U, 8U}) {
    for (tokens length = 0; length <= gpus + 1; ++length) {
      SCOPED_TRACE(testing::Message() << length << " tokens on " << gpus << " GPUs");
      bag_case const bag{gpus, {length, 0, gpus + length, length}, 8};
      tables_on_host const tables(bag);
      for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
        EXPECT_EQ(tables->part(gpu, 0).count > 0, gpu < length);
        EXPECT_EQ(tables->part(gpu, 3).count, tables->part(gpu, 0).count);
        EXPECT_EQ(tables->rows(gpu), bag.plan().rows(gpu));
        tokens const last = tables->rows(gpu) - 1;  // of the last sequence that has a row here
        EXPECT_EQ(tables->bag_row(gpu, last),
                  gpu < length ? tables->part(gpu, 3).row + tables->part(gpu, 3).count - 1
                               : tables->part(gpu, 2).row + tables->part(gpu, 2).count - 1);
      }
    }
  }
}

TEST(UlyssesTables, CountLongSequencesIn64Bits)
{
  bag_case const bag{2, std::vector<tokens>(5, ballast::longest_sample), 1};
  tables_on_host const tables(bag);
  EXPECT_EQ(tables->rows(2), 5 * ballast::longest_sample);
  EXPECT_EQ(tables->rows(0) + tables->rows(1), 5 * ballast::longest_sample);
  EXPECT_EQ(tables->bag_row(1, tables->rows(1) - 1), 5 * ballast::longest_sample - 1);
}

}  // namespace
