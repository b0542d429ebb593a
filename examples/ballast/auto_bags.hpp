// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "outcome.hpp"
#include "progress.hpp"

namespace cli {

/// Chooses bags for a job by choose_bags(), fitted to some of its batches and judged on others.
/// None of these batches is a step that is planned.
///
/// Expects     everything in `work` but its layouts.
[[nodiscard]] outcome<named_layout> choose_layout(job const& work, progress& shown);

}  // namespace cli
