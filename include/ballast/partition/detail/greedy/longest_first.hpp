// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace ballast::inline v0::detail {

/// A bag as greedy policies see it: ordered by load, then by number.
struct loaded_bag {
  cost_units load;
  std::uint32_t index;

  friend constexpr bool operator<(loaded_bag a, loaded_bag b) noexcept
  {
    // Bitwise: which side is less is random, and a branch would be mispredicted half of the time.
    return static_cast<bool>(
        static_cast<int>(a.load < b.load) |
        (static_cast<int>(a.load == b.load) & static_cast<int>(a.index < b.index)));
  }
};

/// Whether all bags have one size and one speed, so that every sample fits every bag and takes the
/// same time in each.
[[nodiscard]] inline bool one_kind_of_bags(partition_problem const& problem) noexcept
{
  auto const all_like_the_first = [](std::span<std::uint32_t const> values) {
    return std::count(values.begin(), values.end(), values.front()) == std::ssize(values);
  };
  return all_like_the_first(problem.gpus) && all_like_the_first(problem.speeds);
}

/// The bags of one size and speed, as a binary heap with the lightest in front.
struct identical_bags {
  std::uint32_t gpus;
  std::uint32_t speed;
  std::span<loaded_bag> heap;

  [[nodiscard]] loaded_bag lightest() const noexcept { return heap.front(); }

  void add_to_lightest(cost_units cost) noexcept
  {
    replace_front(heap, {heap.front().load + cost, heap.front().index});
  }
};

/// The lightest bag of every kind. A greedy policy looks at no other: among identical bags, those
/// of one size and speed, the lightest is the least occupied and has the most room.
///
/// Ensures     (1) kinds are in increasing order of size and then of speed, each with at least one
///                 bag
/// Complexity  O(m log m) to build, 16 bytes of scratch per bag.
class lightest_bags {
 public:
  lightest_bags(partition_problem const& problem, std::span<cost_units const> loads,
                workspace::frame& scratch)
      : bags_(scratch.take<loaded_bag>(loads.size())),
        kinds_(scratch.take<identical_bags>(loads.size()))
  {
    for (std::size_t index = 0; index < loads.size(); ++index) {
      bags_[index] = {loads[index], static_cast<std::uint32_t>(index)};
    }
    // Sizes above speeds in one word, which compares as the pair does.
    auto const kind_of = [&problem](loaded_bag bag) {
      return std::uint64_t{problem.gpus[bag.index]} << 32U | problem.speeds[bag.index];
    };
    std::sort(bags_.begin(), bags_.end(), [&kind_of](loaded_bag a, loaded_bag b) {
      std::uint64_t const kind_a = kind_of(a);
      std::uint64_t const kind_b = kind_of(b);
      return kind_a < kind_b || (kind_a == kind_b && a < b);
    });
    // A sorted run already is a heap.
    for (std::size_t first = 0; first < bags_.size();) {
      std::uint64_t const kind = kind_of(bags_[first]);
      std::size_t last = first;
      while (last < bags_.size() && kind_of(bags_[last]) == kind) { ++last; }
      std::uint32_t const bag = bags_[first].index;
      kinds_[count_++] = {problem.gpus[bag], problem.speeds[bag],
                          bags_.subspan(first, last - first)};
      first = last;
    }
  }

  [[nodiscard]] std::span<identical_bags> kinds() const noexcept { return kinds_.first(count_); }

  void store(std::span<cost_units> loads) const noexcept
  {
    for (loaded_bag const each : bags_) { loads[each.index] = each.load; }
  }

 private:
  std::span<loaded_bag> bags_;
  std::span<identical_bags> kinds_;
  std::size_t count_ = 0;
};

/// Longest processing time first over bags of one kind, without a priority queue.
///
/// Bags lie in order of load. The samples go to the first bag, the second, ... while the next bag
/// is still lighter than the lightest of those that got one in this round: a priority queue would
/// give the same bags. Then the bags are sorted again. Samples come heaviest first, so a bag that
/// got one is nearly always heavier than those that wait, and a round is about as long as there are
/// bags. Where rounds are short, as with one bag that starts far lighter than the others, a heap
/// takes over for as many samples as there are bags.
///
/// A bag is one word, its load above its number, so words order bags by load, then by number.
///
/// Shapes      heaviest_first[n], loads[m], owner[n]; m >= 1.
/// In, out     loads enters as work that each bag already has and leaves as the total.
/// Ensures     (1) each sample goes to the lightest bag, of equally light ones to the one with the
///                 lowest number
///             (2) where a load and a number do not fit one word, it does nothing and returns false
/// Complexity  O(n) where rounds are about m long and O(n log m) at worst; 16 m bytes of scratch.
[[nodiscard]] inline bool assign_in_rounds(std::span<priced_sample const> heaviest_first,
                                           std::span<cost_units> loads, std::span<bag_id> owner,
                                           workspace& memory)
{
  BALLAST_EXPECTS(!loads.empty() && owner.size() == heaviest_first.size());
  std::size_t const bags = loads.size();
  auto const number_bits = static_cast<int>(std::bit_width(bags - 1));
  std::uint64_t total = 0;
  std::uint64_t largest = 0;
  for (cost_units const load : loads) {
    total += static_cast<std::uint64_t>(load);
    largest = std::max(largest, static_cast<std::uint64_t>(load));
  }
  for (auto const [cost, sample] : heaviest_first) { total += static_cast<std::uint64_t>(cost); }
  // The lightest bag is never above the mean, so no bag gets above the mean by more than a sample.
  if (!heaviest_first.empty()) {
    auto const heaviest = static_cast<std::uint64_t>(heaviest_first.front().cost);
    largest = std::max(largest, total / bags + heaviest);
  }
  if (static_cast<int>(std::bit_width(largest)) + number_bits > 64) { return false; }

  auto scratch = memory.open();
  std::span<std::uint64_t> const words = scratch.take<std::uint64_t>(bags);
  std::span<std::uint64_t> const spare = scratch.take<std::uint64_t>(bags);
  for (std::size_t bag = 0; bag < bags; ++bag) {
    words[bag] = (static_cast<std::uint64_t>(loads[bag]) << number_bits) | bag;
  }
  std::uint64_t const number_mask = (std::uint64_t{1} << number_bits) - 1;
  auto const with = [&](std::uint64_t word, priced_sample placed) {
    owner[to_index(placed.sample)] = to_id<bag_id>(word & number_mask);
    return word + (static_cast<std::uint64_t>(placed.cost) << number_bits);
  };

  radix_sort(words, spare);
  for (std::span<priced_sample const> left = heaviest_first; !left.empty();) {
    std::size_t const most = std::min(bags, left.size());
    std::uint64_t lightest_given = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t heaviest_given = 0;
    std::size_t given = 0;
    for (; given < most && words[given] < lightest_given; ++given) {
      words[given] = with(words[given], left[given]);
      lightest_given = std::min(lightest_given, words[given]);
      heaviest_given = std::max(heaviest_given, words[given]);
    }
    left = left.subspan(given);
    if (left.empty()) { break; }
    // Bags above all that got a sample are in order, among them the few with a giant sample.
    auto const* const above =
        std::upper_bound(words.data() + given, words.data() + words.size(), heaviest_given);
    auto const end = static_cast<std::size_t>(above - words.data());
    radix_sort(words.first(end), spare.first(end));

    if (given < bags / 8) {
      std::span<priced_sample const> const next = left.first(std::min(bags, left.size()));
      for (priced_sample const placed : next) {  // what is sorted is a heap
        replace_front(words, with(words.front(), placed));
      }
      left = left.subspan(next.size());
      radix_sort(words, spare);
    }
  }
  for (std::uint64_t const word : words) {
    loads[word & number_mask] = static_cast<cost_units>(word >> number_bits);
  }
  return true;
}

#ifndef BALLAST_COMPILED
BALLAST_ONCE void assign_longest_first(partition_problem const& problem,
                                       std::span<cost_units> loads, std::span<bag_id> owner,
                                       workspace& memory)
{
  expect_policy_arrays(problem, loads, owner);
  if (one_kind_of_bags(problem) && assign_in_rounds(problem.heaviest_first, loads, owner, memory)) {
    return;
  }
  auto scratch = memory.open();
  lightest_bags const bags(problem, loads, scratch);

  for (auto const [cost, sample] : problem.heaviest_first) {
    // The smallest bags take every sample, so lengths are looked up only where sizes differ.
    identical_bags* best = &bags.kinds().front();
    ratio best_finish{best->lightest().load + cost, best->speed};
    for (identical_bags& kind : bags.kinds().subspan(1)) {
      if (!partition_problem::splits(problem.lengths[to_index(sample)], kind.gpus)) { break; }
      ratio const finish{kind.lightest().load + cost, kind.speed};
      if (finish < best_finish) {
        best = &kind;
        best_finish = finish;
      }
    }
    owner[to_index(sample)] = to_id<bag_id>(best->lightest().index);
    best->add_to_lightest(cost);
  }
  bags.store(loads);
}
#endif

template <std::size_t D>
void assign_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                    std::span<bag_id> owner, workspace& memory)
{
  expect_policy_arrays<D>(problem, loads, owner);
  auto scratch = memory.open();
  std::span<cost_units> const largest = scratch.take<cost_units>(owner.size());
  std::transform(
      problem.costs.begin(), problem.costs.end(), largest.begin(),
      [](cost_vector<D> const& cost) { return *std::max_element(cost.begin(), cost.end()); });
  std::span<priced_sample> const order = scratch.take<priced_sample>(owner.size());
  descending_order_into(order, largest, memory);
  auto const assign = [&](auto bags) {
    for (priced_sample const each : order) {
      std::size_t const sample = to_index(each.sample);
      std::size_t const bag = bags.earliest(sample);
      bags.add(sample, bag);
      owner[sample] = to_id<bag_id>(bag);
      for (std::size_t d = 0; d < D; ++d) { loads[bag][d] += problem.costs[sample][d]; }
    }
  };
  if (problem.one_speed() && problem.any_bag_is_open()) {
    assign(earliest_vectors<D, true>(problem, loads, scratch));
  } else {
    assign(earliest_vectors<D>(problem, loads, scratch));
  }
}

}  // namespace ballast::inline v0::detail
