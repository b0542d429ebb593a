// SPDX-License-Identifier: Apache-2.0
#include <ballast/workload/sample_batch.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <concepts>

namespace {

using ballast::rank_id;
using ballast::sample_batch;

static_assert(std::regular<sample_batch>);

TEST(SampleBatch, IsEqualWhereLengthsAndSourcesAre)
{
  sample_batch const batch{{5, 0, 7}, {rank_id{0}, rank_id{0}, rank_id{2}}};
  EXPECT_EQ(batch, sample_batch(batch));
  EXPECT_NE(batch, (sample_batch{{5, 0, 8}, batch.source}));
  EXPECT_NE(batch, (sample_batch{batch.lengths, {rank_id{0}, rank_id{1}, rank_id{2}}}));
  EXPECT_EQ(sample_batch{}, (sample_batch{{}, {}}));
}

}  // namespace
