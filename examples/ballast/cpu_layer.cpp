// SPDX-License-Identifier: Apache-2.0
#include "cpu_layer.hpp"

#include <ballast/core/random.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cli {
namespace {

block::values random_values(std::size_t count, std::uint64_t seed)
{
  ballast::random_source random(seed);
  block::values made(count);
  for (double& value : made) { value = static_cast<double>(random.between(-1000, 1000)) / 1000; }
  return made;
}

}  // namespace

cpu_layer::cpu_layer(block::shape const& shape, std::size_t sequences, std::size_t length,
                     layer_part part)
    : shape_(shape),
      sequences_(sequences),
      length_(length),
      part_(part),
      weights_(block::random_parameters(shape, 1)),
      gradients_(shape),
      layer_(shape, weights_),
      x_(random_values(sequences * length * shape.width, 2)),
      y_(x_.size()),
      dx_(x_.size()),
      q_(random_values(sequences * length * shape.query_width(), 3)),
      k_(random_values(sequences * length * shape.kv_width(), 4)),
      v_(random_values(k_.size(), 5)),
      o_(random_values(q_.size(), 6))
{}

template <class Visit>
void cpu_layer::for_each_head(Visit const& visit) const
{
  std::uint32_t const queries_per_key = shape_.query_heads / shape_.kv_heads;
  for (std::size_t sequence = 0; sequence < sequences_; ++sequence) {
    auto const part = [&](std::size_t width, std::size_t head) {
      return
          [=, first_row = sequence * length_, dim = shape_.head_dim]<class T>(std::span<T> array) {
            return block::head_view<T>{array.subspan(first_row * width), width, head * dim};
          };
    };
    for (std::uint32_t head = 0; head < shape_.query_heads; ++head) {
      visit(part(shape_.query_width(), head), part(shape_.kv_width(), head / queries_per_key));
    }
  }
}

void cpu_layer::forward()
{
  using block::in;
  using block::out;
  if (part_ != layer_part::attention) {
    q_.assign(q_.size(), 0);
    k_.assign(k_.size(), 0);
    v_.assign(v_.size(), 0);
    layer_.enter(x_, q_, k_, v_);
  }
  if (part_ != layer_part::weights) {
    o_.assign(o_.size(), 0);
    for_each_head([&](auto const& query, auto const& key) {
      block::attention(query(in(q_)), key(in(k_)), key(in(v_)), length_, shape_.head_dim,
                       query(out(o_)));
    });
  }
  if (part_ != layer_part::attention) { layer_.leave(o_, y_); }
}

void cpu_layer::backward()
{
  using block::in;
  using block::out;
  block::values do_(o_.size());
  if (part_ != layer_part::attention) {
    layer_.leave_gradient(x_, do_, gradients_);
  } else {
    do_ = o_;
  }
  block::values dq(q_.size()), dk(k_.size()), dv(v_.size());
  if (part_ != layer_part::weights) {
    for_each_head([&](auto const& query, auto const& key) {
      block::attention_gradient(query(in(q_)), key(in(k_)), key(in(v_)), length_, shape_.head_dim,
                                query(in(do_)), query(out(dq)), key(out(dk)), key(out(dv)));
    });
  }
  if (part_ != layer_part::attention) { layer_.enter_gradient(dq, dk, dv, dx_, gradients_); }
}

std::size_t cpu_layer::state_bytes(block::shape const& shape)
{
  constexpr std::size_t copies = 4;
  return copies * sizeof(double) * block::parameters(shape).flat().size();
}

std::size_t cpu_layer::activation_bytes(block::shape const& shape)
{
  return block::block_weights::bytes_of_row(shape) +
         sizeof(double) * (shape.query_width() + 2 * shape.kv_width());
}

}  // namespace cli
