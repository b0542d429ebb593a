// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/detail/counted.hpp>

#include <gtest/gtest.h>

#include <cstddef>

namespace {

using ballast::detail::counted;

TEST(Counted, AgreesWithTheNumber)
{
  EXPECT_EQ(counted(1, "sample"), "1 sample");
  EXPECT_EQ(counted(std::size_t{2}, "bag"), "2 bags");
  EXPECT_EQ(counted(0U, "microbatch"), "0 microbatches");
  EXPECT_EQ(counted(1L, "microbatch"), "1 microbatch");
  EXPECT_EQ(counted(1, "entry") + " " + counted(3, "entry"), "1 entry 3 entries");
  EXPECT_EQ(counted(-1, "token"), "-1 tokens");
}

}  // namespace
