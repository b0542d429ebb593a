// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_SIMULATED_LAYOUT_HPP
#define BALLAST_PARALLELISM_SIMULATED_LAYOUT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/model_layout.hpp>

namespace ballast::inline v0 {

/// A layout and what its steps take in the simulator.
struct simulated_layout {
  model_layout layout;
  time_units simulated = 0;

  friend bool operator==(simulated_layout const&, simulated_layout const&) = default;
};

namespace detail {

/// The order of simulated layouts: the shorter step first, then the lower price, then the smaller
/// numbers.
[[nodiscard]] inline bool simulates_before(simulated_layout const& a, simulated_layout const& b)
{
  return precedes(a.simulated, b.simulated, a.layout.step, b.layout.step, a.layout.modules,
                  b.layout.modules, a.layout.microbatches, b.layout.microbatches,
                  a.layout.virtual_stages, b.layout.virtual_stages);
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_SIMULATED_LAYOUT_HPP
