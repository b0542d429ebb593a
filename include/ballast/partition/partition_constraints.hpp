// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <iterator>

namespace ballast::inline v0 {

namespace detail {

/// A key in an array: an integer of up to 64 bits, or an identifier.
template <class T>
concept sample_key_reference =
    (std::integral<std::remove_cvref_t<T>> || std::is_enum_v<std::remove_cvref_t<T>>) &&
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
                  "constraints.together and constraints.apart take an array of integers or "
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
  sample_values(Array const& values) noexcept
      : std::span<Value const>(values)  // implicit: {.home = ranks}
  {}

  template <class Array>
  sample_values(Array const&) noexcept
  {
    static_assert(!std::is_enum_v<Value> || detail::never<Array>,
                  "constraints.home takes an array of rank_id, one for each sample; make them of "
                  "integers with to_id<rank_id>");
    static_assert(std::is_enum_v<Value> || detail::never<Array>,
                  "constraints.weights takes an array of std::int64_t, one for each sample; round "
                  "other numbers in one way on all ranks");
  }
};

/// What a plan has to keep to besides lengths, and where samples are now: all of it optional.
///
///     partition(lengths, bags, policy, cost, length, {.together = prompts, .home = ranks})
///
/// Shapes      each array is empty or has one entry per sample, in sample order.
struct partition_constraints {
  /// Samples with the same key stay in one bag, as the answers to one prompt.
  sample_keys together = {};
  /// The rank that holds each sample now, for policies that avoid movement and for plan.moved.
  sample_values<rank_id> home = {};
  /// A bag of G GPUs gets at most G times this weight: what its memory holds. The plan of a policy
  /// that ignores weights is refused where it is above; `capped` makes policies that pack keep to
  /// it. Where a policy pads, each sample weighs as much as the heaviest of its bag.
  std::int64_t most_per_gpu = no_limit;
  /// What counts against most_per_gpu and bag_capacities, and only with them. Empty: the lengths.
  sample_values<std::int64_t> weights = {};
  /// Work that each bag has before the step, in the unit of the cost: counted in loads, makespan
  /// and bound, not against most_per_gpu. One for each bag, or empty; by several quantities one for
  /// each of them, bag after bag.
  std::span<std::int64_t const> starting_loads = {};
  /// The most weight that each bag as a whole gets, beside most_per_gpu. One for each bag, or empty.
  std::span<std::int64_t const> bag_capacities = {};
  /// Each bag gets at most this many samples. This and what follows are rules: `refine` and `capped`
  /// keep them, also both with limits, and other policies are refused.
  std::int64_t most_samples = no_limit;
  /// Samples with the same key get different bags, as the replicas of one expert. One that has to
  /// be apart from no other has a key of its own.
  sample_keys apart = {};
  /// Whether a sample, with what stays together with it, that weighs more than each bag that it
  /// fits holds gets a bag for itself, listed in plan.above_cap, instead of a refusal.
  bool cap_is_soft = false;

  static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

  /// The name of a rule that was given, or nothing.
  [[nodiscard]] char const* first_rule() const noexcept
  {
    return most_samples != no_limit ? "most_samples"
           : !apart.empty()         ? "apart"
           : cap_is_soft            ? "cap_is_soft"
                                    : "";
  }
  [[nodiscard]] bool has_rules() const noexcept { return *first_rule() != '\0'; }

  /// Whether anything limits the weight of bags.
  [[nodiscard]] bool limits_bags() const noexcept
  {
    return most_per_gpu != no_limit || !bag_capacities.empty();
  }
};

namespace detail {

/// Refuses numbers of bags that are negative, or of other bags.
[[nodiscard]] inline result<void> check_bag_numbers(char const* name,
                                                    std::span<std::int64_t const> numbers,
                                                    std::size_t bags, std::int64_t most,
                                                    std::size_t quantities = 1)
{
  if (!numbers.empty() && numbers.size() != bags * quantities) {
    return fail(
        error_code::out_of_range, std::min(numbers.size(), bags * quantities), "constraints.", name,
        " has ", counted(numbers.size(), "entry"), " for ", counted(bags, "bag"), "; give ",
        quantities == 1 ? std::string("one") : concat(quantities), " for each bag, or none");
  }
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    if (numbers[at] < 0 || numbers[at] > most) {
      return fail(error_code::out_of_range, at, "constraints.", name, " has ", numbers[at],
                  " for bag ", at / quantities,
                  ", which is negative or brings the sum above 62 bits; correct it");
    }
    if (most != std::numeric_limits<std::int64_t>::max()) { most -= numbers[at]; }
  }
  return {};
}

/// Refuses constraints with values out of range.
[[nodiscard]] inline result<void> check_constraints(partition_constraints const& given,
                                                    std::size_t samples, std::size_t gpus)
{
  auto const check_count = [samples](char const* name, std::size_t count) -> result<void> {
    if (count == 0 || count == samples) { return {}; }
    return fail(error_code::out_of_range, std::min(count, samples), "constraints.", name, " has ",
                counted(count, "entry"), " for ", counted(samples, "sample"),
                "; give one for each sample, or none");
  };
  if (auto checked = check_count("together", given.together.size()); !checked) { return checked; }
  if (auto checked = check_count("apart", given.apart.size()); !checked) { return checked; }
  if (auto checked = check_count("home", given.home.size()); !checked) { return checked; }
  if (auto checked = check_count("weights", given.weights.size()); !checked) { return checked; }
  for (std::size_t sample = 0; sample < given.home.size(); ++sample) {
    if (to_index(given.home[sample]) >= gpus) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " lies on rank ",
                  to_index(given.home[sample]), " of a job of ", counted(gpus, "GPU"),
                  "; correct its home");
    }
  }
  if (given.most_per_gpu < 0) {
    return fail(error_code::out_of_range, 0, "a GPU cannot hold ", given.most_per_gpu,
                "; give the most that it holds, or no limit");
  }
  if (given.most_samples < 1) {
    return fail(error_code::out_of_range, 0, "constraints.most_samples is ", given.most_samples,
                "; give at least 1, or no limit");
  }
  if (given.cap_is_soft && !given.limits_bags()) {
    return fail(
        error_code::out_of_range, 0,
        "constraints.cap_is_soft has no most_per_gpu or bag_capacities to soften; give one");
  }
  if (!given.weights.empty() && !given.limits_bags()) {
    return fail(
        error_code::out_of_range, 0,
        "constraints.weights has no most_per_gpu to count against; give the most that a GPU "
        "holds, or no weights");
  }
  std::int64_t total = 0;
  for (std::size_t sample = 0; sample < given.weights.size(); ++sample) {
    std::int64_t const weight = given.weights[sample];
    if (weight < 0 || weight > std::numeric_limits<std::int64_t>::max() - 1 - total) {
      return fail(error_code::out_of_range, sample, "the weight ", weight, " of sample ", sample,
                  " is negative or brings the sum above 63 bits; correct it");
    }
    total += weight;
  }
  return {};
}

}  // namespace detail

}  // namespace ballast::inline v0
