// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/nccl_window.hpp>

#include "../support/test.hpp"
#include "nccl_ranks.hpp"  // defines: ballast_test::nccl_ranks

namespace {

using ballast::nccl_window;
using testing::HasSubstr;

TEST(NcclWindow, GivesAConfigurationThePolicyAlone)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  auto const with_policy = nccl_window::zero_cta(config).value();
  EXPECT_EQ(with_policy.CTAPolicy, NCCL_CTA_POLICY_ZERO);
  EXPECT_EQ(with_policy.blocking, 0);
  EXPECT_EQ(with_policy.size, config.size);
}

TEST(NcclWindow, SaysThatNcclIsTooOld)
{
  ballast_test::pretend_nccl_version(22703);
  auto const config = nccl_window::zero_cta();
  ballast_test::pretend_nccl_version(NCCL_VERSION_CODE);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().position, 22703U);
  EXPECT_THAT(config.error().message,
              HasSubstr("NCCL 2.27 has no zero-CTA policy; load NCCL 2.28"));
}

TEST(NcclWindow, IsGoneBeforeItsCommunicator)
{
  constexpr std::size_t ranks = 3;
  std::size_t const left_behind = ballast_test::windows_left_behind();
  for (std::size_t const polls : {0U, 3U}) {
    ballast_test::nccl_ranks job(ranks);
    if (polls > 0) { job.make_non_blocking(polls); }
    job.run([&](std::size_t rank) {
      ncclComm_t& nccl = job.comm(rank);
      auto const own = ballast::nccl_window::make(nccl, 10).value();
      auto const all = ballast::nccl_window::make(nccl, 10 * ranks).value();
      auto comm = ballast::nccl_communicator<>::over(nccl, job.stream(rank)).value();
      std::ranges::fill(own.span(), static_cast<std::byte>(rank));  // a trainer's kernel
      EXPECT_TRUE(comm.all_gather(own.span(), all.span()) && comm.wait());
      EXPECT_TRUE(own.is_symmetric());
      EXPECT_EQ(all.span().back(), std::byte{ranks - 1});
    });
    EXPECT_EQ(ballast_test::live_windows(), 0U);
    EXPECT_EQ(ballast_test::live_device_arrays(), 0U);
  }
  EXPECT_EQ(ballast_test::windows_left_behind(), left_behind);
}

TEST(NcclWindow, ReportsWhatNcclRefuses)
{
  ballast_test::nccl_ranks job(1);
  ballast_test::fail_call(job.comm(0), 0, ncclInvalidUsage);
  auto const made = nccl_window::make(job.comm(0), 10);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("ncclCommWindowRegister failed with code 5"));
  EXPECT_EQ(ballast_test::live_device_arrays(), 0U);
}

TEST(NcclWindow, FreesItsMemoryAloneOnceTheCommunicatorWasAborted)
{
  ballast_test::nccl_ranks job(1);
  std::optional<nccl_window> window = nccl_window::make(job.comm(0), 10).value();
  EXPECT_EQ(ncclCommAbort(std::exchange(job.comm(0), nullptr)), ncclSuccess);
  window.reset();
  EXPECT_EQ(ballast_test::live_device_arrays(), 0U);
}

TEST(NcclWindowDeathTest, RefusesAWindowOfNothing)
{
  ballast_test::nccl_ranks job(1);
  EXPECT_DEATH((void)nccl_window::make(job.comm(0), 0), "a window has at least a byte");
}

}  // namespace
