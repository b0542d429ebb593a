// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/memory_model.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <concepts>
#include <cstdint>
#include <limits>

namespace {

using ballast::error_code;
using ballast::memory_model;
using ballast::tokens;
using ballast_test::cpp_int;

static_assert(std::regular<memory_model>);

constexpr auto most_bytes = std::numeric_limits<std::uint64_t>::max();
constexpr auto most_tokens = std::numeric_limits<tokens>::max();

std::uint64_t any_bytes()
{
  return *rc::gen::inRange<std::uint64_t>(0, most_bytes >> *rc::gen::inRange(0, 64));
}

RC_GTEST_PROP(MemoryModel, IsALineUpToWhatFits, ())  // Ensures (1)
{
  memory_model const model{.fixed_bytes = any_bytes(), .bytes_per_token = any_bytes()};
  auto const held = *rc::gen::inRange<tokens>(0, most_tokens >> *rc::gen::inRange(0, 63));
  cpp_int const exact = cpp_int(model.fixed_bytes) + cpp_int(model.bytes_per_token) * held;
  RC_ASSERT(model.bytes(held) ==
            (exact < most_bytes ? static_cast<std::uint64_t>(exact) : most_bytes));
}

RC_GTEST_PROP(MemoryModel, ItsCapIsTheLastTokenThatFits, ())  // Ensures (2)
{
  memory_model const model{.fixed_bytes = any_bytes(), .bytes_per_token = any_bytes()};
  auto const budget = any_bytes();
  auto const cap = model.largest_tokens(budget);
  if (!cap) {
    RC_ASSERT(model.bytes(0) > budget);
    return;
  }
  RC_ASSERT(model.bytes(*cap) <= budget);
  if (*cap < most_tokens) { RC_ASSERT(model.bytes(*cap + 1) > budget); }
}

TEST(MemoryModel, TurnsABudgetIntoACapOnTokens)
{
  // [memory]
  // 52 GiB of weights, gradients and optimiser state, and 1.5 MiB of activations per token.
  ballast::memory_model const model{.fixed_bytes = std::uint64_t{52} << 30,
                                    .bytes_per_token = 3 << 19};
  EXPECT_EQ(model.largest_tokens(std::uint64_t{76} << 30).value(), 16'384);
  // [memory]
}

TEST(MemoryModel, HoldsAnyNumberOfTokensThatTakeNothing)  // Ensures (2)
{
  EXPECT_EQ((memory_model{10, 0}.largest_tokens(10).value()), most_tokens);
  EXPECT_EQ((memory_model{10, 1}.largest_tokens(10).value()), 0);
  EXPECT_EQ((memory_model{0, 1}.largest_tokens(most_bytes).value()), most_tokens);
}

TEST(MemoryModel, RefusesABudgetBelowItsFixedPart)
{
  auto const failed = memory_model{100, 1}.largest_tokens(99);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, error_code::infeasible);
  EXPECT_THAT(failed.error().message, testing::HasSubstr("takes 100 of 99 bytes"));
}

TEST(MemoryModelDeathTest, RejectsNegativeTokens)
{
  EXPECT_DEATH((void)memory_model{}.bytes(-1), "the memory of -1 tokens");
}

}  // namespace
