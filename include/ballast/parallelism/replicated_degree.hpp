// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_REPLICATED_DEGREE_HPP
#define BALLAST_PARALLELISM_REPLICATED_DEGREE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// A degree of so many GPUs that share the items of a sample, such as its images, instead of
/// products: each has a copy of the module, which fits one GPU, and there is nothing to all-reduce.
///
/// Expects     gpus and items are at least 1, and `one` is a degree of one GPU.
/// Ensures     (1) times and activations are those of the GPU with most items, rounded up; weights
///             and gradients those of one GPU, and copies share the optimiser
/// Source      Megatron-LM as Z. Zhang et al., "DistTrain", SIGCOMM 2025, section 7.1, run it:
///             encoder and generator are replicated inside the LLM's tensor-parallel groups.
[[nodiscard]] constexpr orchestrated_degree replicated_degree(orchestrated_degree const& one,
                                                              std::uint32_t gpus,
                                                              std::uint32_t items)
{
  BALLAST_EXPECTS(gpus >= 1 && items >= 1 && degree_of(one).gpus() == 1, "a degree of ",
                  degree_of(one).gpus(), " GPUs was replicated on ", detail::counted(gpus, "GPU"),
                  " for ", detail::counted(items, "item"));
  std::uint64_t const most = (std::uint64_t{items} + gpus - 1) / gpus;
  auto const share = [&](std::uint64_t whole) {
    return static_cast<std::uint64_t>(
        detail::divided_up(static_cast<uint128>(whole) * most, items));
  };
  auto const time = [&](time_units whole) {
    return static_cast<time_units>(share(static_cast<std::uint64_t>(whole)));
  };
  orchestrated_degree of = one;
  of.tp = gpus;
  of.copies = gpus;
  of.forward = time(one.forward);
  of.backward = time(one.backward);
  of.backward_of_input = time(one.backward_of_input);
  of.optimizer_bytes = (one.optimizer_bytes + gpus - 1) / gpus;
  of.activation_bytes = share(one.activation_bytes);
  return of;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_REPLICATED_DEGREE_HPP
