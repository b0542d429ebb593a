// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/quantities.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// What numbers the rows of a jagged array: an identifier or an index.
template <class Key>
concept row_key = identifier<Key> || std::same_as<Key, std::size_t>;

template <row_key Key>
[[nodiscard]] constexpr std::size_t row_of(Key key) noexcept
{
  return static_cast<std::size_t>(key);
}

template <row_key Key>
[[nodiscard]] constexpr Key key_of_row(std::size_t row) noexcept
{
  if constexpr (identifier<Key>) {
    return to_id<Key>(row);
  } else {
    return static_cast<Key>(row);
  }
}

/// Fills compressed rows: values with one key lie in its row, in the order in which they come.
///
/// Shapes      offsets[keys + 1]; `values_for(n)` returns room for n values.
/// Expects     for_each(visit) calls visit(key, value) with the same pairs both times, and keys
///             below offsets.size() - 1.
/// Ensures     (1) row k is values[offsets[k]] to values[offsets[k + 1] - 1]
/// Complexity  O(keys) and two runs of for_each.
template <class ForEach, class ValuesFor>
constexpr void fill_rows(std::span<std::size_t> offsets, ForEach const& for_each,
                         ValuesFor const& values_for)
{
  std::size_t const keys = offsets.size() - 1;
  for (std::size_t& offset : offsets) { offset = 0; }
  for_each([offsets, keys](auto key, auto const&) {
    BALLAST_EXPECTS(row_of(key) < keys, "a value was given to row ", row_of(key), " of ", keys);
    ++offsets[row_of(key) + 1];
  });
  for (std::size_t key = 0; key < keys; ++key) { offsets[key + 1] += offsets[key]; }
  auto const values = values_for(offsets[keys]);
  // Each row's offset serves as its next place, which leaves it one row further on.
  for_each([offsets, values](auto key, auto&& value) {
    values[offsets[row_of(key)]++] = std::forward<decltype(value)>(value);
  });
  for (std::size_t key = keys; key > 0; --key) { offsets[key] = offsets[key - 1]; }
  offsets[0] = 0;
}

}  // namespace detail

/// Rows of different lengths that lie elsewhere, as in a workspace: row k is values[offsets[k]] to
/// values[offsets[k + 1] - 1]. T is const where they are to be read only.
template <detail::row_key Key, class T>
class jagged_view {
 public:
  constexpr jagged_view() noexcept = default;

  /// Shapes      offsets[keys + 1], not decreasing, the last at most values.size(); or none.
  constexpr jagged_view(std::span<std::size_t const> offsets, std::span<T> values) noexcept
      : offsets_(offsets), values_(values)
  {}

  [[nodiscard]] constexpr std::size_t size() const noexcept
  {
    return offsets_.empty() ? 0 : offsets_.size() - 1;
  }
  [[nodiscard]] constexpr bool empty() const noexcept { return size() == 0; }

  [[nodiscard]] constexpr std::span<T> operator[](Key key) const
  {
    std::size_t const row = detail::row_of(key);
    BALLAST_EXPECTS(row < size(), "row ", row, " of ", size());
    return {values_.data() + offsets_[row], offsets_[row + 1] - offsets_[row]};
  }

 private:
  std::span<std::size_t const> offsets_;
  std::span<T> values_;
};

/// Rows of different lengths, one per key: the samples of each bag, the pieces of each sample, the
/// tasks of each rank.
///
/// Stored as compressed sparse rows (all values in one array, one offset per key), so that a row is
/// a span, iteration touches memory in order, and filling it again reuses the arrays.
///
/// Ensures     (1) size() keys, some of which may have an empty row
///             (2) a row's values are in the order in which they were given
/// Complexity  filling: O(values + keys); it allocates only when either count exceeds all before.
template <detail::row_key Key, class T>
class jagged {
 public:
  jagged() = default;

  /// Every value in the row of its key: for_each(visit) calls visit(key, value) for each of them,
  /// the same ones in both of the two times that it is called.
  ///
  /// Expects     keys below `keys`.
  template <class ForEach>
  void fill(std::size_t keys, ForEach const& for_each)
  {
    offsets_.assign(keys + 1, 0);
    detail::fill_rows(detail::mutable_span_of(offsets_), for_each, [this](std::size_t values) {
      values_.resize(values);
      return values_.data();
    });
  }

  /// The values 0, 1, 2, ... as identifiers in the rows of their owners: the samples of each bag.
  ///
  /// Expects     owners below `keys`.
  void collect(std::span<Key const> owner, std::size_t keys)
    requires identifier<T>
  {
    fill(keys, [owner](auto const& visit) {
      for (std::size_t at = 0; at < owner.size(); ++at) { visit(owner[at], to_id<T>(at)); }
    });
  }

  /// Rows of so many values each, `length_of(row)` for row 0, 1, 2, ..., whose content is
  /// unspecified.
  template <class LengthOf>
  void resize(std::size_t keys, LengthOf const& length_of)
  {
    clear();
    for (std::size_t row = 0; row < keys; ++row) {
      offsets_.push_back(offsets_.back() + length_of(row));
    }
    values_.resize(offsets_.back());
  }

  /// Removes all rows and keeps their memory.
  void clear()
  {
    offsets_.assign(1, 0);
    values_.clear();
  }

  /// Appends a value to the row that end_row() closes.
  void push_back(T value) { values_.push_back(std::move(value)); }

  /// Closes a row, the next one from 0 on, with the values appended since the one before.
  void end_row() { offsets_.push_back(values_.size()); }

  [[nodiscard]] std::size_t size() const noexcept
  {
    return offsets_.empty() ? 0 : offsets_.size() - 1;  // empty if it was moved from
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  [[nodiscard]] std::span<T const> operator[](Key key) const
  {
    std::size_t const row = checked(key);
    return detail::span_of(values_, offsets_[row], offsets_[row + 1] - offsets_[row]);
  }

  /// The same values to change.
  [[nodiscard]] std::span<T> row(Key key)
  {
    std::size_t const row = checked(key);
    return detail::mutable_span_of(values_, offsets_[row], offsets_[row + 1] - offsets_[row]);
  }

  /// The values of all rows, row after row.
  [[nodiscard]] std::span<T const> values() const noexcept { return detail::span_of(values_); }

  /// Where each row begins in values(), and the last one ends: size() + 1 of them.
  [[nodiscard]] std::span<std::size_t const> offsets() const noexcept
  {
    return detail::span_of(offsets_);
  }

  /// Walks over the rows as spans, in key order.
  class iterator {
   public:
    using value_type = std::span<T const>;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // the reference is a value

    iterator() = default;
    [[nodiscard]] value_type operator*() const { return (*all_)[detail::key_of_row<Key>(row_)]; }
    iterator& operator++() noexcept
    {
      ++row_;
      return *this;
    }
    iterator operator++(int) noexcept
    {
      iterator const before = *this;
      ++row_;
      return before;
    }
    friend bool operator==(iterator const&, iterator const&) = default;

   private:
    friend class jagged;
    iterator(jagged const* all, std::size_t row) noexcept : all_(all), row_(row) {}

    jagged const* all_ = nullptr;
    std::size_t row_ = 0;
  };

  [[nodiscard]] iterator begin() const noexcept { return {this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {this, size()}; }

  friend bool operator==(jagged const&, jagged const&) = default;

 private:
  [[nodiscard]] std::size_t checked(Key key) const
  {
    BALLAST_EXPECTS(detail::row_of(key) < size(), "row ", detail::row_of(key), " of ", size());
    return detail::row_of(key);
  }

  std::vector<std::size_t> offsets_ = {0};
  std::vector<T> values_;
};

}  // namespace ballast::inline v0
