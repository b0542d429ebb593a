// SPDX-License-Identifier: Apache-2.0
#include "cpu_layer.hpp"

#include <ballast/core.hpp>

namespace cli {
namespace {

block::values random_values(std::size_t count, std::uint64_t seed)
{
  ballast::random_source random(seed);
  block::values made(count);
  for (double& value : made) { value = static_cast<double>(random.between(-1000, 1000)) / 1000; }
  return made;
}

/// Neighbouring query heads share a key head.
std::vector<std::size_t> keys_of(block::shape const& shape)
{
  std::vector<std::size_t> keys(shape.query_heads);
  for (std::size_t head = 0; head < keys.size(); ++head) {
    keys[head] = head * shape.kv_heads / shape.query_heads;
  }
  return keys;
}

}  // namespace

cpu_layer::cpu_layer(block::shape const& shape, std::size_t sequences, std::size_t length,
                     layer_part part)
    : part_(part),
      lengths_(sequences, static_cast<ballast::tokens>(length)),
      weights_(block::random_parameters(shape, 1)),
      gradients_(shape),
      layer_(shape, weights_),
      attention_(shape.head_dim, shape.kv_heads, keys_of(shape)),
      x_(random_values(sequences * length * shape.width, 2)),
      y_(x_.size()),
      dx_(x_.size()),
      q_(random_values(sequences * length * shape.query_width(), 3)),
      k_(random_values(sequences * length * shape.kv_width(), 4)),
      v_(random_values(k_.size(), 5)),
      o_(random_values(q_.size(), 6))
{}

void cpu_layer::forward()
{
  if (part_ != layer_part::attention) {
    q_.assign(q_.size(), 0);
    k_.assign(k_.size(), 0);
    v_.assign(v_.size(), 0);
    layer_.enter(x_, q_, k_, v_);
  }
  if (part_ != layer_part::weights) {
    o_.assign(o_.size(), 0);
    attention_.forward(lengths_, q_, k_, v_, o_);
  }
  if (part_ != layer_part::attention) { layer_.leave(o_, y_); }
}

void cpu_layer::backward()
{
  block::values do_(o_.size());
  if (part_ != layer_part::attention) {
    layer_.leave_gradient(x_, do_, gradients_);
  } else {
    do_ = o_;
  }
  block::values dq(q_.size()), dk(k_.size()), dv(v_.size());
  if (part_ != layer_part::weights) { attention_.gradient(lengths_, q_, k_, v_, do_, dq, dk, dv); }
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
