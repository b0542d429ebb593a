// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"

namespace cli {

/// Fills in the cost model, from its specification alone or fitted to measured times, and the width
/// of a token.
[[nodiscard]] outcome<void> price(job& work);

/// Refuses a job whose bytes per token are unknown.
[[nodiscard]] outcome<void> check_token_width(job const& work);

}  // namespace cli
