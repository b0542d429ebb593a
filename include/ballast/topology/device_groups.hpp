// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/topology/cluster.hpp>

namespace ballast::inline v0 {

/// GPUs that may share a sequence: `gpus` consecutive ranks from `first`.
struct device_group {
  rank_id first{};
  std::uint32_t gpus = 1;

  friend constexpr bool operator==(device_group, device_group) = default;
};

/// The groups of GPUs among which a step chooses for every sequence: single GPUs, pairs, fours, and
/// so on, up to whole nodes and several nodes. Other than bags, they overlap: a GPU works in
/// several of them, one after the other. The number of GPUs of a group is its degree.
///
/// Inside a node: 1, 2, 4 ... GPUs, at multiples of their number from the node's first GPU, and the
/// whole node. Beyond it: 2, 4, 8 ... whole nodes, at multiples of their number. Where a node's
/// GPUs or the nodes are no power of two, the last ones are in fewer groups.
///
/// Expects     nodes of at most 2^24 GPUs together; largest_degree >= 1.
/// Ensures     (1) the groups are those above that have at most largest_degree GPUs, each once
///             (2) two groups are disjoint, or the larger one contains the smaller one; so those of
///                 one degree are disjoint
///             (3) identifiers ascend by degree, then by first rank; group r of one GPU is rank r
///             (4) of_degree(k) are the groups of k GPUs, groups_of(r) those that contain rank r by
///                 ascending degree, group_of(r, k) the one that is in both, if there is one
/// Complexity  construction O(GPUs log GPUs), digest O(groups), of_degree and group_of O(log of the
///             degrees), all else O(1). For N GPUs there are at most 4 N groups.
/// Source      the structured groups of "FlexRL"; as printed, groups of different sizes never
///             overlap, which contradicts its pairs on all GPUs and its schedule over several
///             degrees per GPU: here groups of one size are disjoint, and sizes are nested.
class device_groups {
 public:
  device_groups() = default;

  BALLAST_ONCE device_groups(node_sizes const& nodes, std::uint32_t largest_degree);

  /// The nodes over which the groups lie; one of 8 GPUs where there are no groups.
  [[nodiscard]] node_sizes const& nodes() const noexcept { return nodes_; }

  /// Number of groups.
  [[nodiscard]] std::size_t size() const noexcept { return groups_.size(); }

  /// Number of GPUs of the job.
  [[nodiscard]] std::size_t gpus() const noexcept { return of_ranks_.size(); }

  [[nodiscard]] device_group operator[](group_id id) const
  {
    BALLAST_EXPECTS(to_index(id) < size(), "group ", id, " of ", detail::counted(size(), "group"));
    return groups_[to_index(id)];
  }

  /// The sizes that groups have, ascending.
  [[nodiscard]] std::span<std::uint32_t const> degrees() const noexcept
  {
    return detail::span_of(degrees_);
  }

  /// The groups of so many GPUs, by first rank; none where no group has that degree.
  [[nodiscard]] BALLAST_ONCE std::span<group_id const> of_degree(std::uint32_t degree) const;

  /// The groups that contain a rank, by ascending degree: each contains the one before it.
  [[nodiscard]] std::span<group_id const> groups_of(rank_id rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < gpus(), "rank ", rank, " of groups over ",
                    detail::counted(gpus(), "GPU"));
    return of_ranks_[rank];
  }

  /// The group of so many GPUs that contains a rank.
  [[nodiscard]] BALLAST_ONCE std::optional<group_id> group_of(rank_id rank,
                                                              std::uint32_t degree) const;

  /// One word that differs where any group does.
  [[nodiscard]] BALLAST_ONCE std::uint64_t digest() const noexcept;

  friend bool operator==(device_groups const& a, device_groups const& b)
  {
    return a.gpus() == b.gpus() && a.groups_ == b.groups_;
  }

 private:
  [[nodiscard]] BALLAST_ONCE static std::vector<device_group> find_groups(
      node_sizes const& nodes, std::uint32_t largest_degree);

  BALLAST_ONCE void index_degrees();

  /// The groups ascend by degree, so that each rank meets its own in that order.
  BALLAST_ONCE void index_ranks(std::size_t gpus);

  node_sizes nodes_;
  std::vector<device_group> groups_;
  std::vector<std::uint32_t> degrees_;
  jagged<std::size_t, group_id> of_degrees_;
  jagged<rank_id, group_id> of_ranks_;
};

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0 {

BALLAST_ONCE device_groups::device_groups(node_sizes const& nodes, std::uint32_t largest_degree)
{
  BALLAST_EXPECTS(nodes.gpus() <= std::size_t{1} << 24, "groups were asked for over ",
                  detail::counted(nodes.gpus(), "GPU"), ", and the most is 16777216");
  BALLAST_EXPECTS(largest_degree >= 1, "groups of at most 0 GPUs were asked for");
  groups_ = find_groups(nodes, largest_degree);
  std::sort(groups_.begin(), groups_.end(), [](device_group a, device_group b) {
    return detail::precedes(a.gpus, b.gpus, a.first, b.first);
  });
  index_degrees();
  index_ranks(nodes.gpus());
  nodes_ = nodes;
}

[[nodiscard]] BALLAST_ONCE std::span<group_id const> device_groups::of_degree(
    std::uint32_t degree) const
{
  auto const found = std::lower_bound(degrees_.begin(), degrees_.end(), degree);
  if (found == degrees_.end() || *found != degree) { return {}; }
  auto const place = static_cast<std::size_t>(found - degrees_.begin());
  return of_degrees_[place];
}

[[nodiscard]] BALLAST_ONCE std::optional<group_id> device_groups::group_of(
    rank_id rank, std::uint32_t degree) const
{
  auto const chain = groups_of(rank);
  auto const found = std::lower_bound(
      chain.begin(), chain.end(), degree,
      [this](group_id id, std::uint32_t k) { return groups_[to_index(id)].gpus < k; });
  if (found == chain.end() || groups_[to_index(*found)].gpus != degree) { return std::nullopt; }
  return *found;
}

[[nodiscard]] BALLAST_ONCE std::uint64_t device_groups::digest() const noexcept
{
  ballast::digest all;
  all.add(gpus()).add(size());
  for (device_group const each : groups_) { all.add(to_index(each.first)).add(each.gpus); }
  return all.value();
}

[[nodiscard]] BALLAST_ONCE std::vector<device_group> device_groups::find_groups(
    node_sizes const& nodes, std::uint32_t largest_degree)
{
  std::vector<device_group> groups;
  auto const add = [&groups](std::size_t first, std::size_t gpus) {
    groups.push_back({to_id<rank_id>(first), static_cast<std::uint32_t>(gpus)});
  };
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    auto const id = to_id<node_id>(node);
    std::size_t const gpus = nodes[id];
    std::size_t degree = 1;
    for (; degree <= gpus && degree <= largest_degree; degree *= 2) {
      for (std::size_t first = 0; first + degree <= gpus; first += degree) {
        add(to_index(nodes.first(id)) + first, degree);
      }
    }
    bool const is_whole_already = degree == 2 * gpus;
    if (gpus <= largest_degree && !is_whole_already) { add(to_index(nodes.first(id)), gpus); }
  }
  for (std::size_t run = 2; run <= nodes.size(); run *= 2) {
    for (std::size_t node = 0; node + run <= nodes.size(); node += run) {
      auto const last = to_id<node_id>(node + run - 1);
      std::size_t const first = to_index(nodes.first(to_id<node_id>(node)));
      std::size_t const gpus = to_index(nodes.first(last)) + nodes[last] - first;
      if (gpus <= largest_degree) { add(first, gpus); }
    }
  }
  return groups;
}

BALLAST_ONCE void device_groups::index_degrees()
{
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    if (degrees_.empty() || degrees_.back() != groups_[index].gpus) {
      if (!degrees_.empty()) { of_degrees_.end_row(); }
      degrees_.push_back(groups_[index].gpus);
    }
    of_degrees_.push_back(to_id<group_id>(index));
  }
  if (!degrees_.empty()) { of_degrees_.end_row(); }
}

BALLAST_ONCE void device_groups::index_ranks(std::size_t gpus)
{
  of_ranks_.fill(gpus, [this](auto const& visit) {
    for (std::size_t index = 0; index < groups_.size(); ++index) {
      std::size_t const first = to_index(groups_[index].first);
      for (std::size_t rank = first; rank < first + groups_[index].gpus; ++rank) {
        visit(to_id<rank_id>(rank), to_id<group_id>(index));
      }
    }
  });
}

}  // namespace ballast::inline v0

#endif
