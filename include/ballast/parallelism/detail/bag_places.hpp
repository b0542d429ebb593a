// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_BAG_PLACES_HPP
#define BALLAST_PARALLELISM_DETAIL_BAG_PLACES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/topology/cluster.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// Which mixes fit inside the nodes of a job, with every bag aligned to its size.
///
/// Bags of powers of two fit, laid largest first, exactly if no size and those above it take more
/// places of that size than the nodes have: floor(GPUs of node / size) each.
class bag_places {
 public:
  /// Expects     largest is 1, 2, 4 or 8; at most 2^24 GPUs.
  bag_places(node_sizes const& nodes, std::uint32_t largest)
  {
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      std::size_t const gpus = nodes[to_id<node_id>(node)];
      for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
        std::uint32_t const of_size = bag_mix::gpus_of(size);
        if (of_size <= largest) { places_[size] += static_cast<std::uint32_t>(gpus / of_size); }
      }
    }
  }

  [[nodiscard]] std::uint32_t gpus() const noexcept { return places_[0]; }

  /// The most bags of a size beside the larger ones that the mix has.
  [[nodiscard]] std::uint32_t left(bag_mix const& mix, std::size_t size) const noexcept
  {
    std::uint32_t taken = 0;
    for (std::size_t other = size; other < bag_mix::sizes; ++other) {
      taken += mix.bags[other] << (other - size);
    }
    return places_[size] - std::min(taken, places_[size]);
  }

  /// The mix with bags of one GPU for what its larger ones leave; false where these do not fit.
  [[nodiscard]] bool complete(bag_mix& mix) const noexcept
  {
    mix.bags[0] = 0;
    for (std::size_t size = bag_mix::sizes; size-- > 0;) {
      std::uint64_t taken = 0;
      for (std::size_t other = size; other < bag_mix::sizes; ++other) {
        taken += std::uint64_t{mix.bags[other]} << (other - size);
      }
      if (taken > places_[size]) { return false; }
    }
    mix.bags[0] = left(mix, 0);
    return true;
  }

  /// As many bags of this size as fit, then of the next smaller, and so on: all of one size where
  /// it divides every node.
  [[nodiscard]] bag_mix most_of(std::size_t size) const noexcept
  {
    bag_mix mix;
    for (std::size_t next = size + 1; next-- > 0;) { mix.bags[next] = left(mix, next); }
    return mix;
  }

  /// Calls visit(mix) for every mix whose bags of 2 GPUs and more take multiples of `step` GPUs in
  /// every size, or as many of a size as fit. The step is a power of two; 1 visits all mixes.
  template <class Visit>
  void for_each(std::uint32_t step, Visit&& visit) const
  {
    visit_size(bag_mix::sizes - 1, step, bag_mix{}, visit);
  }

  /// How many mixes there are, but at most `most`.
  [[nodiscard]] std::uint64_t count(std::uint64_t most) const
  {
    // With l bags of 2 at most, l + 1 mixes have the same larger bags.
    std::uint64_t mixes = 0;
    bag_mix mix;
    for (mix.bags[3] = 0; mix.bags[3] <= places_[3] && mixes < most; ++mix.bags[3]) {
      mix.bags[2] = 0;
      for (std::uint32_t const most_fours = left(mix, 2); mix.bags[2] <= most_fours && mixes < most;
           ++mix.bags[2]) {
        mixes += left(mix, 1) + 1;
      }
    }
    return std::min(mixes, most);
  }

 private:
  template <class Visit>
  void visit_size(std::size_t size, std::uint32_t step, bag_mix mix, Visit& visit) const
  {
    if (size == 0) {
      mix.bags[0] = left(mix, 0);
      visit(mix);
      return;
    }
    std::uint32_t const most = left(mix, size);
    std::uint32_t const stride = std::max<std::uint32_t>(step >> size, 1);
    for (std::uint32_t bags = 0; bags < most; bags += stride) {
      mix.bags[size] = bags;
      visit_size(size - 1, step, mix, visit);
    }
    mix.bags[size] = most;
    visit_size(size - 1, step, mix, visit);
  }

  std::array<std::uint32_t, bag_mix::sizes> places_{};
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_BAG_PLACES_HPP
