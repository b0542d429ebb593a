// SPDX-License-Identifier: Apache-2.0
#pragma once

// IWYU pragma: begin_keep

#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>

// IWYU pragma: end_keep

namespace ballast::inline v0::detail {

/// The order of the policy that people take first is in ballast::compiled.
extern template result<void> order_into(order_plan&, workspace&, compiled_schedule const&,
                                        pipeline_times const&, local_search<> const&);

}  // namespace ballast::inline v0::detail
