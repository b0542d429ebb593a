// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_PROFILE_CHECK_HPP
#define BALLAST_EXAMPLES_PROFILE_CHECK_HPP

#include "cpu_modules.hpp"
#include "outcome.hpp"
#include "profile_command.hpp"

namespace cli {

/// Predicts lengths between the measured ones from the profile, and measures them.
[[nodiscard]] outcome<profile_check> check_predictions(profile_run const& run,
                                                       cpu_module const& llm);

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PROFILE_CHECK_HPP
