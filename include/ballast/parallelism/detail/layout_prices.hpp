// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LAYOUT_PRICES_HPP
#define BALLAST_PARALLELISM_DETAIL_LAYOUT_PRICES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/detail/joined_unit.hpp>
#include <ballast/parallelism/detail/stage_memory.hpp>
#include <ballast/parallelism/detail/stage_times.hpp>
#include <ballast/parallelism/dflop_makespan.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// A module's place in a layout: which of its measured degrees it has, and its stages and replicas.
struct chosen_layout {
  std::size_t degree = 0;
  module_layout layout{};
};

/// Prices layouts of one problem, and remembers what several of them share.
class layout_prices {
 public:
  explicit layout_prices(layout_problem const& problem)
      : times(problem), memory(problem), rows_(problem.modules.size())
  {}

  /// The step's time, as the mean over the samples that stand for the data, rounded up.
  [[nodiscard]] time_units step(std::vector<chosen_layout> const& chosen,
                                std::uint32_t microbatches)
  {
    times.limit_memory();
    std::uint64_t stages = 0;
    for (std::size_t module = 0; module < chosen.size(); ++module) {
      module_layout const& layout = chosen[module].layout;
      stages += layout.pp;
      rows_[module] =
          times.of(module, chosen[module].degree, std::uint64_t{microbatches} * layout.dp).each;
    }
    uint128 total = 0;
    for (std::size_t sample = 0; sample < times.samples(); ++sample) {
      cost_units slowest = 0;
      for (std::size_t module = 0; module < chosen.size(); ++module) {
        cost_units const whole = rows_[module][sample];
        if (whole == no_cost) { return no_cost; }
        std::uint32_t const pp = chosen[module].layout.pp;
        slowest = std::max(slowest, whole / pp + (whole % pp != 0 ? 1 : 0));
      }
      time_units const step = dflop_makespan(microbatches, stages, slowest);
      if (step == no_cost) { return no_cost; }
      total += static_cast<uint128>(step);
    }
    return static_cast<time_units>(divided_up(total, times.samples()));
  }

  /// What the fullest GPU of all holds.
  [[nodiscard]] std::uint64_t bytes(std::vector<chosen_layout> const& chosen,
                                    std::uint32_t microbatches)
  {
    std::uint64_t most = 0;
    std::uint64_t behind = 0;
    for (std::size_t module = chosen.size(); module-- > 0;) {
      auto const& [degree, layout] = chosen[module];
      joined_unit const unit{.stages = layout.pp, .microbatches = microbatches};
      std::uint64_t const held = unit.kept(behind);
      behind = unit.depth(behind);
      most = std::max(most, memory.bytes(module, degree, layout.pp, held,
                                         std::uint64_t{microbatches} * layout.dp));
    }
    return most;
  }

  stage_times times;
  stage_memory memory;

 private:
  std::vector<std::span<cost_units const>> rows_;  // of each module
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LAYOUT_PRICES_HPP
