// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// The sum of some loads or costs, dimension by dimension.
template <std::size_t D>
[[nodiscard]] cost_vector<D> sum_of(std::span<cost_vector<D> const> vectors) noexcept
{
  cost_vector<D> total{};
  for (cost_vector<D> const& each : vectors) {
    for (std::size_t d = 0; d < D; ++d) { total[d] += each[d]; }
  }
  return total;
}

/// Vectors as numbers, one after the other.
template <std::size_t D>
[[nodiscard]] std::span<cost_units const> all_numbers_of(std::span<cost_vector<D> const> vectors)
{
  if (vectors.empty()) { return {}; }
  return {vectors.front().data(), vectors.size() * D};
}

template <std::size_t D>
using finishes = std::array<ratio, D>;

/// Times before which no plan finishes in a dimension, at little expense: the mean load per speed,
/// or the largest single cost on the fastest bin.
///
/// Expects     total is the sum of all costs and of what bins have at the start; bins >= 1.
/// Ensures     (1) with bins of one speed each is a whole load over that speed
/// Complexity  O(D n + m)
template <std::size_t D>
[[nodiscard]] finishes<D> least_finishes(cost_vector_problem<D> const& problem,
                                         cost_vector<D> total, std::size_t bins) noexcept
{
  std::uint32_t fastest = 1;
  auto speed = static_cast<std::int64_t>(bins);
  if (!problem.speeds.empty()) {
    fastest = *std::max_element(problem.speeds.begin(), problem.speeds.end());
    speed = 0;
    for (std::uint32_t const each : problem.speeds) { speed += each; }
  }
  cost_vector<D> largest{};
  for (cost_vector<D> const& cost : problem.costs) {
    for (std::size_t d = 0; d < D; ++d) { largest[d] = std::max(largest[d], cost[d]); }
  }
  finishes<D> least{};
  for (std::size_t d = 0; d < D; ++d) {
    ratio mean{total[d], speed};
    if (problem.one_speed()) {
      auto const count = static_cast<cost_units>(bins);
      mean = {total[d] / count + (total[d] % count != 0 ? 1 : 0), fastest};
    }
    least[d] = std::max(ratio{largest[d], fastest}, mean);
  }
  return least;
}

/// The problem as that of a policy of one dimension in which no sample costs anything.
///
/// Ensures     (1) a sample fits the bags of this problem that it fits as bins
template <std::size_t D>
[[nodiscard]] partition_problem one_quantity_of(cost_vector_problem<D> const& problem,
                                                std::size_t bins, workspace::frame& scratch)
{
  std::size_t const samples = problem.costs.size();
  std::span<cost_units> const costs = scratch.take<cost_units>(samples);
  std::fill(costs.begin(), costs.end(), 0);
  partition_problem alone{costs, problem.lengths, {}, problem.gpus, problem.speeds};
  if (problem.gpus.empty()) { alone.lengths = costs; }  // samples of no tokens fit everywhere
  std::span<std::uint32_t> const ones = scratch.take<std::uint32_t>(bins);
  std::fill(ones.begin(), ones.end(), 1);
  if (problem.gpus.empty()) { alone.gpus = ones; }
  if (problem.speeds.empty()) { alone.speeds = ones; }
  return alone;
}

/// Bins of several speeds and sizes: of those that a sample fits, which one finishes earliest with it,
/// in the dimension in which it is latest?
///
/// A tournament tree whose nodes know the least load below them in each dimension, the highest speed
/// and the fewest GPUs. These come from different bins, so a node only gives a lower bound, and
/// whether a bin below it can be open to the sample; the search leaves out subtrees whose bound is no
/// better than a bin already seen. Leaves are in order of size and speed: where bins of one kind are
/// neighbours, the bound is as sharp as for equal bins.
///
/// Expects     a valid cost_vector_problem; with OneKind one speed, and every sample fits every bin.
/// Ensures     (1) of bins that are equally good the lowest-numbered
/// Complexity  earliest: O(m^(1 - 1/D)) for loads per speed spread evenly, O(m) at worst; add:
///             O(D log m); 8 D + 20 bytes of scratch per bin, up to four times that.
template <std::size_t D, bool OneKind = false>
class earliest_vectors {
 public:
  earliest_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> loads,
                   workspace::frame& scratch)
      : problem_(problem),
        bins_(loads.size()),
        leaves_(std::bit_ceil(loads.size())),
        nodes_(scratch.take<node>(2 * leaves_)),
        leaf_of_(scratch.take<std::uint32_t>(bins_))
  {
    std::fill(nodes_.begin(), nodes_.end(), node{});
    for (std::size_t bin = 0; bin < bins_; ++bin) {
      node& leaf = nodes_[leaves_ + bin];
      leaf = {loads[bin], problem.speed(bin), problem.gpus.empty() ? 1 : problem.gpus[bin],
              static_cast<std::uint32_t>(bin)};
    }
    auto const leaves = nodes_.subspan(leaves_, bins_);
    std::sort(leaves.begin(), leaves.end(), [](node const& a, node const& b) {
      return precedes(a.fewest_gpus, b.fewest_gpus, a.fastest, b.fastest, a.first_bin, b.first_bin);
    });
    for (std::size_t leaf = 0; leaf < bins_; ++leaf) {
      leaf_of_[leaves[leaf].first_bin] = static_cast<std::uint32_t>(leaf);
    }
    for (std::size_t at = leaves_; at-- > 1;) { nodes_[at] = joined(2 * at); }
  }

  [[nodiscard]] std::size_t earliest(std::size_t sample) const noexcept
  {
    struct subtree {
      finish_time bound;
      std::size_t node;
    };
    std::array<subtree, 64> open;  // one sibling per level, so never full
    std::size_t count = 0;
    if (is_open(1, sample)) { open[count++] = {{}, 1}; }
    subtree best{};
    while (count > 0) {
      subtree const at = open[--count];
      if (best.node != 0 &&
          !precedes(at.bound, best.bound, nodes_[at.node].first_bin, nodes_[best.node].first_bin)) {
        continue;
      }
      if (at.node >= leaves_) {
        best = at;
        continue;
      }
      std::size_t const child = 2 * at.node;
      bool const left_open = is_open(child, sample);
      bool const right_open = is_open(child + 1, sample);
      subtree const left{left_open ? finish(child, sample) : finish_time{}, child};
      subtree const right{right_open ? finish(child + 1, sample) : finish_time{}, child + 1};
      bool const left_first = left.bound <= right.bound;
      if (left_open && !left_first) { open[count++] = left; }
      if (right_open) { open[count++] = right; }
      if (left_open && left_first) { open[count++] = left; }
    }
    return nodes_[best.node].first_bin;
  }

  void add(std::size_t sample, std::size_t bin) noexcept
  {
    std::size_t at = leaves_ + leaf_of_[bin];
    for (std::size_t d = 0; d < D; ++d) { nodes_[at].least[d] += problem_.costs[sample][d]; }
    while (at > 1) {
      at /= 2;
      nodes_[at] = joined(2 * at);
    }
  }

 private:
  using finish_time = std::conditional_t<OneKind, cost_units, ratio>;

  /// What is known of the bins below a node; of none of them, if they have no speed.
  struct node {
    cost_vector<D> least{};  ///< load, in each dimension
    std::uint32_t fastest = 0;
    std::uint32_t fewest_gpus = 1;
    std::uint32_t first_bin = 0;  ///< the lowest number
  };

  [[nodiscard]] node joined(std::size_t left) const noexcept
  {
    node const& a = nodes_[left];
    node const& b = nodes_[left + 1];
    if (b.fastest == 0) { return a; }
    if (a.fastest == 0) { return b; }
    node both{a.least, std::max(a.fastest, b.fastest), std::min(a.fewest_gpus, b.fewest_gpus),
              std::min(a.first_bin, b.first_bin)};
    for (std::size_t d = 0; d < D; ++d) { both.least[d] = std::min(a.least[d], b.least[d]); }
    return both;
  }

  [[nodiscard]] bool is_open(std::size_t at, std::size_t sample) const noexcept
  {
    return nodes_[at].fastest > 0 &&
           (OneKind || problem_.gpus.empty() ||
            partition_problem::splits(problem_.lengths[sample], nodes_[at].fewest_gpus));
  }

  [[nodiscard]] finish_time finish(std::size_t at, std::size_t sample) const noexcept
  {
    cost_units latest = 0;
    for (std::size_t d = 0; d < D; ++d) {
      latest = std::max(latest, nodes_[at].least[d] + problem_.costs[sample][d]);
    }
    if constexpr (OneKind) {
      return latest;
    } else {
      return {latest, nodes_[at].fastest};
    }
  }

  cost_vector_problem<D> problem_;
  std::size_t bins_;
  std::size_t leaves_;
  std::span<node> nodes_;
  std::span<std::uint32_t> leaf_of_;  // by bin
};

}  // namespace ballast::inline v0::detail
