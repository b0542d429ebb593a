// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_CONCEPTS_HPP
#define BALLAST_COST_CONCEPTS_HPP

#include <ballast/core/integer_projection.hpp>
#include <ballast/core/quantities.hpp>

#include <concepts>

namespace ballast::inline v0 {

/// Computes what a sample costs: an integer. A sample is a number of tokens, or of the caller's own
/// type. This is what `partition` asks of its costs, `sum_of` of its models, and kernels of theirs.
///
/// The cost of a sample is the same in every process and build. It is never less than 0, and it is
/// `no_cost` where it does not fit. A lambda over the caller's samples is a cost model too.
template <class Model, class Sample = tokens>
concept cost_model = integer_function<Model, Sample const&>;

/// A cost model that says what part of a sample's cost is attention, for encoders that pack the
/// rest of their work but pad attention to the longest sample of a batch. The part is from 0 to the
/// cost.
template <class Model, class Sample = tokens>
concept attention_cost_model =
    cost_model<Model, Sample> && requires(Model const& model, Sample const& sample) {
      { model.attention_part(sample) } -> std::integral;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_CONCEPTS_HPP
