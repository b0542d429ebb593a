// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_COVER_PROGRAM_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_COVER_PROGRAM_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/patterns/pattern_list.hpp>
#include <ballast/partition/detail/patterns/simplex_basis.hpp>
#include <ballast/partition/detail/patterns/simplex_number.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Solves the linear program of fewest patterns that cover all samples (`simplex_basis`): by the
/// revised simplex method, and after a pattern was taken for good by the dual simplex method, from
/// the basis that it has.
///
/// Of the three columns that are worth most, that which lowers the value most comes in. Among near
/// ties the column of the largest divisor goes out, which keeps errors small.
///
/// All is in fixed point, so results are equal everywhere, but not exact: they guide a search, and
/// what it concludes it checks in integers.
///
/// Ensures     (1) minimise: value() <= enough, or no pattern of the list is worth more than one at
///                 these prices, up to 2^-17; or the nodes are spent, or is_usable() is false
///             (2) restore: no amount is below -2^-14; or the same
/// Complexity  per exchange O(kinds^2 + entries of all patterns), a node for about ten of these.
/// Source      G. B. Dantzig, "Linear Programming and Extensions", Princeton University Press,
///             1963; P. M. J. Harris, "Pivot Selection Methods of the Devex LP Code", Mathematical
///             Programming 5:1-28, 1973.
class cover_program {
 public:
  cover_program(std::size_t most_kinds, pattern_list const& patterns, workspace::frame& scratch)
      : patterns_(patterns),
        basis_(most_kinds, patterns, scratch),
        step_(scratch.take<std::int64_t>(most_kinds)),
        best_step_(scratch.take<std::int64_t>(most_kinds)),
        row_(scratch.take<std::int64_t>(most_kinds))
  {}

  void start(std::span<std::uint32_t const> demands, int unit_bits = 0)
  {
    basis_.start(demands, unit_bits);
  }

  [[nodiscard]] simplex_basis const& basis() const noexcept { return basis_; }

  /// Until basis().value() is at most `enough`, or the patterns of the list allow no less.
  void minimise(std::int64_t enough, work_budget& nodes)
  {
    basis_.invert_if_inexact(nodes);
    while (basis_.is_usable() && !nodes.spent() && basis_.value() > enough) {
      std::array<candidate, 3> best{};
      std::size_t const count = most_wanted(best);
      nodes.spend((patterns_.entries() + 2 * count * basis_.rows()) / 8 + 1);
      if (count == 0) { return; }
      candidate entering{};
      std::size_t leaving = 0;
      int128 most_gain = -1;
      for (candidate const each : span_of(best, 0, count)) {
        basis_.copy_step(each.column, step_);
        std::size_t const row = first_to_leave();
        if (row == basis_.rows()) { return basis_.give_up(); }
        int128 const gain =
            -each.reduced *
            simplex_number::quotient(std::max<std::int64_t>(basis_.amounts()[row], 0), step_[row]);
        if (gain <= most_gain) { continue; }
        most_gain = gain;
        entering = each;
        leaving = row;
        std::copy_n(step_.begin(), basis_.rows(), best_step_.begin());
      }
      basis_.exchange(leaving, entering.column, entering.reduced, best_step_, nodes);
    }
  }

  /// Takes the pattern of this row once, for good; to be followed by restore().
  void take(std::size_t row) noexcept { basis_.take(row); }

  /// Exchanges columns until no amount is negative.
  void restore(work_budget& nodes)
  {
    basis_.invert_if_inexact(nodes);
    while (basis_.is_usable() && !nodes.spent()) {
      auto const amounts = basis_.amounts();
      auto const least = std::min_element(amounts.begin(), amounts.end());
      if (least == amounts.end() || *least >= -least_shortage) { return; }
      auto const leaving = static_cast<std::size_t>(least - amounts.begin());
      basis_.copy_row(leaving, row_);
      nodes.spend((patterns_.entries() + basis_.rows()) / 4 + 1);
      fraction first;
      for_each_column_below([&](std::uint32_t, std::int64_t reduced, std::int64_t step) {
        first.lower_to({reduced + slack, -step});
      });
      std::uint32_t entering = 0;
      std::int64_t largest = 0;
      for_each_column_below([&](std::uint32_t column, std::int64_t reduced, std::int64_t step) {
        if (-step > largest && !first.is_below({reduced, -step})) {
          largest = -step;
          entering = column;
        }
      });
      if (largest == 0) { return basis_.give_up(); }
      basis_.copy_step(entering, step_);
      basis_.exchange(leaving, entering, basis_.reduced_cost(entering), step_, nodes);
    }
  }

 private:
  struct candidate {
    std::int64_t reduced;
    std::uint32_t column;
  };

  /// How far a column can grow: until what it shrinks is 0.
  struct fraction {
    std::int64_t amount = 0;
    std::int64_t per_step = 0;  // 0: without end

    [[nodiscard]] bool is_below(fraction other) const noexcept
    {
      return static_cast<int128>(amount) * other.per_step <
             static_cast<int128>(other.amount) * per_step;
    }
    void lower_to(fraction other) noexcept
    {
      if (per_step == 0 || other.is_below(*this)) { *this = other; }
    }
  };

  static constexpr std::int64_t least_gain = simplex_number::one >> 18;  // of an entering column
  static constexpr std::int64_t least_shortage = simplex_number::one >> 14;  // of a leaving column
  static constexpr std::int64_t slack = simplex_number::one >> 18;           // of near ties

  /// The columns of least reduced cost, in order. Returns how many are worth more than they cost.
  [[nodiscard]] std::size_t most_wanted(std::array<candidate, 3>& best) const noexcept
  {
    std::size_t count = 0;
    auto const offer = [&](std::uint32_t column) {
      std::int64_t const reduced = basis_.reduced_cost(column);
      if (reduced >= -least_gain || (count == best.size() && reduced >= best.back().reduced)) {
        return;
      }
      std::size_t at = count < best.size() ? count++ : best.size() - 1;
      for (; at > 0 && reduced < best[at - 1].reduced; --at) { best[at] = best[at - 1]; }
      best[at] = {reduced, column};
    };
    for (std::uint32_t kind = 0; kind < basis_.rows(); ++kind) {
      offer(simplex_basis::surplus + kind);
    }
    for (auto column = static_cast<std::uint32_t>(patterns_.size()); column-- > 0;) {
      offer(column);
    }
    return count;
  }

  /// Calls look(column, reduced cost, step) for the columns with a negative step in row_.
  template <class Look>
  void for_each_column_below(Look const& look) const
  {
    auto const offer = [&](std::uint32_t column, std::int64_t step) {
      if (step < -simplex_basis::least_divisor) {
        look(column, std::max<std::int64_t>(basis_.reduced_cost(column), 0), step);
      }
    };
    for (std::uint32_t column = 0; column < patterns_.size(); ++column) {
      std::int64_t step = 0;
      for (auto const [kind, times] : patterns_[column]) { step += times * row_[kind]; }
      offer(column, step);
    }
    for (std::uint32_t kind = 0; kind < basis_.rows(); ++kind) {
      offer(simplex_basis::surplus + kind, -row_[kind]);
    }
  }

  /// The row whose amount sinks to 0 first as step_ comes in, nearly; rows() where none does.
  [[nodiscard]] std::size_t first_to_leave() const noexcept
  {
    auto const amounts = basis_.amounts();
    fraction first;
    for (std::size_t row = 0; row < amounts.size(); ++row) {
      if (step_[row] > simplex_basis::least_divisor) {
        first.lower_to({amounts[row] + slack, step_[row]});
      }
    }
    std::size_t leaving = amounts.size();
    std::int64_t largest = first.per_step == 0 ? 0 : simplex_basis::least_divisor;
    for (std::size_t row = 0; row < amounts.size(); ++row) {
      if (step_[row] > largest && !first.is_below({amounts[row], step_[row]})) {
        largest = step_[row];
        leaving = row;
      }
    }
    return leaving;
  }

  pattern_list const& patterns_;
  simplex_basis basis_;
  std::span<std::int64_t> step_;
  std::span<std::int64_t> best_step_;
  std::span<std::int64_t> row_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_COVER_PROGRAM_HPP
