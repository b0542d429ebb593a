// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/parallel_degree.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace {

using ballast::parallel_degree;

constexpr std::uint32_t largest_degree = std::numeric_limits<std::uint32_t>::max();

TEST(ParallelDegree, IsAGroupOfAsManyGpusAsItsProduct)
{
  EXPECT_EQ(parallel_degree{}.gpus(), 1U);
  EXPECT_EQ((parallel_degree{2, 3, 5}.gpus()), 30U);
  EXPECT_EQ((parallel_degree{2, 0, 5}.gpus()), 0U);
  EXPECT_EQ((parallel_degree{2, 5, 0}.gpus()), 0U);
  EXPECT_EQ((parallel_degree{largest_degree, largest_degree, 1}.gpus()),
            std::uint64_t{largest_degree} * largest_degree);
  EXPECT_EQ((parallel_degree{largest_degree, largest_degree, 2}.gpus()),
            std::numeric_limits<std::uint64_t>::max());
}

TEST(ParallelDegree, IsOrderedByTpThenSpThenEp)  // Ensures (1)
{
  EXPECT_LT((parallel_degree{1, 9, 9}), (parallel_degree{2, 1, 1}));
  EXPECT_LT((parallel_degree{2, 1, 9}), (parallel_degree{2, 2, 1}));
  EXPECT_LT((parallel_degree{2, 2, 1}), (parallel_degree{2, 2, 2}));
  struct point {
    std::uint32_t ep = 5;
    std::uint32_t sp = 3;
    std::uint32_t tp = 2;
  };
  EXPECT_EQ(ballast::degree_of(point{}), (parallel_degree{2, 3, 5}));
}

TEST(ParallelDegree, NamesWhatIsNotOne)
{
  EXPECT_EQ(text_of(parallel_degree{4}), "tp 4");
  EXPECT_EQ(text_of(parallel_degree{1, 2, 1}), "tp 1 sp 2");
  EXPECT_EQ(text_of(parallel_degree{2, 1, 8}), "tp 2 ep 8");
  EXPECT_EQ(text_of(parallel_degree{2, 4, 8}), "tp 2 sp 4 ep 8");
}

}  // namespace
