// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <functional>

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

namespace detail {

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

}  // namespace detail

/// A cost model for one of a sample's several lengths: `cost_of{vision_cost, &sample::patches}`.
///
/// The projection is a pointer to a member or a callable; kernels can use the pointer to a data
/// member, or a function object whose call operator is marked for the device.
///
/// Ensures     (1) model(projection(sample))
/// Complexity  that of the model and the projection.
template <class Model, class Projection>
struct cost_of {
  [[no_unique_address]] Model model;
  [[no_unique_address]] Projection projection;

#ifdef __CUDACC__
#pragma nv_exec_check_disable  // a projection for the host alone may be used on the host
#endif
  template <class Sample>
    requires cost_model<Model, std::decay_t<std::invoke_result_t<Projection const&, Sample const&>>>
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(Sample const& sample) const
  {
    if constexpr (std::is_member_object_pointer_v<Projection>) {
      return detail::price(model, sample.*projection);
    } else if constexpr (std::is_member_function_pointer_v<Projection>) {
      return detail::price(model, (sample.*projection)());
    } else {
      return detail::price(model, projection(sample));
    }
  }

  /// What of the cost is attention, where the model says so.
  template <class Sample>
    requires attention_cost_model<
        Model, std::decay_t<std::invoke_result_t<Projection const&, Sample const&>>>
  [[nodiscard]] constexpr cost_units attention_part(Sample const& sample) const
  {
    return model.attention_part(std::invoke(projection, sample));
  }

  friend bool operator==(cost_of const&, cost_of const&) = default;
};

template <class Model, class Projection>
cost_of(Model, Projection) -> cost_of<Model, Projection>;

namespace detail {

// The position makes bases distinct where a model occurs twice.
template <std::size_t Position, class Model>
struct sum_term {
  Model model;

  friend bool operator==(sum_term const&, sum_term const&) = default;
};

template <class Positions, class... Models>
struct sum_terms;

template <std::size_t... Positions, class... Models>
struct sum_terms<std::index_sequence<Positions...>, Models...> : sum_term<Positions, Models>... {
  sum_terms() = default;
  BALLAST_HOST_DEVICE explicit constexpr sum_terms(Models const&... models)
      : sum_term<Positions, Models>{models}...
  {}

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
  template <class Sample>
    requires(cost_model<Models, Sample> && ...)
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(Sample const& sample) const
  {
    cost_units sum = 0;
    ((sum = saturating_sum(sum, price(sum_term<Positions, Models>::model, sample))), ...);
    return sum;
  }

  template <class Sample>
    requires(attention_cost_model<Models, Sample> && ...)
  [[nodiscard]] constexpr cost_units attention_part(Sample const& sample) const
  {
    cost_units sum = 0;
    ((sum = saturating_sum(
          sum, static_cast<cost_units>(sum_term<Positions, Models>::model.attention_part(sample)))),
     ...);
    return sum;
  }

  friend bool operator==(sum_terms const&, sum_terms const&) = default;
};

}  // namespace detail

/// The cost of a sample that several modules work on, one after the other:
/// `sum_of{cost_of{vision_cost, &sample::patches}, cost_of{llm_cost, &sample::tokens}}`.
///
/// All models have one unit. Where the modules run on different GPUs they are balanced each on its
/// own instead, since their sum says nothing about either.
///
/// Ensures     (1) the sum of the models' costs, no_cost where it does not fit
///             (2) where every model says what of its cost is attention, so does the sum: the sum
///                 of these parts. Policies that pad attention pad each sample to the largest such
///                 sum, which is what modules do that read one length; modules that read several
///                 lengths, and pad each to its own longest, take longer than that
/// Complexity  that of the models.
template <class... Models>
  requires(sizeof...(Models) >= 1)
struct sum_of : detail::sum_terms<std::index_sequence_for<Models...>, Models...> {
  using detail::sum_terms<std::index_sequence_for<Models...>, Models...>::sum_terms;

  friend bool operator==(sum_of const&, sum_of const&) = default;
};

template <class... Models>
sum_of(Models...) -> sum_of<Models...>;

}  // namespace ballast::inline v0
