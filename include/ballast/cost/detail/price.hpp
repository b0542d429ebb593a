// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_DETAIL_PRICE_HPP
#define BALLAST_COST_DETAIL_PRICE_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cost/concepts.hpp>

#include <type_traits>

namespace ballast::inline v0::detail {

/// What a model says that a sample costs. std::invoke, which does the same, is for the host alone.
#ifdef __CUDACC__
#pragma nv_exec_check_disable  // a model for the host alone may be used on the host
#endif
template <class Sample, cost_model<Sample> Model>
[[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units price(Model const& model,
                                                             Sample const& sample)
{
  if constexpr (std::is_member_object_pointer_v<Model>) {
    return static_cast<cost_units>(sample.*model);
  } else if constexpr (std::is_member_function_pointer_v<Model>) {
    return static_cast<cost_units>((sample.*model)());
  } else {
    return static_cast<cost_units>(model(sample));
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COST_DETAIL_PRICE_HPP
