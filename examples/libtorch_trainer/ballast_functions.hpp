// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job_communicator.hpp"

#include <ballast/ballast.hpp>
#include <ballast/partition.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>

// The four exchanges of a balanced step as functions that LibTorch can differentiate. Each is
// linear, so that its backward is its adjoint: the exchange in the other direction. Activations
// are float64.

namespace trainer {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// LibTorch reports failures by exceptions, and a backward pass has no other means.
inline void require(ballast::result<void> const& done)
{
  if (!done) { throw std::runtime_error(done.error().message); }
}
template <class T>
[[nodiscard]] T require(ballast::result<T> made)
{
  if (!made) { throw std::runtime_error(made.error().message); }
  return *std::move(made);
}

/// What this rank exchanges in a step, and with whom. Graphs refer to it until their backward pass
/// is done; after that the next step may be planned in its place.
struct exchange_plan : torch::CustomClassHolder {
  exchange_plan(job_communicator all_ranks, ballast::bag_layout bags, ballast::quadratic_cost cost,
                ballast::step_options<> const& options)
      : world(std::move(all_ranks)),
        step(world, std::move(bags), cost, ballast::greedy_knapsack{}, options)
  {}

  /// This rank's share of an array's heads in attention.
  [[nodiscard]] ballast::chunk share(std::int64_t all_heads) const
  {
    return step.heads().share(step.gpu(), static_cast<std::uint32_t>(all_heads));
  }

  /// Rows of this rank before the route to the bags, and after it.
  [[nodiscard]] ballast::tokens rows_read() const { return step.to_compute().rows_before; }
  [[nodiscard]] ballast::tokens rows_computed() const { return step.to_compute().rows_after; }

  job_communicator world;
  ballast::step_balancer<ballast::quadratic_cost, ballast::greedy_knapsack, job_communicator> step;
};
using exchange_plan_pointer = c10::intrusive_ptr<exchange_plan>;

namespace detail {

inline void save(AutogradContext* context, exchange_plan_pointer const& plan)
{
  context->saved_data["plan"] = c10::IValue::make_capsule(plan);
}

[[nodiscard]] inline exchange_plan_pointer saved(AutogradContext* context)
{
  return c10::static_intrusive_pointer_cast<exchange_plan>(context->saved_data["plan"].toCapsule());
}

/// A tensor, and the one of another shape that an exchange makes of it.
struct exchanged {
  exchanged(Tensor const& tensor, at::IntArrayRef shape)
      : from(tensor.contiguous()), to(torch::empty(shape, tensor.options()))
  {}

  /// As an array with a row per token.
  template <class T>
  [[nodiscard]] ballast::row_array rows() const
  {
    auto const width = static_cast<std::size_t>(from.dim() == 1 ? 1 : from.size(1));
    return ballast::rows_of(std::span<T const>(elements<T>(from)), elements<T>(to), width);
  }

  /// As an array with heads, of which there are `all` in all.
  [[nodiscard]] ballast::head_array heads(std::int64_t all) const
  {
    return ballast::heads_of(std::span<double const>(elements<double>(from)), elements<double>(to),
                             static_cast<std::uint32_t>(all),
                             static_cast<std::size_t>(from.size(2)));
  }

  Tensor from;
  Tensor to;

 private:
  template <class T>
  [[nodiscard]] static std::span<T> elements(Tensor const& tensor)
  {
    return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
  }
};

/// [own rows][heads][dim], to become [rows of the bag][own heads][dim].
[[nodiscard]] inline exchanged to_own_heads(exchange_plan const& plan, Tensor const& tensor)
{
  return {tensor, {plan.step.heads().rows(), plan.share(tensor.size(1)).count, tensor.size(2)}};
}

/// [rows of the bag][own heads][dim], to become [own rows][heads][dim].
[[nodiscard]] inline exchanged to_all_heads(exchange_plan const& plan, Tensor const& tensor,
                                            std::int64_t heads)
{
  return {tensor, {plan.rows_computed(), heads, tensor.size(2)}};
}

[[nodiscard]] inline Tensor reverse_routed(exchange_plan& plan, Tensor const& computed)
{
  exchanged const x(computed, {plan.rows_read(), computed.size(1)});
  require(plan.step.reverse_route(x.rows<double>()));
  return x.to;
}

}  // namespace detail

/// Activations [rows][width] and positions [rows] from where their tokens were read to where they
/// are computed: arrays of two types in one exchange.
struct route_to_bags : Function<route_to_bags> {
  static variable_list forward(AutogradContext* context, exchange_plan_pointer const& plan,
                               Tensor const& activations, Tensor const& positions)
  {
    detail::save(context, plan);
    detail::exchanged const x(activations, {plan->rows_computed(), activations.size(1)});
    detail::exchanged const position(positions, {plan->rows_computed()});
    require(plan->step.route(x.rows<double>(), position.rows<std::int32_t>()));
    return {x.to, position.to};
  }

  static variable_list backward(AutogradContext* context, variable_list const& gradients)
  {
    return {Tensor(), detail::reverse_routed(*detail::saved(context), gradients[0]), Tensor()};
  }
};

/// Activations [rows][width] back to where their tokens were read, in the order they were read in.
struct route_back : Function<route_back> {
  static Tensor forward(AutogradContext* context, exchange_plan_pointer const& plan,
                        Tensor const& computed)
  {
    detail::save(context, plan);
    return detail::reverse_routed(*plan, computed);
  }

  static variable_list backward(AutogradContext* context, variable_list const& gradients)
  {
    auto const plan = detail::saved(context);
    detail::exchanged const x(gradients[0], {plan->rows_computed(), gradients[0].size(1)});
    require(plan->step.route(x.rows<double>()));
    return {Tensor(), x.to};
  }
};

/// Queries, keys and values [rows][heads][dim] of this rank's tokens to those of all tokens of its
/// bag, but of its own heads only. The gradients of a key-value head that several ranks use add up.
struct tokens_to_heads : Function<tokens_to_heads> {
  static variable_list forward(AutogradContext* context, exchange_plan_pointer const& plan,
                               Tensor const& queries, Tensor const& keys, Tensor const& values)
  {
    detail::save(context, plan);
    context->saved_data["kv_heads"] = keys.size(1);
    auto const q = detail::to_own_heads(*plan, queries);
    auto const k = detail::to_own_heads(*plan, keys);
    auto const v = detail::to_own_heads(*plan, values);
    require(plan->step.to_heads(q.heads(queries.size(1)), k.heads(keys.size(1)),
                                v.heads(values.size(1))));
    return {q.to, k.to, v.to};
  }

  static variable_list backward(AutogradContext* context, variable_list const& gradients)
  {
    auto const plan = detail::saved(context);
    std::int64_t const heads = plan->step.heads().query_heads();
    std::int64_t const kv_heads = context->saved_data["kv_heads"].toInt();
    auto const q = detail::to_all_heads(*plan, gradients[0], heads);
    auto const k = detail::to_all_heads(*plan, gradients[1], kv_heads);
    auto const v = detail::to_all_heads(*plan, gradients[2], kv_heads);
    require(plan->step.to_tokens(q.heads(heads), k.heads(kv_heads), v.heads(kv_heads)));
    return {Tensor(), q.to, k.to, v.to};
  }
};

/// What attention made of this rank's heads, to all heads of this rank's tokens.
struct heads_to_tokens : Function<heads_to_tokens> {
  static Tensor forward(AutogradContext* context, exchange_plan_pointer const& plan,
                        Tensor const& attended)
  {
    detail::save(context, plan);
    std::int64_t const heads = plan->step.heads().query_heads();
    auto const x = detail::to_all_heads(*plan, attended, heads);
    require(plan->step.to_tokens(x.heads(heads)));
    return x.to;
  }

  static variable_list backward(AutogradContext* context, variable_list const& gradients)
  {
    auto const plan = detail::saved(context);
    auto const x = detail::to_own_heads(*plan, gradients[0]);
    require(plan->step.to_heads(x.heads(plan->step.heads().query_heads())));
    return {Tensor(), x.to};
  }
};

}  // namespace trainer
