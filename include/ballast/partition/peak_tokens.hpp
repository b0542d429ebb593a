// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PEAK_TOKENS_HPP
#define BALLAST_PARTITION_PEAK_TOKENS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

/// Tokens that the GPU with most holds in a phase, padding included: what its activations, and so
/// its memory, grow with.
///
/// With `plan.owner` it is that of a plan; with the bags that samples were read on, that of a job
/// that does not balance.
///
/// Shapes      lengths[n], owner[n].
/// Expects     owner.size() == lengths.size(); lengths are from 0 to longest_sample, owners are
///             bags of the layout.
/// Ensures     (1) the largest, over bags, of the sum of the lengths of its samples, or of a padded
///                 batch their number times the longest, each divided by the GPUs of the bag and
///                 rounded up. Padded attention needs no memory that grows with its padding, since
///                 scores are not stored: its batches count as packed ones
/// Complexity  O(n + m); 16 m bytes of scratch.
[[nodiscard]] inline tokens peak_tokens(std::span<tokens const> lengths,
                                        std::span<bag_id const> owner, bag_layout const& bags,
                                        batching batches, workspace& memory)
{
  BALLAST_EXPECTS(owner.size() == lengths.size(), "there are owners of ",
                  detail::counted(owner.size(), "sample"), " and lengths of ", lengths.size());
  auto scratch = memory.open();
  std::span<tokens> const held = scratch.take<tokens>(bags.size());
  std::span<tokens> const longest = scratch.take<tokens>(bags.size());
  std::fill(held.begin(), held.end(), 0);
  std::fill(longest.begin(), longest.end(), 0);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    std::size_t const bag = to_index(owner[sample]);
    BALLAST_EXPECTS(bag < bags.size(), "sample ", sample, " is in bag ", bag, " of ", bags.size());
    held[bag] += batches == batching::padded ? 1 : lengths[sample];
    longest[bag] = std::max(longest[bag], lengths[sample]);
  }
  tokens peak = 0;
  for (std::size_t bag = 0; bag < held.size(); ++bag) {
    tokens const all = batches == batching::padded ? held[bag] * longest[bag] : held[bag];
    tokens const gpus = bags.sizes()[bag];
    peak = std::max(peak, (all + gpus - 1) / gpus);
  }
  return peak;
}

/// The largest number of samples of a mini-batch for which a condition holds, such as that the peak
/// tokens of every phase fit the memory: doubles until it does not hold, then bisects.
///
/// Expects     fits(samples) says whether so many fit; 0 samples fit.
/// Ensures     (1) fits(returned), and returned == most or !fits(returned + 1)
///             (2) no larger number fits, where a number that does not fit means that no larger one
///                 does. With a balancer that can fail by little: one sample more may make a better
///                 plan
/// Complexity  O(log most) calls.
template <std::predicate<std::size_t> Fits>
[[nodiscard]] std::size_t largest_mini_batch(std::size_t most, Fits const& fits)
{
  std::size_t low = 0;
  std::size_t high = std::min<std::size_t>(most, 1);
  while (low < high && fits(high)) {
    low = high;
    high = high > most / 2 ? most : 2 * high;
  }
  while (low + 1 < high) {
    std::size_t const middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PEAK_TOKENS_HPP
