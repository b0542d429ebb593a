// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_KIND_PROGRAM_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_KIND_PROGRAM_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/patterns/column_generation.hpp>
#include <ballast/partition/detail/patterns/simplex_basis.hpp>
#include <ballast/partition/packing/detail/weight_kinds.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The linear program over patterns of weight kinds: how many bins of which pattern a good packing
/// has, and what a sample of each kind is worth.
///
/// Complexity  that of column_generation.
class kind_program {
 public:
  kind_program(std::size_t most_kinds, workspace::frame& scratch)
      : program_(most_items, most_kinds, weight_kinds::most_numbers, scratch)
  {}

  /// Expects     kinds of so many samples, which need `known` bins at least
  /// Returns     false where it has no plan, since numbers got too large
  [[nodiscard]] bool solve(weight_kinds const& kinds, std::size_t samples, std::size_t known,
                           work_budget& nodes)
  {
    int unit_bits = weight_kinds::demand_bits;
    while ((samples << weight_kinds::demand_bits >> unit_bits) >= most_counted) { ++unit_bits; }
    program_.start(kinds.costs(), kinds.demands(), kinds.room(), unit_bits);
    // A plan first that is nearly as good as can be, then prices that prove it as nearly.
    std::size_t bins = std::max<std::size_t>(known, 1) << weight_kinds::demand_bits;
    for (std::size_t const nearness : {std::size_t{1} << 13, std::size_t{1} << 16}) {
      while (program_.solve(bins, nodes) == relaxation::exceeds) {
        std::size_t const least = program_.least_bags();
        bins = std::max(bins, least) + least / nearness + 1;
      }
      bins = std::max(std::min(bins, program_.least_bags()), known << weight_kinds::demand_bits);
    }
    return program_.basis().is_usable();
  }

  /// What a sample of each kind is worth, in units of nearly a bin / 2^22.
  [[nodiscard]] std::span<std::int32_t const> prices() const noexcept
  {
    return program_.best_prices();
  }

  /// Calls fill(pattern, times) for every pattern of which the plan has whole ones.
  template <class Fill>
  void for_each_pattern(Fill const& fill) const
  {
    simplex_basis const& basis = program_.basis();
    std::int64_t const one = basis.unit() << weight_kinds::demand_bits;
    for (std::size_t row = 0; row < basis.rows(); ++row) {
      if (!basis.has_pattern(row)) { continue; }
      std::int64_t const times = (basis.amounts()[row] + one / 64) / one;
      if (times > 0) { fill(program_.pattern(row), static_cast<std::size_t>(times)); }
    }
  }

 private:
  static constexpr std::size_t most_items = 2048;
  static constexpr std::size_t most_counted = 1000;  // in the basis

  column_generation program_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_KIND_PROGRAM_HPP
