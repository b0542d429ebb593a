// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/sharded_weights.hpp>

/// What phases take where the weights of their models are sharded over all GPUs (FSDP).
namespace sharded_steps {

/// Of a model in bf16 with Adam, 2, 2 and 12 bytes of a parameter, on GPUs of a job that each
/// receive 50 GB/s. A parameter is multiplied once for each token: two FLOP.
inline ballast::sharded_weights weights_of(ballast::transformer_shape const& shape,
                                           std::uint32_t gpus)
{
  std::uint64_t const parameters = ballast::forward_flops(shape).value().linear / 2;
  return {.layers = shape.layers,
          .ranks = gpus,
          .weight_bytes = 2 * parameters,
          .gradient_bytes = 2 * parameters,
          .optimizer_bytes = 12 * parameters,
          .bytes_per_second = 50'000'000'000};
}

/// What a phase takes, forward and backward, that computes for so long, in picoseconds, where this
/// is divided into equal microbatches.
inline double trained(ballast::sharded_weights const& weights, double computed,
                      std::uint32_t microbatches)
{
  auto const forward = static_cast<ballast::time_units>(computed / microbatches / 3);
  return microbatches * static_cast<double>(weights.microbatch(forward, 2 * forward));
}

}  // namespace sharded_steps
