// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_CONCEPTS_HPP
#define BALLAST_COST_CONCEPTS_HPP

#include <ballast/core/units.hpp>

#include <concepts>

namespace ballast::inline v0 {

/// What prices a sample: a number of tokens, or the caller's own type.
///
/// It answers the same for the same sample in every process and build, never less than 0, and
/// `no_cost` where the cost does not fit. The models of this library are regular as well;
/// that is not asked for, so that a lambda over the caller's samples is a cost model too.
template <class Model, class Sample = tokens>
concept cost_model = std::copyable<Model> && requires(Model const& model, Sample const& sample) {
  { model(sample) } -> std::same_as<cost_units>;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_CONCEPTS_HPP
