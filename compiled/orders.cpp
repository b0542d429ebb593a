// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>

namespace ballast::inline v0::detail {

template result<void> order_into(order_plan&, workspace&, compiled_schedule const&,
                                 pipeline_times const&, local_search<> const&);

}  // namespace ballast::inline v0::detail
