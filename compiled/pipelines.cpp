// SPDX-License-Identifier: Apache-2.0
#define BALLAST_COMPILED  // other parts have these
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/topology/device_groups.hpp>

#include "own.hpp"

#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/runtime/pipeline_runner.hpp>

namespace ballast::inline v0 {

template class pipeline_runner<std::allocator<std::byte>>;

namespace detail {

template result<void> order_into(order_plan&, workspace&, compiled_schedule const&,
                                 pipeline_times const&, local_search<> const&);

}  // namespace detail

}  // namespace ballast::inline v0
