// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_CHAINS_CHAIN_CUTTER_HPP
#define BALLAST_PARALLELISM_DETAIL_CHAINS_CHAIN_CUTTER_HPP

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// What one stage of a chain may hold, and how many microbatches' activations it holds.
struct stage_limit {
  std::int64_t cost = 0;
  std::int64_t bytes = 0;
  std::int64_t held = 1;
};

/// Cuts a piece of a chain into stages that keep to limits, if that can be done.
///
/// Both limits are kept by every part of a stage that keeps them, so the ends that a stage can have
/// from one begin are consecutive, and from a later begin they reach at least as far: a window that
/// only moves on. Stages that may hold different amounts and have to hold something make the ends
/// after several stages a set with holes, so the set is kept.
///
/// Expects     the sums of costs and of bytes at the largest `held` are below 2^63.
/// Complexity  cut: O(stages x layers).
class chain_cutter {
 public:
  /// Appends a layer to the chain.
  void push_back(std::int64_t cost, std::int64_t state_bytes, std::int64_t activation_bytes)
  {
    costs_.push_back(costs_.back() + cost);
    states_.push_back(states_.back() + state_bytes);
    activations_.push_back(activations_.back() + activation_bytes);
  }

  [[nodiscard]] std::size_t layers() const noexcept { return costs_.size() - 1; }

  [[nodiscard]] std::int64_t cost(std::size_t begin, std::size_t end) const
  {
    return costs_[end] - costs_[begin];
  }
  [[nodiscard]] std::int64_t bytes(std::size_t begin, std::size_t end, std::int64_t held) const
  {
    return states_[end] - states_[begin] + held * (activations_[end] - activations_[begin]);
  }

  /// Cuts layers first[0] to first[limits.size()] - 1, of which each stage gets one or more, and
  /// writes where stages begin between. Returns whether it can be done; else first is unchanged. Of
  /// several cuts the last stage gets as many layers as it can, then the one before it.
  ///
  /// Shapes      first[limits.size() + 1].
  [[nodiscard]] bool cut(std::span<std::size_t> first, std::span<stage_limit const> limits)
  {
    std::size_t const begin = first.front();
    std::size_t const width = first.back() - begin + 1;
    // earliest_[s][e]: where stage s begins at the earliest if it ends at e; unset: it cannot.
    earliest_.assign(limits.size() * width, unset);
    for (std::size_t stage = 0; stage < limits.size(); ++stage) {
      mark_ends(stage, begin, width, limits[stage]);
    }
    std::size_t end = width - 1;
    if (earliest_[limits.size() * width - 1] == unset) { return false; }
    for (std::size_t stage = limits.size(); stage-- > 0;) {
      end = earliest_[stage * width + end];
      first[stage] = begin + end;
    }
    return true;
  }

 private:
  static constexpr std::size_t unset = static_cast<std::size_t>(-1);

  void mark_ends(std::size_t stage, std::size_t begin, std::size_t width, stage_limit const& limit)
  {
    std::size_t marked = 0;  // ends up to here are done
    for (std::size_t from = 0; from + 1 < width; ++from) {
      bool const is_end = stage == 0 ? from == 0 : earliest_[(stage - 1) * width + from] != unset;
      if (!is_end) { continue; }
      marked = std::max(marked, from);
      while (marked + 1 < width && cost(begin + from, begin + marked + 1) <= limit.cost &&
             bytes(begin + from, begin + marked + 1, limit.held) <= limit.bytes) {
        earliest_[stage * width + ++marked] = from;
      }
    }
  }

  std::vector<std::int64_t> costs_ = {0};        ///< sum of the layers before each
  std::vector<std::int64_t> states_ = {0};       ///< sum of the layers before each
  std::vector<std::int64_t> activations_ = {0};  ///< sum of the layers before each
  std::vector<std::size_t> earliest_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_CHAINS_CHAIN_CUTTER_HPP
