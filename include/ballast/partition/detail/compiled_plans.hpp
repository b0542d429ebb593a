// SPDX-License-Identifier: Apache-2.0
#pragma once

// IWYU pragma: begin_keep

#include <ballast/core.hpp>
#include <ballast/partition/capped.hpp>
#include <ballast/partition/detail/vectors/plan_vectors.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/refine.hpp>

// IWYU pragma: end_keep

namespace ballast::inline v0::detail {

/// Where BALLAST_COMPILED is defined these are not compiled, but found in ballast::compiled, which
/// CMakeLists.txt makes of this file, without `extern`.
extern template result<void> plan_priced(partition_plan&, workspace&, sample_lengths const&,
                                         bag_layout const&, refine<> const&,
                                         partition_constraints const&);
extern template result<void> plan_priced(partition_plan&, workspace&, sample_lengths const&,
                                         bag_layout const&, longest_processing_time const&,
                                         partition_constraints const&);
extern template result<void> plan_priced(partition_plan&, workspace&, sample_lengths const&,
                                         bag_layout const&, capped<> const&,
                                         partition_constraints const&);
extern template result<void> plan_priced(partition_plan&, workspace&, sample_lengths const&,
                                         bag_layout const&, equal_count const&,
                                         partition_constraints const&);
extern template result<void> plan_priced(partition_plan&, workspace&, sample_lengths const&,
                                         bag_layout const&, greedy_knapsack const&,
                                         partition_constraints const&);

}  // namespace ballast::inline v0::detail
