// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_READ_POLICY_HPP
#define BALLAST_EXAMPLES_READ_POLICY_HPP

#include "job.hpp"
#include "outcome.hpp"

#include <ballast/by_name/any_policy.hpp>
#include <ballast/by_name/parse_policy.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/capped.hpp>

#include <fmt/format.h>

namespace cli {

/// The policy of a job, within what its GPUs hold.
[[nodiscard]] inline outcome<ballast::any_policy> read_policy(job_options const& options)
{
  auto const policy = ballast::parse_policy(options.policy);
  if (!policy) { return usage("--policy", policy.error()); }
  if (!options.together.empty() && policy->batches() != ballast::batching::packed) {
    return usage(
        fmt::format("--together: {} pads samples to the longest and cannot keep some of "
                    "them together; choose another --policy",
                    options.policy));
  }
  if (options.most_tokens_per_gpu == 0) { return *policy; }
  return ballast::any_policy(ballast::capped<ballast::any_policy>{*policy});
}

}  // namespace cli

#endif  // BALLAST_EXAMPLES_READ_POLICY_HPP
