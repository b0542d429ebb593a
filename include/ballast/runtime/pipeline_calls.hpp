// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PIPELINE_CALLS_HPP
#define BALLAST_RUNTIME_PIPELINE_CALLS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

namespace detail {

/// The bytes of one link as elements.
template <class T, class Byte>
[[nodiscard]] auto rows_as(std::span<std::span<Byte> const> arrays, std::size_t link)
{
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);
  using element = std::conditional_t<std::is_const_v<Byte>, T const, T>;
  BALLAST_EXPECTS(link < arrays.size(), "link ", link, " of a stage of ", arrays.size());
  std::span<Byte> const bytes = arrays[link];
  BALLAST_EXPECTS(bytes.size() % sizeof(T) == 0, "link ", link, " has ",
                  counted(bytes.size(), "byte"), ", which are no whole elements of ", sizeof(T));
  return std::span<element>(reinterpret_cast<element*>(bytes.data()), bytes.size() / sizeof(T));
}

}  // namespace detail

/// What a stage is given to compute forward: the rows that have come over the links into it, and
/// room for the rows that leave over the links out of it, each in the order of
/// stage_graph::links_into and links_out_of. A link has the rows of this replica's samples of the
/// microbatch, in increasing order.
///
/// Rows are aligned to 16 bytes. Those that leave have unspecified content. Those that have come
/// stay where they are until the backward has returned, so a stage need not copy them.
struct forward_call {
  microbatch_id microbatch{};
  stage_id stage{};
  std::size_t chunk = 0;     ///< the stage's place among those of its rank
  bool for_backward = true;  ///< false where no backward will follow
  std::span<std::span<std::byte const> const> inputs;
  std::span<std::span<std::byte> const> outputs;

  template <class T>
  [[nodiscard]] std::span<T const> input(std::size_t link = 0) const
  {
    return detail::rows_as<T>(inputs, link);
  }
  template <class T>
  [[nodiscard]] std::span<T> output(std::size_t link = 0) const
  {
    return detail::rows_as<T>(outputs, link);
  }
};

/// What a stage is given to compute backward: its inputs again, the gradients of its outputs, and
/// room for those of its inputs, which is empty where nothing upstream is trained.
struct backward_call {
  microbatch_id microbatch{};
  stage_id stage{};
  std::size_t chunk = 0;
  std::span<std::span<std::byte const> const> inputs;
  std::span<std::span<std::byte const> const> output_gradients;
  std::span<std::span<std::byte> const> input_gradients;

  template <class T>
  [[nodiscard]] std::span<T const> input(std::size_t link = 0) const
  {
    return detail::rows_as<T>(inputs, link);
  }
  template <class T>
  [[nodiscard]] std::span<T const> output_gradient(std::size_t link = 0) const
  {
    return detail::rows_as<T>(output_gradients, link);
  }
  template <class T>
  [[nodiscard]] std::span<T> input_gradient(std::size_t link = 0) const
  {
    return detail::rows_as<T>(input_gradients, link);
  }
};

/// What a pipeline_runner computes on a rank. forward returns nothing, or the microbatch's loss in
/// a stage that has one.
template <class S>
concept forward_stage = requires(S& stage, forward_call const& call) {
  requires std::is_void_v<decltype(stage.forward(call))> ||
               std::convertible_to<decltype(stage.forward(call)), double>;
};

/// A stage whose backward is in two parts: the gradients of its inputs, which leave at once, and
/// those of its weights.
template <class S>
concept split_backward_stage = requires(S& stage, backward_call const& call) {
  stage.backward_inputs(call);
  stage.backward_weights(call);
};

/// A stage that can be trained.
template <class S>
concept trained_stage =
    forward_stage<S> && (split_backward_stage<S> ||
                         requires(S& stage, backward_call const& call) { stage.backward(call); });

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PIPELINE_CALLS_HPP
