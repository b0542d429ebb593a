// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_PADDED_CELLS_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_PADDED_CELLS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Padded batches in the cells of a grid, one of which a sample can leave or join.
///
/// Complexity  a look at a change is O(1), since each cell knows its two longest of both lengths;
///             a change is O(1), or O(samples of the cell) where one of the longest leaves.
template <class Problem>
class padded_cells {
 public:
  explicit padded_cells(Problem const& problem)
      : problem_(problem),
        cells_(problem.cells()),
        loads_(problem.ranks),
        owner_(problem.lengths.size()),
        place_(problem.lengths.size())
  {}

  void assign(std::span<cell_id const> owner)
  {
    for (batch& each : cells_) { each = {}; }
    std::fill(loads_.begin(), loads_.end(), 0);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      put(sample, to_index(owner[sample]));
    }
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) { count(cell); }
  }

  [[nodiscard]] std::size_t cell_of(std::size_t sample) const { return to_index(owner_[sample]); }
  [[nodiscard]] std::span<cell_id const> owner() const { return owner_; }
  [[nodiscard]] std::span<cost_units const> loads() const { return loads_; }
  [[nodiscard]] cost_units makespan() const
  {
    return *std::max_element(loads_.begin(), loads_.end());
  }

  /// A cell's batch after a change.
  struct changed {
    std::size_t samples = 0;
    padded_lengths longest;
  };
  [[nodiscard]] changed without(std::size_t sample) const
  {
    batch const& own = cells_[cell_of(sample)];
    return {own.samples.size() - 1, longest_without(sample)};
  }
  [[nodiscard]] changed with(std::size_t sample, std::size_t cell) const
  {
    batch const& own = cells_[cell];
    return {own.samples.size() + 1, own.longest.with(problem_.lengths[sample])};
  }
  [[nodiscard]] changed with_instead(std::size_t sample, std::size_t other) const
  {
    batch const& own = cells_[cell_of(other)];
    return {own.samples.size(), longest_without(other).with(problem_.lengths[sample])};
  }

  /// How much more a cell costs after a change; `fits` says whether it stays within the cap.
  [[nodiscard]] cost_units growth(std::size_t cell, changed to) const
  {
    return problem_.cost(to.samples, to.longest) - cells_[cell].cost;
  }
  [[nodiscard]] bool fits(changed to) const { return problem_.fits(to.samples, to.longest); }

  void move(std::size_t sample, std::size_t cell)
  {
    std::size_t const before = cell_of(sample);
    take(sample);
    put(sample, cell);
    count(before);
    count(cell);
  }
  void swap(std::size_t sample, std::size_t other)
  {
    std::size_t const cell = cell_of(sample);
    std::size_t const others = cell_of(other);
    take(sample);
    take(other);
    put(sample, others);
    put(other, cell);
    count(cell);
    count(others);
  }

 private:
  struct batch {
    std::vector<std::uint32_t> samples;
    padded_lengths longest;
    padded_lengths second;  // the next of each length, which may be as long
    cost_units cost = 0;

    void add(padded_lengths own)
    {
      second =
          second.with({std::min(longest.source, own.source), std::min(longest.target, own.target)});
      longest = longest.with(own);
    }
  };

  Problem const& problem_;
  std::vector<batch> cells_;
  std::vector<cost_units> loads_;
  std::vector<cell_id> owner_;
  std::vector<std::uint32_t> place_;  // of each sample in its batch

  [[nodiscard]] padded_lengths longest_without(std::size_t sample) const
  {
    batch const& own = cells_[cell_of(sample)];
    padded_lengths const leaves = problem_.lengths[sample];
    return {leaves.source == own.longest.source ? own.second.source : own.longest.source,
            leaves.target == own.longest.target ? own.second.target : own.longest.target};
  }

  void take(std::size_t sample)
  {
    batch& own = cells_[cell_of(sample)];
    own.samples[place_[sample]] = own.samples.back();
    place_[own.samples.back()] = place_[sample];
    own.samples.pop_back();
    padded_lengths const left = problem_.lengths[sample];
    if (left.source < own.second.source && left.target < own.second.target) { return; }
    own.longest = {};
    own.second = {};
    for (std::uint32_t const each : own.samples) { own.add(problem_.lengths[each]); }
  }

  void put(std::size_t sample, std::size_t cell)
  {
    batch& own = cells_[cell];
    owner_[sample] = to_id<cell_id>(cell);
    place_[sample] = static_cast<std::uint32_t>(own.samples.size());
    own.samples.push_back(static_cast<std::uint32_t>(sample));
    own.add(problem_.lengths[sample]);
  }

  void count(std::size_t cell)
  {
    batch& own = cells_[cell];
    cost_units const cost = problem_.cost(own.samples.size(), own.longest);
    loads_[cell % problem_.ranks] += cost - own.cost;
    own.cost = cost;
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_PADDED_CELLS_HPP
