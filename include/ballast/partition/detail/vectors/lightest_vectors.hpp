// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_LIGHTEST_VECTORS_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_LIGHTEST_VECTORS_HPP

#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// Bins by their loads in D dimensions: in which of them does a sample lead to the least maximum?
///
/// A tournament tree whose nodes know the least load below them in each dimension. These come from
/// different bins, so a node only gives a lower bound; the search leaves out subtrees whose bound
/// is no better than a bin already seen.
///
/// Ensures     (1) of bins that are equally good the lowest-numbered
/// Complexity  lightest: O(m^(1 - 1/D)) for loads spread evenly, O(m) at worst; add: O(D log m);
///             16 D bytes of scratch per bin, up to twice that.
template <std::size_t D>
class lightest_vectors {
 public:
  lightest_vectors(std::span<cost_vector<D> const> loads, workspace::frame& scratch)
      : leaves_(std::bit_ceil(loads.size())), least_(scratch.take<node>(2 * leaves_))
  {
    node everything;  // what the unused leaves carry, and more than any bin does
    everything.fill(std::numeric_limits<std::int64_t>::max());
    std::fill(least_.begin(), least_.end(), everything);
    for (std::size_t bin = 0; bin < loads.size(); ++bin) {
      for (std::size_t d = 0; d < D; ++d) {
        least_[leaves_ + bin][d] = static_cast<std::uint64_t>(loads[bin][d]);
      }
    }
    for (std::size_t at = leaves_; at-- > 1;) { least_[at] = lesser(2 * at); }
  }

  /// The bin whose largest load would be least with this sample added.
  [[nodiscard]] std::size_t lightest(cost_vector<D> const& cost) const noexcept
  {
    struct subtree {
      std::uint64_t bound;
      std::size_t node;
      std::size_t first_leaf;
    };
    std::array<subtree, 64> open;  // one sibling per level, so never full
    std::size_t count = 0;
    open[count++] = {0, 1, leaves_};
    subtree best{std::numeric_limits<std::uint64_t>::max(), 0, 2 * leaves_};
    while (count > 0) {
      subtree const at = open[--count];
      if (at.bound > best.bound || (at.bound == best.bound && at.first_leaf > best.first_leaf)) {
        continue;
      }
      if (at.node >= leaves_) {
        best = at;
        continue;
      }
      std::size_t const half = leaves_ >> std::bit_width(at.node);
      std::size_t const child = 2 * at.node;
      subtree const left{maximum(child, cost), child, at.first_leaf};
      subtree const right{maximum(child + 1, cost), child + 1, at.first_leaf + half};
      bool const left_first = left.bound <= right.bound;
      open[count++] = left_first ? right : left;
      open[count++] = left_first ? left : right;
    }
    return best.node - leaves_;
  }

  /// Adds a sample to a bin.
  void add(std::size_t bin, cost_vector<D> const& cost) noexcept
  {
    std::size_t at = leaves_ + bin;
    for (std::size_t d = 0; d < D; ++d) { least_[at][d] += static_cast<std::uint64_t>(cost[d]); }
    while (at > 1) {
      at /= 2;
      least_[at] = lesser(2 * at);
    }
  }

 private:
  using node = std::array<std::uint64_t, D>;

  [[nodiscard]] node lesser(std::size_t left) const noexcept
  {
    node least;
    for (std::size_t d = 0; d < D; ++d) {
      least[d] = std::min(least_[left][d], least_[left + 1][d]);
    }
    return least;
  }

  [[nodiscard]] std::uint64_t maximum(std::size_t at, cost_vector<D> const& cost) const noexcept
  {
    std::uint64_t most = 0;
    for (std::size_t d = 0; d < D; ++d) {
      most = std::max(most, least_[at][d] + static_cast<std::uint64_t>(cost[d]));
    }
    return most;
  }

  std::size_t leaves_;
  std::span<node> least_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_LIGHTEST_VECTORS_HPP
