// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0::detail {

__extension__ typedef __int128 int128;  // `using` cannot carry __extension__

/// Numbers of linear programs: integers in units of 2^-28, equal on all compilers and processors.
struct simplex_number {
  static constexpr int fraction_bits = 28;
  static constexpr std::int64_t one = std::int64_t{1} << fraction_bits;
  /// Numbers that are as large are results of errors.
  static constexpr std::int64_t limit = std::int64_t{1} << 44;

  [[nodiscard]] static constexpr std::int64_t product(std::int64_t a, std::int64_t b) noexcept
  {
    return static_cast<std::int64_t>((static_cast<int128>(a) * b + one / 2) >> fraction_bits);
  }
  [[nodiscard]] static constexpr int128 quotient(std::int64_t a, std::int64_t b) noexcept
  {
    return static_cast<int128>(a) * one / b;
  }
};

/// How many samples of one kind a pattern has. Samples of one kind cost the same.
struct pattern_entry {
  std::uint32_t kind;
  std::uint32_t times;
};

/// What one bag may hold, as numbers of samples of each kind: a growing list of such patterns.
///
/// Complexity  8 bytes of scratch per entry and 4 per pattern.
class pattern_list {
 public:
  pattern_list(std::size_t patterns, std::size_t entries, workspace::frame& scratch)
      : ends_(scratch.take<std::uint32_t>(patterns + 1)),
        entries_(scratch.take<pattern_entry>(entries))
  {
    ends_[0] = 0;
  }

  void clear() noexcept { count_ = 0; }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  [[nodiscard]] std::size_t entries() const noexcept { return ends_[count_]; }

  [[nodiscard]] std::span<pattern_entry const> operator[](std::size_t pattern) const noexcept
  {
    return entries_.subspan(ends_[pattern], ends_[pattern + 1] - ends_[pattern]);
  }

  /// Returns false where there is no room for it.
  [[nodiscard]] bool add(std::span<pattern_entry const> pattern) noexcept
  {
    if (count_ + 1 == ends_.size() || entries() + pattern.size() > entries_.size()) {
      return false;
    }
    std::copy(pattern.begin(), pattern.end(),
              entries_.begin() + static_cast<std::ptrdiff_t>(entries()));
    ends_[count_ + 1] = ends_[count_] + static_cast<std::uint32_t>(pattern.size());
    ++count_;
    return true;
  }

 private:
  std::span<std::uint32_t> ends_;  // [k]: the entries of the first k patterns
  std::span<pattern_entry> entries_;
  std::size_t count_ = 0;
};

/// The inverse of a square matrix whose columns are exchanged one by one.
///
/// Each exchange adds an error of 2^-28 and more where what it divides by is small, so the user
/// looks from time to time how large the errors have become, and builds the inverse anew.
///
/// Complexity  replace: O(rows^2). 8 rows^2 bytes of scratch.
class fixed_point_inverse {
 public:
  fixed_point_inverse(std::size_t most_rows, workspace::frame& scratch)
      : numbers_(scratch.take<std::int64_t>(most_rows * most_rows))
  {}

  /// Starts from the identity matrix.
  void reset(std::size_t rows) noexcept
  {
    rows_ = rows;
    std::fill_n(numbers_.begin(), rows * rows, 0);
    for (std::size_t row = 0; row < rows; ++row) {
      numbers_[row * rows + row] = simplex_number::one;
    }
    largest_ = simplex_number::one;
  }

  [[nodiscard]] std::span<std::int64_t const> column(std::size_t index) const noexcept
  {
    return numbers_.subspan(index * rows_, rows_);
  }

  void copy_row(std::size_t row, std::span<std::int64_t> into) const noexcept
  {
    for (std::size_t at = 0; at < rows_; ++at) { into[at] = numbers_[at * rows_ + row]; }
  }

  void times(std::span<pattern_entry const> entries, std::span<std::int64_t> into) const noexcept
  {
    std::fill_n(into.begin(), rows_, 0);
    for (auto const [kind, count] : entries) {
      std::int64_t const* const from = numbers_.data() + kind * rows_;
      for (std::size_t row = 0; row < rows_; ++row) {
        into[row] += from[row] * static_cast<std::int64_t>(count);
      }
    }
  }

  /// Replaces the matrix column of one row. Returns false where numbers become too large; then the
  /// inverse is lost.
  ///
  /// Expects     step is the inverse times the new column, and step[row] is not 0
  [[nodiscard]] bool replace(std::size_t row, std::span<std::int64_t> step) noexcept
  {
    std::int64_t const by = step[row];
    std::int64_t steepest = 0;
    for (std::size_t at = 0; at < rows_; ++at) {
      steepest = std::max(steepest, std::abs(step[at]));
    }
    if (steepest >= simplex_number::limit) { return false; }
    step[row] = 0;  // for the loops, so that they leave this row as it is
    std::int64_t grown = 0;
    for (std::size_t at = 0; at < rows_; ++at) {
      std::int64_t* const to = numbers_.data() + at * rows_;
      if (to[row] == 0) { continue; }
      int128 const wide = simplex_number::quotient(to[row], by);
      if (wide >= simplex_number::limit || wide <= -simplex_number::limit) { return false; }
      auto const in_row = static_cast<std::int64_t>(wide);
      int128 const change = static_cast<int128>(std::abs(in_row)) * steepest;
      grown = std::max({grown, std::abs(in_row),
                        static_cast<std::int64_t>(change >> simplex_number::fraction_bits) + 1});
      if (change < int128{1} << 62) {
        for (std::size_t other = 0; other < rows_; ++other) {
          to[other] -=
              (in_row * step[other] + simplex_number::one / 2) >> simplex_number::fraction_bits;
        }
      } else if (grown < simplex_number::limit) {
        for (std::size_t other = 0; other < rows_; ++other) {
          to[other] -= simplex_number::product(in_row, step[other]);
        }
      } else {
        return false;
      }
      to[row] = in_row;
    }
    step[row] = by;
    return stays_small(grown);
  }

 private:
  [[nodiscard]] bool stays_small(std::int64_t grown) noexcept
  {
    largest_ += grown;
    if (largest_ < simplex_number::limit) { return true; }
    largest_ = 0;
    for (std::int64_t const number : numbers_.first(rows_ * rows_)) {
      largest_ = std::max(largest_, std::abs(number));
    }
    return largest_ < simplex_number::limit;
  }

  std::span<std::int64_t> numbers_;  // by column
  std::size_t rows_ = 0;
  std::int64_t largest_ = 0;  // no number is larger
};

/// A basis of the linear program
///
///     minimise sum_p x_p   subject to   sum_p a_kp x_p >= demand_k for every kind k,   x >= 0
///
/// over patterns p: one column per kind, a pattern or the surplus of a kind, with the amounts x of
/// the columns and a price per kind, its dual value. The first patterns of the list are one sample
/// of each kind; they are the first basis. Patterns may be added to the list at any time.
///
/// Demands are raised by different amounts of about 2^-21, so that few steps are degenerate. Where
/// there are more samples than numbers can count, demands and amounts are in a unit of a whole one
/// divided by a power of two.
///
/// Expects     fewer than 1024 samples in all demands together, or units of them
/// Complexity  exchange and invert_if_inexact: O(kinds^2) and O(kinds^3). 8 kinds^2 bytes of
///             scratch.
class simplex_basis {
 public:
  /// Of columns: patterns come before it, and the surplus of kind k is surplus + k.
  static constexpr std::uint32_t surplus = std::uint32_t{1} << 31;
  /// The least divisor of an exchange.
  static constexpr std::int64_t least_divisor = simplex_number::one / 1024;

  simplex_basis(std::size_t most_kinds, pattern_list const& patterns, workspace::frame& scratch)
      : patterns_(patterns),
        inverse_(most_kinds, scratch),
        columns_(scratch.take<std::uint32_t>(most_kinds)),
        wanted_(scratch.take<std::uint32_t>(most_kinds)),
        is_settled_(scratch.take<std::uint8_t>(most_kinds)),
        amounts_(scratch.take<std::int64_t>(most_kinds)),
        prices_(scratch.take<std::int64_t>(most_kinds)),
        demands_(scratch.take<std::int64_t>(most_kinds)),
        numbers_(scratch.take<std::int64_t>(most_kinds))
  {}

  /// Starts from the patterns of one sample. Demands are in 2^-unit_bits of a whole one.
  void start(std::span<std::uint32_t const> demands, int unit_bits = 0)
  {
    kinds_ = demands.size();
    unit_ = simplex_number::one >> unit_bits;
    random_source random(kinds_);
    for (std::size_t kind = 0; kind < kinds_; ++kind) {
      demands_[kind] = demands[kind] * unit_ + random.between(64, 319);
    }
    is_usable_ = true;
    start_from_single_samples();
    refresh();
  }

  /// By how much value() may be above a whole number, for what demands were raised by.
  [[nodiscard]] std::int64_t tolerance() const noexcept
  {
    return 512 * static_cast<std::int64_t>(kinds_);
  }

  [[nodiscard]] std::int64_t unit() const noexcept { return unit_; }

  /// False where numbers became too large.
  [[nodiscard]] bool is_usable() const noexcept { return is_usable_; }
  void give_up() noexcept { is_usable_ = false; }

  [[nodiscard]] std::size_t rows() const noexcept { return kinds_; }
  [[nodiscard]] std::uint32_t column(std::size_t row) const noexcept { return columns_[row]; }
  [[nodiscard]] bool has_pattern(std::size_t row) const noexcept { return columns_[row] < surplus; }
  [[nodiscard]] std::span<std::int64_t const> amounts() const noexcept
  {
    return amounts_.first(kinds_);
  }
  [[nodiscard]] std::span<std::int64_t const> prices() const noexcept
  {
    return prices_.first(kinds_);
  }

  /// The sum of the amounts of all patterns.
  [[nodiscard]] std::int64_t value() const noexcept
  {
    std::int64_t sum = 0;
    for (std::size_t row = 0; row < kinds_; ++row) { sum += has_pattern(row) ? amounts_[row] : 0; }
    return sum;
  }

  /// By how much a column costs more than it is worth at these prices.
  [[nodiscard]] std::int64_t reduced_cost(std::uint32_t column) const noexcept
  {
    if (column >= surplus) { return prices_[column - surplus]; }
    std::int64_t reduced = simplex_number::one;
    for (auto const [kind, times] : patterns_[column]) { reduced -= times * prices_[kind]; }
    return reduced;
  }

  /// How the amounts shrink as that of this column grows.
  void copy_step(std::uint32_t column, std::span<std::int64_t> into) const noexcept
  {
    if (column < surplus) { return inverse_.times(patterns_[column], into); }
    auto const from = inverse_.column(column - surplus);
    for (std::size_t row = 0; row < kinds_; ++row) { into[row] = -from[row]; }
  }

  /// What a column has to be multiplied with for its step in this row.
  void copy_row(std::size_t row, std::span<std::int64_t> into) const noexcept
  {
    inverse_.copy_row(row, into);
  }

  void exchange(std::size_t row, std::uint32_t column, std::int64_t reduced,
                std::span<std::int64_t> step, work_budget& nodes)
  {
    nodes.spend(nodes_of_exchange());
    int128 const amount = simplex_number::quotient(amounts_[row], step[row]);
    columns_[row] = column;
    is_usable_ = inverse_.replace(row, step) && amount < simplex_number::limit &&
                 amount > -simplex_number::limit && is_small(reduced);
    if (!is_usable_) { return; }
    for (std::size_t other = 0; other < kinds_; ++other) {
      if (other == row) { continue; }
      amounts_[other] -= simplex_number::product(static_cast<std::int64_t>(amount), step[other]);
    }
    amounts_[row] = static_cast<std::int64_t>(amount);
    inverse_.copy_row(row, numbers_);
    for (std::size_t kind = 0; kind < kinds_; ++kind) {
      prices_[kind] += simplex_number::product(numbers_[kind], reduced);
    }
    is_usable_ = all_are_small();
  }

  /// Takes the pattern of this row once, for good: the demands shrink by what it covers.
  void take(std::size_t row) noexcept
  {
    amounts_[row] -= unit_;
    for (auto const [kind, times] : patterns_[columns_[row]]) { demands_[kind] -= times * unit_; }
  }

  /// Builds the inverse anew where what the amounts cover is not what they are to cover.
  void invert_if_inexact(work_budget& nodes)
  {
    if (!is_usable_ || is_exact()) { return; }
    std::copy_n(columns_.begin(), kinds_, wanted_.begin());
    start_from_single_samples();
    refresh();
    std::fill_n(is_settled_.begin(), kinds_, std::uint8_t{0});
    for (std::uint32_t const column : wanted_.first(kinds_)) {
      if (column < kinds_) { is_settled_[column] = 1; }
    }
    for (std::uint32_t const column : wanted_.first(kinds_)) {
      if (column < kinds_) { continue; }
      copy_step(column, numbers_);
      std::size_t into = kinds_;
      for (std::size_t row = 0; row < kinds_; ++row) {
        if (is_settled_[row] == 0 &&
            (into == kinds_ || std::abs(numbers_[row]) > std::abs(numbers_[into]))) {
          into = row;
        }
      }
      if (into == kinds_ || std::abs(numbers_[into]) < least_divisor) { continue; }
      is_settled_[into] = 1;
      nodes.spend(nodes_of_exchange());
      columns_[into] = column;
      is_usable_ = is_usable_ && inverse_.replace(into, numbers_);
    }
    if (!is_usable_) { return; }
    refresh();
    is_usable_ = all_are_small();
  }

 private:
  [[nodiscard]] std::uint64_t nodes_of_exchange() const noexcept
  {
    return kinds_ * kinds_ / 10 + 1;
  }

  [[nodiscard]] static bool is_small(std::int64_t number) noexcept
  {
    return std::abs(number) < simplex_number::limit;
  }

  [[nodiscard]] bool all_are_small() const noexcept
  {
    return std::all_of(amounts().begin(), amounts().end(), is_small) &&
           std::all_of(prices().begin(), prices().end(), is_small);
  }

  void start_from_single_samples() noexcept
  {
    inverse_.reset(kinds_);
    for (std::uint32_t kind = 0; kind < kinds_; ++kind) { columns_[kind] = kind; }
  }

  void refresh() noexcept
  {
    std::fill_n(amounts_.begin(), kinds_, 0);
    for (std::size_t kind = 0; kind < kinds_; ++kind) {
      auto const from = inverse_.column(kind);
      prices_[kind] = 0;
      for (std::size_t row = 0; row < kinds_; ++row) {
        amounts_[row] += simplex_number::product(from[row], demands_[kind]);
        if (has_pattern(row)) { prices_[kind] += from[row]; }
      }
    }
  }

  [[nodiscard]] bool is_exact() noexcept
  {
    std::span<std::int64_t> const missing = numbers_.first(kinds_);
    std::copy_n(demands_.begin(), kinds_, missing.begin());
    for (std::size_t row = 0; row < kinds_; ++row) {
      if (!has_pattern(row)) {
        missing[columns_[row] - surplus] += amounts_[row];
        continue;
      }
      for (auto const [kind, times] : patterns_[columns_[row]]) {
        missing[kind] -= times * amounts_[row];
      }
    }
    return std::all_of(missing.begin(), missing.end(), [](std::int64_t each) {
      return std::abs(each) < simplex_number::one / 4096;
    });
  }

  pattern_list const& patterns_;
  fixed_point_inverse inverse_;
  std::span<std::uint32_t> columns_;  // [row]
  std::span<std::uint32_t> wanted_;   // columns_ while the inverse is built anew
  std::span<std::uint8_t> is_settled_;
  std::span<std::int64_t> amounts_;
  std::span<std::int64_t> prices_;
  std::span<std::int64_t> demands_;
  std::span<std::int64_t> numbers_;
  std::size_t kinds_ = 0;
  std::int64_t unit_ = simplex_number::one;
  bool is_usable_ = true;
};

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

/// The sets of items that are worth most and fit a room, for every room and the first so many
/// items.
///
/// Usage       clear(), then add() the items one by one.
/// Expects     (items + 1) * (room + 1) numbers fit the table; the items are worth less than 2^31
///             together.
/// Complexity  add: O(room), in a loop without branches. 4 bytes of scratch per number of the
///             table.
/// Source      R. Bellman, "Dynamic Programming", Princeton University Press, 1957.
class pattern_knapsack {
 public:
  pattern_knapsack(std::size_t numbers, std::size_t items, workspace::frame& scratch)
      : worth_(scratch.take<std::int32_t>(numbers)), costs_(scratch.take<std::uint32_t>(items))
  {}

  [[nodiscard]] bool has_room_for(std::size_t items, cost_units room) const noexcept
  {
    return static_cast<std::size_t>(room) < worth_.size() / (items + 1);
  }

  void clear(cost_units room) noexcept
  {
    width_ = static_cast<std::size_t>(room) + 1;
    count_ = 0;
    std::fill_n(worth_.begin(), width_, 0);
  }

  /// Expects     1 <= cost <= room; worth >= 0
  void add(cost_units cost, std::int32_t worth) noexcept
  {
    auto const own = static_cast<std::size_t>(cost);
    std::int32_t const* const without = worth_.data() + count_ * width_;
    std::int32_t* const with = worth_.data() + (count_ + 1) * width_;
    std::copy_n(without, own, with);
    std::size_t const rooms = width_ - own;
    for (std::size_t left = 0; left < rooms; ++left) {
      with[left + own] = std::max(without[left + own], without[left] + worth);
    }
    costs_[count_++] = static_cast<std::uint32_t>(cost);
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  [[nodiscard]] std::int32_t most_worth() const noexcept
  {
    return worth_[count_ * width_ + width_ - 1];
  }

  /// Calls take(item) for the items of a best set among those that have `last` and items before it,
  /// `last` first, then downwards.
  template <class Take>
  void best_set_with(std::size_t last, Take const& take) const
  {
    take(last);
    std::size_t left = width_ - 1 - costs_[last];
    for (std::size_t item = last; item-- > 0;) {
      std::int32_t const* const without = worth_.data() + item * width_;
      if (without[left] == without[width_ + left]) { continue; }
      take(item);
      left -= costs_[item];
    }
  }

 private:
  std::span<std::int32_t> worth_;  // [items][room]
  std::span<std::uint32_t> costs_;
  std::size_t width_ = 1;
  std::size_t count_ = 0;
};

/// What a linear program says about a number of bags.
enum class relaxation : std::uint8_t { fits, exceeds, unknown };

/// Whether parts of patterns cover all samples with so many bags: the linear program over all
/// patterns of one room, which starts with few patterns and asks a knapsack for those that help.
///
/// With prices p_k of the kinds, sum p_k demand_k / (the most that a set is worth which fits a bag)
/// is a number of bags that no packing gets below. That is all that a proof needs, and it is
/// computed in integers, for whatever prices. Where the work fills all bags nearly, these are
/// nearly the costs. So sets are asked for at a mix of the program's prices and those that gave the
/// best number so far, first the costs; this takes fewer knapsacks. Where such a set does not help,
/// the program's own prices follow.
///
/// Usage       start(), then solve(); take() a pattern for good, then solve() for one bag less.
///             With more samples than the basis can count, they are counted in units (`unit_bits`).
/// Ensures     (1) exceeds: so many bags cannot hold the samples that are left
///             (2) fits: the program covers them with so many bags, up to what its tolerance says
/// Complexity  O(samples * room) per knapsack, a node for 8 of these.
/// Source      P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock
///             Problem", Operations Research 9(6):849-859, 1961; the bound: A. A. Farley, "A Note
///             on Bounding a Class of Linear Programming Problems", Operations Research
///             38(5):922-923, 1990; the mix: P. Wentges, "Weighted Dantzig-Wolfe Decomposition for
///             Linear Mixed-Integer Programming", Int. Trans. in Operational Research 4(2):151-162,
///             1997.
class column_generation {
 public:
  static constexpr std::size_t most_samples = 511;

  column_generation(std::size_t samples, std::size_t most_kinds, std::size_t table,
                    workspace::frame& scratch)
      : patterns_(16 * most_kinds + 1024, 64 * most_kinds + 4096, scratch),
        program_(most_kinds, patterns_, scratch),
        knapsack_(table, samples, scratch),
        left_(scratch.take<std::uint32_t>(most_kinds)),
        prices_(scratch.take<std::int32_t>(most_kinds)),
        best_prices_(scratch.take<std::int32_t>(most_kinds)),
        mixed_(scratch.take<std::int32_t>(most_kinds)),
        kind_of_(scratch.take<std::uint32_t>(samples)),
        is_covered_(scratch.take<std::uint8_t>(most_kinds)),
        pattern_(scratch.take<pattern_entry>(most_kinds))
  {}

  [[nodiscard]] bool has_room_for(std::size_t samples, std::size_t kinds,
                                  cost_units room) const noexcept
  {
    return samples <= kind_of_.size() && kinds <= left_.size() &&
           knapsack_.has_room_for(samples, room);
  }

  /// Expects     costs of the kinds in descending order, between 1 and room; has_room_for them, or
  ///             for as many of each kind as fit a bag; in units, fewer than 1024 samples
  void start(std::span<cost_units const> costs, std::span<std::uint32_t const> demands,
             cost_units room, int unit_bits = 0)
  {
    costs_ = costs;
    room_ = room;
    std::copy(demands.begin(), demands.end(), left_.begin());
    patterns_.clear();
    for (std::uint32_t kind = 0; kind < costs.size(); ++kind) {
      pattern_[0] = {kind, 1};
      (void)patterns_.add(pattern_.first(1));
    }
    add_first_fit();
    std::copy(demands.begin(), demands.end(), left_.begin());
    program_.start(demands, unit_bits);
    best_sum_ = 0;
    best_worth_ = one;
    for (std::size_t kind = 0; kind < costs.size(); ++kind) {
      best_prices_[kind] = static_cast<std::int32_t>(static_cast<int128>(costs[kind]) * one / room);
      best_sum_ += best_prices_[kind] * static_cast<std::int64_t>(demands[kind]);
    }
  }

  [[nodiscard]] relaxation solve(std::size_t bags, work_budget& nodes)
  {
    std::int64_t const enough =
        static_cast<std::int64_t>(bags) * basis().unit() + basis().tolerance();
    program_.restore(nodes);  // after take()
    for (;;) {
      program_.minimise(enough, nodes);
      if (!basis().is_usable() || nodes.spent()) { return relaxation::unknown; }
      if (basis().value() <= enough) { return relaxation::fits; }
      for (std::size_t kind = 0; kind < costs_.size(); ++kind) {
        prices_[kind] = static_cast<std::int32_t>(std::clamp<std::int64_t>(
            basis().prices()[kind] >> (simplex_number::fraction_bits - price_bits), 0, one));
      }
      std::size_t added = 0;
      for (std::int64_t const weight : {10, 0}) {
        if (fill_knapsack(weight, nodes) >
            knapsack_.most_worth() * static_cast<std::int64_t>(bags)) {
          return relaxation::exceeds;
        }
        added = add_patterns();
        if (added > 0) { break; }
      }
      if (added == 0) { return relaxation::unknown; }
    }
  }

  /// A number of bags that the samples left at the last solve() need, as proven by best_prices().
  [[nodiscard]] std::size_t least_bags() const noexcept
  {
    return best_worth_ > 0 ? static_cast<std::size_t>((best_sum_ - 1) / best_worth_ + 1) : 0;
  }

  /// Of the kinds, for least_bags(): the prices that gave it, in units of nearly a bag / 2^22.
  [[nodiscard]] std::span<std::int32_t const> best_prices() const noexcept
  {
    return best_prices_.first(costs_.size());
  }

  /// That of the last solve(), with the amounts of patterns.
  [[nodiscard]] simplex_basis const& basis() const noexcept { return program_.basis(); }

  [[nodiscard]] std::span<pattern_entry const> pattern(std::size_t row) const noexcept
  {
    return patterns_[basis().column(row)];
  }

  /// Takes the pattern of this row of the program for good. Calls give(kind, times) for what is
  /// left of it.
  template <class Give>
  void take(std::size_t row, Give const& give)
  {
    for (auto const [kind, times] : patterns_[basis().column(row)]) {
      std::uint32_t const taken = std::min(times, left_[kind]);
      left_[kind] -= taken;
      give(kind, taken);
    }
    program_.take(row);
  }

 private:
  static constexpr int price_bits = 22;  // so that most_samples are worth less than 2^31 together
  static constexpr std::int32_t one = 1 << price_bits;
  static constexpr std::int32_t least_gain = 16;
  static constexpr std::size_t most_added = 20;

  void add_first_fit()
  {
    for (std::size_t count = 1; count > 0;) {
      cost_units room = room_;
      count = 0;
      std::uint32_t bags = std::numeric_limits<std::uint32_t>::max();
      for (std::uint32_t kind = 0; kind < costs_.size(); ++kind) {
        auto const times =
            static_cast<std::uint32_t>(std::min<cost_units>(left_[kind], room / costs_[kind]));
        if (times == 0) { continue; }
        bags = std::min(bags, left_[kind] / times);
        room -= times * costs_[kind];
        pattern_[count++] = {kind, times};
      }
      for (auto const [kind, times] : pattern_.first(count)) { left_[kind] -= bags * times; }
      if (count > 0 && !patterns_.add(pattern_.first(count))) { return; }
    }
  }

  /// Prices sets by the mix, `weight` sixteenths of it the best prices. Returns what all samples
  /// are worth.
  std::int64_t fill_knapsack(std::int64_t weight, work_budget& nodes)
  {
    std::int64_t sum = 0;
    knapsack_.clear(room_);
    for (std::size_t kind = costs_.size(); kind-- > 0;) {
      mixed_[kind] = static_cast<std::int32_t>(
          (best_prices_[kind] * weight + prices_[kind] * (16 - weight)) / 16);
      sum += mixed_[kind] * static_cast<std::int64_t>(left_[kind]);
      if (mixed_[kind] == 0) { continue; }
      auto const most =
          static_cast<std::uint32_t>(std::min<cost_units>(left_[kind], room_ / costs_[kind]));
      for (std::uint32_t each = 0; each < most; ++each) {
        kind_of_[knapsack_.size()] = static_cast<std::uint32_t>(kind);
        knapsack_.add(costs_[kind], mixed_[kind]);
      }
    }
    nodes.spend(knapsack_.size() * static_cast<std::size_t>(room_) / 8 + 1);
    std::int64_t const worth = knapsack_.most_worth();
    if (static_cast<int128>(sum) * best_worth_ > static_cast<int128>(best_sum_) * worth) {
      best_sum_ = sum;
      best_worth_ = worth;
      for (std::size_t kind = 0; kind < costs_.size(); ++kind) {
        best_prices_[kind] = static_cast<std::int32_t>(mixed_[kind] * std::int64_t{one} / worth);
      }
    }
    return sum;
  }

  /// For the heaviest kind, then for the next one that no pattern of this call has, adds the best
  /// set with it, if that is worth more than one at the program's prices. Returns how many it
  /// added, or 0 where the list is full.
  std::size_t add_patterns()
  {
    std::size_t added = 0;
    std::fill_n(is_covered_.begin(), costs_.size(), std::uint8_t{0});
    for (std::size_t last = knapsack_.size(); last-- > 0 && added < most_added;) {
      if (is_covered_[kind_of_[last]] != 0) { continue; }
      std::size_t count = 0;
      std::int64_t worth = 0;
      knapsack_.best_set_with(last, [&](std::size_t item) {
        std::uint32_t const kind = kind_of_[item];
        worth += prices_[kind];
        if (count == 0 || pattern_[count - 1].kind != kind) { pattern_[count++] = {kind, 0}; }
        ++pattern_[count - 1].times;
      });
      if (worth <= one + least_gain) { continue; }
      if (!patterns_.add(pattern_.first(count))) { return 0; }
      for (auto const [kind, times] : pattern_.first(count)) { is_covered_[kind] = 1; }
      ++added;
    }
    return added;
  }

  pattern_list patterns_;
  cover_program program_;
  pattern_knapsack knapsack_;
  std::span<cost_units const> costs_;
  std::span<std::uint32_t> left_;
  std::span<std::int32_t> prices_;
  std::span<std::int32_t> best_prices_;  // of the best number of bags, best_sum_ / best_worth_
  std::span<std::int32_t> mixed_;
  std::span<std::uint32_t> kind_of_;  // of the items of the knapsack
  std::span<std::uint8_t> is_covered_;
  std::span<pattern_entry> pattern_;
  std::int64_t best_sum_ = 0;
  std::int64_t best_worth_ = one;
  cost_units room_ = 0;
};

}  // namespace ballast::inline v0::detail
