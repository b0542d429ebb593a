// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/deadline.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <chrono>

namespace {

namespace comm_failure = ballast::comm_failure;
using ballast::error;
using ballast::error_code;
using ballast::rank_id;

TEST(CommFailure, SaysWhoIsMissingAndForHowLong)
{
  EXPECT_EQ(comm_failure::timed_out("barrier", std::chrono::seconds(2), {rank_id{5}}).value(),
            (error{error_code::timed_out,
                   0,
                   "barrier: rank 5 did not arrive within 2000 ms; look for what holds them up, or "
                   "raise the deadline",
                   {rank_id{5}}}));
  EXPECT_EQ(comm_failure::timed_out("barrier", std::chrono::milliseconds(1), {}).value().message,
            "barrier: some ranks did not arrive within 1 ms; look for what holds them up, or raise "
            "the deadline");
}

}  // namespace
