// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_CONCEPTS_HPP
#define BALLAST_COST_CONCEPTS_HPP

#include <ballast/core/integer_projection.hpp>
#include <ballast/core/units.hpp>

namespace ballast::inline v0 {

/// Computes what a sample costs: an integer. A sample is a number of tokens, or of the caller's own
/// type. This is what `partition` asks of its costs, `sum_of` of its models, and kernels of theirs.
///
/// The cost of a sample is the same in every process and build. It is never less than 0, and it is
/// `no_cost` where it does not fit. A lambda over the caller's samples is a cost model too.
template <class Model, class Sample = tokens>
concept cost_model = integer_function<Model, Sample const&>;

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_CONCEPTS_HPP
