// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_CONCEPTS_HPP
#define BALLAST_COST_CONCEPTS_HPP

#include <ballast/core/units.hpp>

#include <concepts>

namespace ballast::inline v0 {

/// Computes what a sample costs. A sample is a number of tokens, or of the caller's own type.
///
/// The cost of a sample is the same in every process and build. It is never less than 0, and it is
/// `no_cost` where it does not fit. A lambda over the caller's samples is a cost model too.
template <class Model, class Sample = tokens>
concept cost_model = std::copyable<Model> && requires(Model const& model, Sample const& sample) {
  { model(sample) } -> std::same_as<cost_units>;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_CONCEPTS_HPP
