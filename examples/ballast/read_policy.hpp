// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/by_name/any_policy.hpp"
#include "../common/by_name/parse_policy.hpp"
#include "job.hpp"
#include "outcome.hpp"

#include <ballast/partition/capped.hpp>
#include <ballast/partition/concepts.hpp>

#include <fmt/format.h>

namespace cli {

/// The policy of a job, within what its GPUs hold.
[[nodiscard]] inline outcome<by_name::any_policy> read_policy(job_options const& options)
{
  auto const policy = by_name::parse_policy(options.policy);
  if (!policy) { return usage("--policy", policy.error()); }
  if (!options.together.empty() && policy->batches() != ballast::batching::packed) {
    return usage(
        fmt::format("--together: {} pads samples to the longest and cannot keep some of "
                    "them together; choose another --policy",
                    options.policy));
  }
  if (options.most_tokens_per_gpu == 0) { return *policy; }
  return by_name::any_policy(ballast::capped<by_name::any_policy>{*policy});
}

}  // namespace cli
