// SPDX-License-Identifier: Apache-2.0
#include "../../bench/gpu/cub_copies.cuh"

#include <gtest/gtest.h>

#include <ballast/cuda/copy_batch.cuh>

#include "copy_test.hpp"

namespace {

using ballast::copy_policy;
using ballast_test::kinds;
using ballast_test::listed_copies;
using bench::cub_copies;

static_assert(copy_policy<cub_copies, listed_copies<kinds::contiguous>>);
static_assert(!copy_policy<cub_copies, listed_copies<kinds::all>>);

using CubCopies = ballast_test::copy_test;

TEST_F(CubCopies, MakesAllCopiesOfAContiguousList)
{
  expect_same_as_on_the_host<kinds::contiguous>(cub_copies{});
}

}  // namespace
