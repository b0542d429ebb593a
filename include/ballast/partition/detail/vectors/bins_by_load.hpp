// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_BINS_BY_LOAD_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_BINS_BY_LOAD_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Bins in order of their loads per speed, in every dimension by itself, while loads change two at
/// a time.
///
/// Shapes      loads[m]; speeds[m], or empty where all bins are equally fast.
/// Ensures     (1) lightest_first(d) are all bins by when they finish in dimension d, equal ones by
///                 number
/// Complexity  O(D m log m) to build; exchange: O(D m), all of it in memmoves; 4 D bytes of scratch
///             per bin.
template <std::size_t D>
class bins_by_load {
 public:
  bins_by_load(std::span<cost_vector<D>> loads, workspace::frame& scratch,
               std::span<std::uint32_t const> speeds = {})
      : loads_(loads), speeds_(speeds)
  {
    for (std::size_t d = 0; d < D; ++d) {
      order_[d] = scratch.take<std::uint32_t>(loads.size());
      std::iota(order_[d].begin(), order_[d].end(), std::uint32_t{0});
      std::sort(order_[d].begin(), order_[d].end(), lighter{loads_, speeds_, d});
    }
  }

  [[nodiscard]] std::span<std::uint32_t const> lightest_first(std::size_t dimension) const noexcept
  {
    return order_[dimension];
  }

  /// The dimension in which a bin is the last to finish; of equals the first.
  [[nodiscard]] std::size_t heaviest_dimension() const noexcept
  {
    std::size_t heaviest = 0;
    for (std::size_t d = 1; d < D; ++d) {
      if (latest_finish(d) > latest_finish(heaviest)) { heaviest = d; }
    }
    return heaviest;
  }

  [[nodiscard]] ratio finish(std::size_t bin, std::size_t dimension) const noexcept
  {
    return {loads_[bin][dimension], speeds_.empty() ? 1 : speeds_[bin]};
  }

  [[nodiscard]] ratio latest_finish(std::size_t dimension) const noexcept
  {
    return finish(order_[dimension].back(), dimension);
  }

  /// Takes work from one bin and gives it to another; parts of it may be negative.
  void transfer(std::uint32_t from, std::uint32_t to, cost_vector<D> const& work) noexcept
  {
    for (std::size_t d = 0; d < D; ++d) {
      reload(from, d, loads_[from][d] - work[d]);
      reload(to, d, loads_[to][d] + work[d]);
    }
  }

 private:
  struct lighter {
    std::span<cost_vector<D> const> loads;
    std::span<std::uint32_t const> speeds;
    std::size_t dimension;
    bool operator()(std::uint32_t a, std::uint32_t b) const noexcept
    {
      cost_units const load_a = loads[a][dimension];
      cost_units const load_b = loads[b][dimension];
      if (speeds.empty()) { return precedes(load_a, load_b, a, b); }
      return precedes(ratio{load_a, speeds[a]}, ratio{load_b, speeds[b]}, a, b);
    }
  };

  void reload(std::uint32_t bin, std::size_t d, cost_units load) noexcept
  {
    auto const& order = order_[d];
    auto const from =
        std::lower_bound(order.begin(), order.end(), bin, lighter{loads_, speeds_, d});
    bool const grows = load > loads_[bin][d];
    loads_[bin][d] = load;
    if (grows) {
      auto const to = std::lower_bound(from + 1, order.end(), bin, lighter{loads_, speeds_, d});
      *std::move(from + 1, to, from) = bin;
    } else {
      auto const to = std::lower_bound(order.begin(), from, bin, lighter{loads_, speeds_, d});
      std::move_backward(to, from, from + 1);
      *to = bin;
    }
  }

  std::span<cost_vector<D>> loads_;
  std::span<std::uint32_t const> speeds_;
  std::array<std::span<std::uint32_t>, D> order_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_BINS_BY_LOAD_HPP
