// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

namespace detail {

/// A key in an array: an integer of up to 64 bits, or an identifier.
template <class T>
concept sample_key_reference =
    (std::integral<std::remove_cvref_t<T>> || std::is_enum_v<std::remove_cvref_t<T>> ||
     identifier<std::remove_cvref_t<T>>) &&
    sizeof(T) <= sizeof(std::int64_t);

template <class>
inline constexpr bool never = false;

}  // namespace detail

/// One key per sample, read where they are: in a vector, span or other array of integers or
/// identifiers of any type. Keys say nothing but which samples have equal ones.
///
/// Expects     the array outlives the view.
class sample_keys {
 public:
  sample_keys() noexcept = default;

  template <class Array>
    requires requires(Array const& keys) {
      { *std::data(keys) } -> detail::sample_key_reference;
      { std::size(keys) } -> std::convertible_to<std::size_t>;
    }
  sample_keys(Array const& keys) noexcept  // implicit: {.together = prompts}
      : keys_(std::data(keys)),
        size_(std::size(keys)),
        read_(&read<std::remove_cvref_t<decltype(*std::data(keys))>>)
  {}

  template <class Array>
  sample_keys(Array const&) noexcept  // else a compiler lists constructors
  {
    static_assert(detail::never<Array>,
                  "limits.together and limits.apart take an array of integers or "
                  "identifiers, one for each sample; number other keys");
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// Writes the keys as integers of 64 bits, of which those are equal that are equal here.
  ///
  /// Shapes      integers[size()].
  void read_into(std::span<std::int64_t> integers) const noexcept
  {
    if (!empty()) { read_(keys_, integers); }
  }

 private:
  template <class Key>
  static void read(void const* keys, std::span<std::int64_t> integers) noexcept
  {
    auto const* next = static_cast<Key const*>(keys);
    for (std::int64_t& integer : integers) { integer = static_cast<std::int64_t>(*next++); }
  }

  void const* keys_ = nullptr;
  std::size_t size_ = 0;
  void (*read_)(void const*, std::span<std::int64_t>) noexcept = nullptr;
};

/// One value per sample, of rank_id or of std::int64_t, read where they are: a span that says what
/// is wrong with an array of other values.
///
/// Expects     the array outlives the view.
template <class Value>
class sample_values : public std::span<Value const> {
 public:
  sample_values() noexcept = default;

  template <class Array>
    requires std::convertible_to<Array const&, std::span<Value const>>
  constexpr sample_values(Array const& values) noexcept
      : std::span<Value const>(values)  // implicit: {.home = ranks}
  {}

  template <class Array>
  sample_values(Array const&) noexcept
  {
    static_assert(!identifier<Value> || detail::never<Array>,
                  "limits.home takes an array of rank_id, one for each sample; make them of "
                  "integers with to_id<rank_id>");
    static_assert(identifier<Value> || detail::never<Array>,
                  "limits.also.of takes an array of std::int64_t, one for each sample; round "
                  "other numbers in one way on all ranks");
  }
};

/// No limit on a number.
inline constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// One thing that bags have a limited amount of, such as bytes, images or rows.
///
///     {.of = images, .most_per_gpu = 3}
///
/// Shapes      of[n], or empty; most[m], one for each bag, or empty.
/// Units       of, most and most_per_gpu in one unit of the caller's.
struct cap {
  /// What each sample takes of it, not negative. Empty: its length.
  sample_values<std::int64_t> of = {};
  /// A bag of G GPUs has G times this.
  std::int64_t most_per_gpu = no_limit;
  /// What each bag as a whole has, beside most_per_gpu.
  std::span<std::int64_t const> most = {};
  /// What a sample takes is rounded up to a multiple of this.
  std::int64_t rounded_to = 1;
  /// Whether a sample, with what stays together with it, that takes more than each bag that it fits
  /// has gets a bag for itself, listed in plan.above_cap, instead of a refusal.
  bool is_soft = false;
};

/// At most four caps, held by value: nothing dangles and nothing is allocated.
class caps {
 public:
  static constexpr std::size_t most = 4;

  constexpr caps() noexcept = default;
  constexpr caps(std::initializer_list<cap> given) noexcept
  {
    for (cap const& each : given) { add(each); }
  }

  /// More than `most` the planners refuse.
  constexpr void add(cap const& each) noexcept
  {
    if (size_ < most) { caps_[size_] = each; }
    ++size_;
  }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr cap const& operator[](std::size_t at) const noexcept { return caps_[at]; }
  [[nodiscard]] constexpr cap& operator[](std::size_t at) noexcept { return caps_[at]; }

 private:
  std::array<cap, most> caps_{};
  std::size_t size_ = 0;
};

/// How many samples each bag gets.
struct counts {
  enum class rule : std::uint8_t { any, at_most, equal, filled, multiple_of };

  rule kind = rule::any;
  std::int64_t number = 1;

  [[nodiscard]] static constexpr counts at_most(std::int64_t samples) noexcept
  {
    return {rule::at_most, samples};
  }
  /// Counts differ by at most `multiple`, and all but one are multiples of it. Samples that stay
  /// together count as one.
  [[nodiscard]] static constexpr counts equal(std::int64_t multiple = 1) noexcept
  {
    return {rule::equal, multiple};
  }
  /// At least one sample, or several that stay together, in each.
  [[nodiscard]] static constexpr counts filled() noexcept { return {rule::filled, 1}; }
  /// Each a multiple; 0 is one. Samples that stay together count each.
  [[nodiscard]] static constexpr counts multiple_of(std::int64_t samples) noexcept
  {
    return {rule::multiple_of, samples};
  }

  friend constexpr bool operator==(counts, counts) = default;
};

/// What decides among plans of one makespan: see `most_level`, `fewest_moves` and `least`.
class second_objective {
 public:
  enum class kind : std::uint8_t { none, level, fewest_moves, least };

  constexpr second_objective() noexcept = default;
  explicit constexpr second_objective(kind what, std::span<std::int64_t const> of = {}) noexcept
      : what_(what), of_(of)
  {}

  [[nodiscard]] constexpr kind what() const noexcept { return what_; }
  [[nodiscard]] constexpr std::span<std::int64_t const> of() const noexcept { return of_; }

 private:
  kind what_ = kind::none;
  std::span<std::int64_t const> of_ = {};
};

/// The least largest finishing time, then the least next one, and so on.
inline constexpr second_objective most_level{second_objective::kind::level};
/// As few tokens as possible leave the GPUs that hold them, as limits.home says it.
inline constexpr second_objective fewest_moves{second_objective::kind::fewest_moves};
/// The least largest sum of this quantity, per speed. One number for each sample, not negative.
[[nodiscard]] constexpr second_objective least(std::span<std::int64_t const> of) noexcept
{
  return second_objective(second_objective::kind::least, of);
}

/// Which samples may go to which bags, as a function of the caller: samples with modules that only
/// some ranks have.
///
/// Expects     the function outlives the call; on all ranks it says the same.
class placement_filter {
 public:
  constexpr placement_filter() noexcept = default;

  template <std::predicate<sample_id, bag_id> Fits>
  constexpr placement_filter(Fits const& fits) noexcept  // implicit: {.fits = on_hopper}
      : fits_(&fits), call_([](void const* self, sample_id sample, bag_id bag) {
          return static_cast<bool>((*static_cast<Fits const*>(self))(sample, bag));
        })
  {}

  [[nodiscard]] constexpr bool empty() const noexcept { return call_ == nullptr; }
  [[nodiscard]] bool operator()(sample_id sample, bag_id bag) const
  {
    return call_(fits_, sample, bag);
  }

 private:
  void const* fits_ = nullptr;
  bool (*call_)(void const*, sample_id, bag_id) = nullptr;
};

/// Which samples may lie together in one bag, or in one cell of a grid, as a function of the caller:
/// a rule that no other limit says.
///
///     auto const no_more_than_two_videos = [&](std::span<sample_id const> together) {
///       return std::ranges::count_if(together, is_video) <= 2;
///     };
///
/// Expects     the function outlives the call; on all ranks it says the same, whatever the order;
///             what may lie together may do so with fewer.
class mix_filter {
 public:
  constexpr mix_filter() noexcept = default;

  template <std::predicate<std::span<sample_id const>> Mixes>
  constexpr mix_filter(Mixes const& mixes) noexcept  // implicit: {.mixes = at_most_two_videos}
      : mixes_(&mixes), call_([](void const* self, std::span<sample_id const> together) {
          return static_cast<bool>((*static_cast<Mixes const*>(self))(together));
        })
  {}

  [[nodiscard]] constexpr bool empty() const noexcept { return call_ == nullptr; }
  [[nodiscard]] bool operator()(std::span<sample_id const> together) const
  {
    return call_(mixes_, together);
  }

 private:
  void const* mixes_ = nullptr;
  bool (*call_)(void const*, std::span<sample_id const>) = nullptr;
};

/// What a plan has to keep to, and what decides among the shortest: all of it optional, and all of
/// it together.
///
///     partition(lengths, bags, cost, {.together = prompts, .most_per_gpu = 40'000})
///
/// Shapes      arrays of samples are empty or have one entry per sample, in sample order; of bags
///             one per bag.
struct placement_limits {
  /// Samples with the same key stay in one bag, as the answers to one prompt.
  sample_keys together = {};
  /// The rank that holds each sample now, for plan.moved and `then = fewest_moves`.
  sample_values<rank_id> home = {};
  /// A bag of G GPUs gets at most G times as many tokens: the first of the caps. Where a policy
  /// pads, each sample counts as the heaviest of its bag.
  std::int64_t most_per_gpu = no_limit;
  /// Caps beside it, up to four.
  caps also = {};
  /// Work that each bag has before the step, in the unit of the cost: counted in loads, makespan
  /// and bound, not against caps. By several quantities one for each of them, bag after bag.
  std::span<std::int64_t const> starting_loads = {};
  /// How many samples each bag gets.
  counts samples = {};
  /// Samples with the same key get different bags, as the replicas of one expert. One that has to
  /// be apart from no other has a key of its own.
  sample_keys apart = {};
  /// Which samples may go to which bags, beside what their lengths say.
  placement_filter fits = {};
  /// Which samples may lie together, beside what caps and `apart` say.
  mix_filter mixes = {};
  /// What decides among plans of the least makespan.
  second_objective then = {};
  /// How much longer than the shortest a plan may be for the second objective.
  std::uint32_t within_per_million = 0;
};

namespace detail {

/// Refuses limits that say nothing, or that no planner could read, and steps that cannot be planned
/// whatever their samples are.
[[nodiscard]] BALLAST_ONCE result<void> check_limits(placement_limits const& limits,
                                                     std::size_t samples, std::size_t bags,
                                                     std::size_t gpus, std::size_t quantities = 1);

/// Whether a cap counts the lengths of samples.
[[nodiscard]] BALLAST_ONCE bool counts_lengths(placement_limits const& limits);

}  // namespace detail

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/partition/detail/placement/limits.hpp>
#endif
