// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/by_name/any_policy.hpp"
#include "../common/by_name/parse_policy.hpp"
#include "job.hpp"
#include "outcome.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/placement_limits.hpp>

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace cli {

/// The policy of a job.
[[nodiscard]] inline outcome<by_name::any_policy> read_policy(job_options const& options)
{
  auto const policy = by_name::parse_policy(options.policy);
  if (!policy) { return usage("--policy", policy.error()); }
  bool const is_apart = options.together.empty() && !options.apart.empty();
  if ((!options.together.empty() || is_apart) && policy->batches() != ballast::batching::packed) {
    return usage(
        fmt::format("--{0}: {1} pads samples to the longest and cannot keep some of them {0}; "
                    "choose another --policy",
                    is_apart ? "apart" : "together", options.policy));
  }
  return *policy;
}

/// How many samples each bag gets, as --samples says it: any, at_most:3, equal, multiple_of:4,
/// filled.
[[nodiscard]] inline outcome<ballast::counts> read_samples(std::string const& text)
{
  std::string const rule = text.substr(0, text.find(':'));
  bool const has_number = rule.size() < text.size();
  std::int64_t number = 1;
  char const* const end = text.data() + text.size();
  bool good = true;
  if (has_number) {
    auto const read = std::from_chars(text.data() + rule.size() + 1, end, number);
    good = read.ec == std::errc{} && read.ptr == end && number >= 1 && number < (1LL << 31);
  }
  if (good && rule == "any" && !has_number) { return ballast::counts{}; }
  if (good && rule == "filled" && !has_number) { return ballast::counts::filled(); }
  if (good && rule == "equal" && !has_number) { return ballast::counts::equal(); }
  if (good && rule == "at_most" && has_number) { return ballast::counts::at_most(number); }
  if (good && rule == "multiple_of" && has_number) { return ballast::counts::multiple_of(number); }
  return usage(
      fmt::format("--samples: there is no '{}'; give any, at_most:N, equal, multiple_of:N or "
                  "filled, N from 1 to 2147483647",
                  text));
}

/// The limits of a job that are the same for every step.
[[nodiscard]] inline outcome<ballast::placement_limits> read_limits(job_options const& options)
{
  ballast::placement_limits limits;
  if (options.most_per_gpu != 0) {
    limits.most_per_gpu = static_cast<std::int64_t>(options.most_per_gpu);
  }
  auto const samples = read_samples(options.samples);
  if (!samples) { return tl::unexpected(samples.error()); }
  limits.samples = *samples;
  if (options.then == "level") { limits.then = ballast::most_level; }
  if (options.then == "fewest_moves") { limits.then = ballast::fewest_moves; }
  limits.within_per_million = options.within_per_million;
  return limits;
}

}  // namespace cli
