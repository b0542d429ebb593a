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

}  // namespace ballast::inline v0::detail
