// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_LAYOUT_TIMES_HPP
#define BALLAST_PARALLELISM_LAYOUT_TIMES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/parallelism/detail/stage_times.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// How long a sample takes in the modules of a layout: the products with weights at the throughput
/// of a mean microbatch, in which it is packed, and attention at that of its own length.
///
/// Units       picoseconds of one GPU of a group; a third is the forward.
/// Expects     the problem has D modules, and price_layout accepts the layout.
template <std::size_t D>
class layout_times {
 public:
  layout_times(layout_problem const& problem, model_layout const& layout)
  {
    for (std::size_t module = 0; module < D; ++module) {
      module_layout const own = layout.modules[module];
      module_profile const& profile = problem.modules[module];
      profiled_degree const* const degree = find_degree(profile, degree_of(own));
      uint128 all = 0;
      for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
        all += static_cast<std::uint64_t>(problem.sizes[sample * D + module]);
      }
      uint128 const mean = all * problem.global_batch / problem.samples() /
                           (static_cast<uint128>(layout.microbatches) * own.dp);
      modules_[module] = {
          degree->linear, degree->attention, profile.flops, own.group(),
          static_cast<tokens>(std::min<uint128>(mean, static_cast<uint128>(longest_sample)))};
    }
  }

  [[nodiscard]] std::array<stage_time, D> operator()(std::span<tokens const, D> sizes) const
  {
    std::array<stage_time, D> times{};
    for (std::size_t module = 0; module < D; ++module) {
      auto const& [linear, attention, flops, gpus, mean] = modules_[module];
      detail::batch_work const work(flops, sizes[module], 1, gpus);
      cost_units const time = saturating_sum(linear.picoseconds(work.linear, mean),
                                             attention.picoseconds(work.attention, sizes[module]));
      times[module] = {time / 3, time - time / 3};
    }
    return times;
  }

 private:
  struct module_speed {
    interpolated_throughput linear;
    interpolated_throughput attention;
    flop_polynomial flops;
    std::uint32_t gpus = 1;  // of a group
    tokens mean_microbatch = 0;
  };

  std::array<module_speed, D> modules_{};
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_LAYOUT_TIMES_HPP
