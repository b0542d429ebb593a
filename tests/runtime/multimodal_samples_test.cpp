// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/orchestrated_step.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

namespace {

using ballast::multimodal_samples;
using ballast::subsequence;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t begins = multimodal_samples::begins_sample;

TEST(MultimodalSamples, ListSubsequencesInTheirOrderSampleBySample)
{
  multimodal_samples read;
  EXPECT_THAT(read.entries(), IsEmpty());
  read.start_sample();
  read.add(1, 30);
  read.add(0, 0);
  read.start_sample();
  read.start_sample(4);
  read.add(2, 7);
  EXPECT_EQ(read.size(), 3U);
  EXPECT_THAT(read.entries(),
              ElementsAre(subsequence{begins, multimodal_samples::alone}, subsequence{1, 30},
                          subsequence{0, 0}, subsequence{begins, multimodal_samples::alone},
                          subsequence{begins, 4}, subsequence{2, 7}));
}

TEST(MultimodalSamples, KeepTheirMemory)  // Ensures
{
  multimodal_samples read;
  std::size_t before = 0;
  for (int step = 0; step < 3; ++step) {
    if (step == 1) { before = ballast_test::allocations(); }
    read.clear();
    EXPECT_EQ(read.size(), 0U);
    for (int sample = 0; sample < 9; ++sample) {
      read.start_sample();
      read.add(0, sample);
    }
  }
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(MultimodalSamplesDeathTest, RefuseASubsequenceOfNoSample)
{
  multimodal_samples read;
  EXPECT_DEATH(read.add(0, 1), "before a sample was started");
  read.start_sample();
  EXPECT_DEATH(read.add(begins, 1), "is reserved");
  EXPECT_DEATH(read.start_sample(-2), "a sample is of group -2");
}

}  // namespace
