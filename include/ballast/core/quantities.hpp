// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/cancellable.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>  // also std::ranges::forward_range: <ranges> has views, 0.3 s a file
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

template <class Kind>
class basic_id;

namespace detail {

/// A number, or a position of another kind of thing.
template <class Other, class Kind>
concept counted_as = !std::same_as<Other, Kind> &&
                     (std::is_arithmetic_v<Other> || std::derived_from<Other, basic_id<Other>>);

}  // namespace detail

/// What the identifiers of one kind of thing are made of.
///
///     struct document_id : ballast::basic_id<document_id> {
///       using basic_id::basic_id;
///     };
template <class Kind>
class basic_id {
 public:
  BALLAST_HOST_DEVICE constexpr basic_id() noexcept : number_(0)  // nvcc 13 drops `{}` of a default
  {}
  template <std::integral Number>
  explicit BALLAST_HOST_DEVICE constexpr basic_id(Number number) noexcept
      : number_(static_cast<std::uint32_t>(number))
  {}
  template <class Other>
    requires(std::derived_from<Other, basic_id<Other>> && !std::same_as<Other, Kind>)
  explicit basic_id(Other) = delete;  // a position of another kind

  BALLAST_HOST_DEVICE constexpr operator std::size_t() const noexcept { return number_; }
  explicit operator bool() const = delete;  // position 0 is one like all others

  friend BALLAST_HOST_DEVICE constexpr bool operator==(Kind a, Kind b) noexcept
  {
    return a.number_ == b.number_;
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator<(Kind a, Kind b) noexcept
  {
    return a.number_ < b.number_;
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator>(Kind a, Kind b) noexcept { return b < a; }
  friend BALLAST_HOST_DEVICE constexpr bool operator<=(Kind a, Kind b) noexcept { return !(b < a); }
  friend BALLAST_HOST_DEVICE constexpr bool operator>=(Kind a, Kind b) noexcept { return !(a < b); }

  // What would take it for a number, or for a position of another kind.
  template <detail::counted_as<Kind> Other>
  friend void operator==(Kind, Other) = delete;
  template <detail::counted_as<Kind> Other>
  friend void operator<(Kind, Other) = delete;
  template <detail::counted_as<Kind> Other>
  friend void operator<(Other, Kind) = delete;
  template <class Other>
  friend void operator+(Kind, Other) = delete;
  template <detail::counted_as<Kind> Other>
  friend void operator+(Other, Kind) = delete;
  template <class Other>
  friend void operator-(Kind, Other) = delete;
  template <detail::counted_as<Kind> Other>
  friend void operator-(Other, Kind) = delete;
  template <class Other>
  friend void operator*(Kind, Other) = delete;
  template <detail::counted_as<Kind> Other>
  friend void operator*(Other, Kind) = delete;

 private:
  std::uint32_t number_;
};

/// A position of one kind of thing, which indexes arrays: lengths[sample]. It has no arithmetic and
/// does not mix with positions of other kinds; on host and device it costs what an integer does.
template <class T>
concept identifier = std::derived_from<T, basic_id<T>>;

/// Position of a sample in the global batch, in gathered order: all of rank 0's, then rank 1's.
struct sample_id : basic_id<sample_id> {
  using basic_id::basic_id;
};
/// Position of a GPU in the job, the number that MPI and NCCL use.
struct rank_id : basic_id<rank_id> {
  using basic_id::basic_id;
};
/// Position of a node in the cluster.
struct node_id : basic_id<node_id> {
  using basic_id::basic_id;
};
/// Position of a bag: of GPUs that share each of their sequences in a layout, or of samples alone,
/// as a pack or a microbatch, which any GPUs may compute later.
struct bag_id : basic_id<bag_id> {
  using basic_id::basic_id;
};
/// Position of a group of GPUs in its family: the GPUs that may share a sequence (device_groups).
struct group_id : basic_id<group_id> {
  using basic_id::basic_id;
};
/// Position of a microbatch among those that a pipeline trains on in one step.
struct microbatch_id : basic_id<microbatch_id> {
  using basic_id::basic_id;
};
/// Position of a cell in a grid of ranks and slots: slot x ranks + rank, so that the cells of a slot
/// lie next to each other. It is one microbatch of one rank.
struct cell_id : basic_id<cell_id> {
  using basic_id::basic_id;
};
/// Position of a stage in its pipeline: the layers that one forward task runs through.
struct stage_id : basic_id<stage_id> {
  using basic_id::basic_id;
};
/// Position of a group of GPUs in its pipeline; with virtual stages it has several stages.
struct pipeline_rank : basic_id<pipeline_rank> {
  using basic_id::basic_id;
};

/// The index of an identified thing in its array.
template <identifier Id>
[[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t to_index(Id id) noexcept
{
  return id;
}

/// The identifier of the thing at `index`, which must be below 2^32.
template <identifier Id>
[[nodiscard]] BALLAST_HOST_DEVICE constexpr Id to_id(std::size_t index) noexcept
{
  return Id(index);
}

/// A length, in tokens of whatever the model calls a token. Never negative in valid data.
using tokens = std::int64_t;

/// An integer amount of work, on which plans are decided. The cost model says what one unit is (a
/// power of two of FLOP, or a picosecond); all costs of one plan share it.
using cost_units = std::int64_t;

/// A time in whole units, for example nanoseconds; all times of one pipeline share the unit.
using time_units = std::int64_t;

/// The longest sample a cost model prices: its square still fits 64 bits.
inline constexpr tokens longest_sample = (tokens{1} << 31) - 1;

/// What a cost model returns for a sample without a cost: its length is below 0 or above
/// longest_sample, or its cost does not fit. Lengths come from outside the process, so this breaks
/// no precondition; `partition` and the like refuse the sample by its number.
inline constexpr cost_units no_cost = std::numeric_limits<cost_units>::max();

/// The sum of two costs; anything added to `no_cost` is `no_cost`.
///
/// Expects     a >= 0 and b >= 0.
/// Ensures     (1) a + b where that is below no_cost, else no_cost
/// Complexity  O(1).
[[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units saturating_sum(cost_units a, cost_units b)
{
  BALLAST_EXPECTS(a >= 0, "a cost of ", a, " was to be added, and the least is 0");
  BALLAST_EXPECTS(b >= 0, "a cost of ", b, " was to be added, and the least is 0");
  return b < no_cost - a ? a + b : no_cost;
}

/// A callable or a pointer to a member that gives the cost, the length or the weight of a sample as
/// an integer. With floating point, ranks could compute different plans.
template <class Function, class Sample>
concept integer_function =
    std::invocable<Function const&, Sample> &&
    std::integral<std::remove_cvref_t<std::invoke_result_t<Function const&, Sample>>>;

/// An integer_function of each of these samples.
template <class Projection, class Samples>
concept integer_projection = std::ranges::forward_range<Samples> &&
                             integer_function<Projection, std::ranges::range_reference_t<Samples>>;

}  // namespace ballast::inline v0

#ifndef __SIZEOF_INT128__
#error "ballast needs a compiler with 128-bit integers: g++, clang or nvcc on a 64-bit machine"
#endif

namespace ballast::inline v0 {

/// Room for the exact product of two 64-bit numbers, on host and device.
__extension__ typedef unsigned __int128 uint128;  // `using` cannot carry __extension__

/// An exact fraction, compared without rounding: work per GPU, where the number of GPUs differs.
///
/// Expects     numerator >= 0 and denominator >= 1.
/// Ensures     (1) the order is that of the rational numbers, so 1/2 and 2/4 are equivalent
///             (2) no comparison overflows: products are taken in 128 bits
struct ratio {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr double value() const noexcept
  {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }

  friend BALLAST_HOST_DEVICE constexpr bool operator<(ratio a, ratio b) noexcept
  {
    return cross(a.numerator, b.denominator) < cross(b.numerator, a.denominator);
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator==(ratio a, ratio b) noexcept
  {
    return cross(a.numerator, b.denominator) == cross(b.numerator, a.denominator);
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator>(ratio a, ratio b) noexcept { return b < a; }
  friend BALLAST_HOST_DEVICE constexpr bool operator<=(ratio a, ratio b) noexcept
  {
    return !(b < a);
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator>=(ratio a, ratio b) noexcept
  {
    return !(a < b);
  }

  /// How far a value is above a bound: value / bound - 1, and 0 where they are equal. Plans report
  /// it of their makespan. Expects value >= bound.
  [[nodiscard]] friend constexpr double gap_above(ratio value, ratio bound) noexcept
  {
    uint128 const whole = cross(bound.numerator, value.denominator);
    uint128 const excess = cross(value.numerator, bound.denominator) - whole;
    return excess == 0 ? 0.0 : static_cast<double>(excess) / static_cast<double>(whole);
  }

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr uint128 cross(std::int64_t a,
                                                                   std::int64_t b) noexcept
  {
    return static_cast<uint128>(static_cast<std::uint64_t>(a)) * static_cast<std::uint64_t>(b);
  }
};

/// A std::vector that takes the identifier of an element as well as its index: the bag of a sample
/// is plan.owner[sample], whether `sample` comes from plan.samples or from a loop.
///
/// Expects     identifiers and indices are below size(), as of std::vector.
template <identifier Id, class T>
class id_vector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  id_vector() = default;
  id_vector(std::vector<T> values) noexcept : std::vector<T>(std::move(values)) {}

  using std::vector<T>::operator[];
  [[nodiscard]] T& operator[](Id id) noexcept { return this->data()[to_index(id)]; }
  [[nodiscard]] T const& operator[](Id id) const noexcept { return this->data()[to_index(id)]; }
  template <identifier Other>
    requires(!std::same_as<Other, Id>)
  T& operator[](Other) const = delete;  // it is indexed by Id
};

/// What all plans share that say how good they are: when the last one finishes, and before when no
/// plan does.
///
/// Units       those of the plan; Value is an integer, or a ratio where loads are divided by
///             speeds.
/// Expects     lower_bound <= makespan.
template <class Value>
struct certified {
  Value makespan{};
  Value lower_bound{};

  /// How far the plan can be from the best one: makespan / lower_bound - 1; 0 where there is no
  /// work.
  [[nodiscard]] constexpr double gap() const noexcept
  {
    return gap_above(ratio{makespan}, ratio{lower_bound});
  }

  /// Whether no plan is better.
  [[nodiscard]] constexpr bool proven_optimal() const noexcept { return makespan == lower_bound; }

  /// Whether no plan is better by more than this share. Costs are rounded to whole units and fitted
  /// to measurements, so a gap below their resolution says nothing about time.
  [[nodiscard]] constexpr bool proven_within(double share) const noexcept { return gap() <= share; }
};

namespace detail {

/// The elements of a vector or an array to read; the second one: `count` of them, from `first` on.
///
/// Whoever includes ballast pays for its templates. To learn that a vector is a contiguous range,
/// std::span asks for 170 more of each type of element than where it is given a pointer and a size.
///
/// Expects     first + count <= items.size().
template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type const> span_of(
    Items const& items) noexcept
{
  return {items.data(), items.size()};
}

template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type const> span_of(
    Items const& items, std::size_t first, std::size_t count) noexcept
{
  return {items.data() + first, count};
}

/// The same elements to change. A span of these is another type, so it costs as many templates
/// again.
template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type> mutable_span_of(Items& items) noexcept
{
  return {items.data(), items.size()};
}

template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type> mutable_span_of(
    Items& items, std::size_t first, std::size_t count) noexcept
{
  return {items.data() + first, count};
}

/// Whether `a` comes before `b`, or, where they are equal, the next pair's first before its second:
/// the order of tuples, which take the compiler longer to compare.
template <class T, class... More>
[[nodiscard]] constexpr bool precedes(T const& a, T const& b, More const&... more)
{
  static_assert(sizeof...(more) % 2 == 0, "give pairs of values to compare");
  if constexpr (sizeof...(more) == 0) {
    return a < b;
  } else {
    return a < b || (a == b && precedes(more...));
  }
}

/// The least number from `low` to `high` that meets a condition, as `high` and all after it do.
template <class Number, class Condition>
[[nodiscard]] constexpr Number least_that(Number low, Number high, Condition const& holds)
{
  while (low < high) {
    Number const middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// How much a search may still do, in steps that it counts itself: no clock, so that every rank
/// stops at the same place. A search takes it by reference and counts down.
///
/// Ensures     (1) left() is what it began with less what was spent, and 0 where that was more, or
///                 where the planners of this thread are to stop (`cancellable`)
class work_budget {
 public:
  explicit constexpr work_budget(std::uint64_t steps) noexcept : left_(steps) {}

  [[nodiscard]] constexpr std::uint64_t left() const noexcept { return spent() ? 0 : left_; }
  [[nodiscard]] constexpr bool spent() const noexcept
  {
    return left_ == 0 || (!std::is_constant_evaluated() && cancel_scope::is_cancelled());
  }

  constexpr void spend(std::uint64_t steps) noexcept { left_ -= std::min(left_, steps); }

 private:
  std::uint64_t left_;
};

/// Puts another item in the place of the least one of a binary heap, a span: O(log n).
///
/// The hole in front first sinks to the bottom, and the item rises from there. Greedy policies make
/// the lightest bag one of the heaviest, so it seldom rises, and sinking has no branch that depends
/// on loads (R. W. Floyd's variant of heapsort's sift).
template <class Heap>
void replace_front(Heap heap, typename Heap::value_type item) noexcept
{
  std::size_t hole = 0;
  for (std::size_t child = 1; child + 1 < heap.size(); child = 2 * hole + 1) {
    child += heap[child + 1] < heap[child] ? 1U : 0U;
    heap[hole] = heap[child];
    hole = child;
  }
  if (2 * hole + 1 < heap.size()) {  // a last child without a sibling
    heap[hole] = heap[2 * hole + 1];
    hole = 2 * hole + 1;
  }
  while (hole > 0 && item < heap[(hole - 1) / 2]) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = item;
}

}  // namespace detail

}  // namespace ballast::inline v0
