// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_LENGTH_DISTRIBUTION_HPP
#define BALLAST_WORKLOAD_LENGTH_DISTRIBUTION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>

#include <concepts>
#include <cstddef>
#include <vector>

namespace ballast::inline v0 {

/// Draws sample lengths in [0, longest_sample], the same ones from equal random sources on every
/// machine.
template <class D>
concept length_distribution = std::copyable<D> && requires(D const& draw, random_source& random) {
  { draw(random) } -> std::same_as<tokens>;
};

/// `samples` lengths, drawn one after the other.
template <length_distribution Distribution>
[[nodiscard]] std::vector<tokens> draw_lengths(Distribution const& draw, std::size_t samples,
                                               random_source& random)
{
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) { length = draw(random); }
  return lengths;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_LENGTH_DISTRIBUTION_HPP
