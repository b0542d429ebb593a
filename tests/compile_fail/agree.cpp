// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>

bool agrees()
{
  auto ranks = ballast::thread_communicator::make(1);
#if defined(OVER_NO_COMMUNICATOR)
  // EXPECT: communicator
  return ballast::agree(ranks, 7, "the plan").has_value();
#else
  return ballast::agree(ranks[0], 7, "the plan").has_value();
#endif
}
