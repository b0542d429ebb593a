// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_COMPILED_ORDERS_HPP
#define BALLAST_PIPELINE_DETAIL_COMPILED_ORDERS_HPP

// IWYU pragma: begin_keep
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
// IWYU pragma: end_keep

namespace ballast::inline v0::detail {

/// As partition/detail/compiled_plans.hpp, of orders.
extern template result<void> order_into(order_plan&, workspace&, compiled_schedule const&,
                                        pipeline_times const&, local_search<> const&);

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_COMPILED_ORDERS_HPP
