// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/contract.hpp>

#include <gtest/gtest.h>

namespace {

// A contract is an expression, so that constexpr functions can state theirs.
constexpr int half(int even)
{
  BALLAST_EXPECTS(even % 2 == 0);
  return even / 2;
}

static_assert(half(6) == 3);

TEST(Expects, EvaluatesItsConditionOnceAndGoesOn)
{
  int evaluations = 0;
  BALLAST_EXPECTS(++evaluations == 1);
  EXPECT_EQ(evaluations, 1);
}

TEST(ExpectsDeathTest, NamesTheConditionAndThePlace)
{
  EXPECT_DEATH((void)half(3),
               "contract_test.cpp:[0-9]+: ballast: the caller broke a precondition: even % 2 == 0");
}

#ifdef BALLAST_AUDIT_ENABLED

TEST(AuditDeathTest, ChecksInTheAuditBuild)
{
  EXPECT_DEATH(BALLAST_AUDIT(1 + 1 == 3), "the caller broke a precondition: 1 \\+ 1 == 3");
}

#else

TEST(Audit, DoesNotEvaluateOutsideTheAuditBuild)
{
  int evaluations = 0;
  BALLAST_AUDIT(++evaluations == 0);
  EXPECT_EQ(evaluations, 0);
}

#endif

}  // namespace
