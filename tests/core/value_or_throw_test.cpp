// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/value_or_throw.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <concepts>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

using ballast::error_code;
using ballast::fail;
using ballast::result;
using ballast::value_or_throw;

static_assert(std::derived_from<ballast::result_error, std::runtime_error>);

TEST(ValueOrThrow, ReturnsTheValue)
{
  result<int> const kept = 3;
  EXPECT_EQ(value_or_throw(kept), 3);
  EXPECT_EQ(*value_or_throw(result<std::unique_ptr<int>>(std::make_unique<int>(4))), 4);
  EXPECT_NO_THROW(value_or_throw(result<void>()));
}

TEST(ValueOrThrow, ThrowsTheSentence)  // Ensures (1)
{
  auto const refused = [](auto const& from) {
    try {
      static_cast<void>(value_or_throw(from));
    } catch (ballast::result_error const& thrown) {
      EXPECT_EQ(thrown.reason(), from.error());
      return std::string(thrown.what());
    }
    return std::string("nothing was thrown");
  };
  result<int> const number = fail(error_code::out_of_range, 7, "sample 7 is too long; split it");
  EXPECT_EQ(refused(number), "sample 7 is too long; split it");
  result<void> const nothing = fail(error_code::infeasible, 0, "there are no bags; lay out some");
  EXPECT_EQ(refused(nothing), "there are no bags; lay out some");
  EXPECT_THROW(static_cast<void>(value_or_throw(result<int>(number))), ballast::result_error);
}

TEST(ValueOrThrow, IsForProgramsThatEndWhereTheyCannotGoOn)
{
  auto const run = [] {
    // [value]
    try {
      int const gpus = value_or_throw(result<int>(
          fail(error_code::out_of_range, 0, "a job of 0 GPUs computes nothing; give at least 1")));
      return std::to_string(gpus) + " GPUs";
    } catch (ballast::result_error const& wrong) {
      return std::string(wrong.what());
    }
    // [value]
  };
  EXPECT_EQ(run(), "a job of 0 GPUs computes nothing; give at least 1");
}

}  // namespace
