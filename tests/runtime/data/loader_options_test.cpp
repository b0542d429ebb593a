// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/loader_options.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace {

TEST(LoaderOptions, GiveALoaderMinutesUnlessToldOtherwise)
{
  ballast::loader_options const options;
  EXPECT_GE(options.late_after, std::chrono::minutes(1));
  EXPECT_LE(options.least, options.most);
}

}  // namespace
