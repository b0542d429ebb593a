// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/tuned_copies.cuh>

#include <gtest/gtest.h>

#include <ballast/cuda/copy_batch.cuh>

#include "copy_test.hpp"

namespace {

using ballast::copy_policy;
using ballast::tuned_copies;
using ballast_test::kinds;
using ballast_test::listed_copies;

static_assert(copy_policy<tuned_copies, listed_copies<kinds::contiguous>>);
static_assert(copy_policy<tuned_copies, listed_copies<kinds::all>>);

using TunedCopies = ballast_test::copy_test;

TEST_F(TunedCopies, MakesAllCopiesOfAList)
{
  expect_same_as_on_the_host<kinds::all>(tuned_copies{});
}

TEST_F(TunedCopies, MakesAllCopiesOfAContiguousListWhateverTheirMean)
{
  for (std::size_t const mean : {0, 100, 4096, 1 << 20}) {
    expect_same_as_on_the_host<kinds::contiguous>(tuned_copies{mean});
  }
}

}  // namespace
