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

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_SIMULATED_LAYOUT_HPP
