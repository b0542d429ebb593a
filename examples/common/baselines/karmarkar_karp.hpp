// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace baselines {

/// A group of samples: ordered by load, then by one of its members.
struct loaded_group {
  ballast::cost_units load;
  std::uint32_t index;

  friend constexpr bool operator<(loaded_group a, loaded_group b) noexcept
  {
    // Bitwise: which side is less is random, and a branch would be mispredicted half of the time.
    return static_cast<bool>(
        static_cast<int>(a.load < b.load) |
        (static_cast<int>(a.load == b.load) & static_cast<int>(a.index < b.index)));
  }
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

/// The state of the largest differencing method over m bags of one kind: partial plans, each of m
/// groups of samples, of which two are merged until one is left.
///
/// The difference of a partial plan is the load of its heaviest group less that of its lightest. A
/// sample that is in no plan yet is a plan of one group and m - 1 empty ones. Such plans, when they
/// merge, keep the largest difference of all until none of their groups is empty. So plans with
/// empty groups are never stored: they are a run of the heaviest samples left. A stored plan has m
/// groups as a heap with the lightest in front, since the most frequent merge is that of a plan and
/// one sample, which goes to that group.
///
/// A group is named by one of its members, which form a ring, so joining two groups is one swap of
/// links. Bags are members too, of the plan that stands for what bags have at the start.
///
/// Shapes      heaviest_first[n], loads[m]; n + m < 2^32.
/// Complexity  O(n log(n + m)) to merge everything; 20 (n + m) bytes of scratch.
class differenced_groups {
 public:
  differenced_groups(std::span<ballast::priced_sample const> heaviest_first,
                     std::span<ballast::cost_units const> loads, ballast::workspace::frame& scratch)
      : left_(heaviest_first),
        bags_(loads.size()),
        next_member_(scratch.take<std::uint32_t>(heaviest_first.size() + bags_)),
        groups_(scratch.take<loaded_group>((heaviest_first.size() / bags_ + 1) * bags_)),
        heap_(scratch.take<partial_plan>(heaviest_first.size() / bags_ + 1))
  {
    std::iota(next_member_.begin(), next_member_.end(), std::uint32_t{0});
    std::span<loaded_group> const first = groups_of(stored_);
    for (std::size_t bag = 0; bag < bags_; ++bag) {
      first[bag] = {loads[bag], static_cast<std::uint32_t>(heaviest_first.size() + bag)};
    }
    store_new();
  }

  /// Merges the two plans of the largest differences until all samples are in one plan.
  void merge_all()
  {
    while (!left_.empty() || plans_ > 1) {
      if (heaviest_sample_is_next()) {
        std::span<ballast::priced_sample const> const run = take_run();
        if (run.size() == bags_) {
          store_run(run);
        } else {
          add_run(take_plan(), run);
        }
      } else {
        partial_plan const plan = take_plan();
        if (heaviest_sample_is_next()) {
          add_run(plan, take_samples(1));
        } else {
          join(plan, take_plan());
        }
      }
    }
  }

  /// Writes each bag's load and the bag of each sample.
  void store(std::span<ballast::cost_units> loads, std::span<ballast::bag_id> owner) const
  {
    std::size_t const samples = owner.size();
    for (loaded_group const group : groups_of(heap_.front().place)) {
      std::uint32_t member = group.index;
      while (member < samples) { member = next_member_[member]; }
      auto const bag = ballast::to_id<ballast::bag_id>(member - samples);
      loads[ballast::to_index(bag)] = group.load;
      for (std::uint32_t at = next_member_[member]; at != member; at = next_member_[at]) {
        owner[at] = bag;
      }
    }
  }

 private:
  struct partial_plan {
    ballast::cost_units difference;
    std::uint32_t place;  ///< of its groups; the older plan has the lower one
  };

  /// The order of the heap: the largest difference in front, of equal ones the oldest.
  [[nodiscard]] static bool after(partial_plan a, partial_plan b) noexcept
  {
    return a.difference < b.difference || (a.difference == b.difference && b.place < a.place);
  }
  [[nodiscard]] static bool lighter(loaded_group a, loaded_group b) noexcept { return a < b; }
  [[nodiscard]] static bool heavier(loaded_group a, loaded_group b) noexcept { return b < a; }

  [[nodiscard]] std::span<loaded_group> groups_of(std::size_t place) const noexcept
  {
    return groups_.subspan(place * bags_, bags_);
  }

  // A sample's difference is its cost. Where that equals a plan's, the plan is older.
  [[nodiscard]] bool heaviest_sample_is_next() const noexcept
  {
    return !left_.empty() && (plans_ == 0 || left_.front().cost > heap_.front().difference);
  }

  [[nodiscard]] std::span<ballast::priced_sample const> take_samples(std::size_t count) noexcept
  {
    return std::exchange(left_, left_.subspan(count)).first(count);
  }

  /// The samples that merge to one plan before any stored plan is the next partner.
  [[nodiscard]] std::span<ballast::priced_sample const> take_run() noexcept
  {
    std::size_t count = 1;
    while (count < std::min(bags_, left_.size()) &&
           (plans_ == 0 || left_[count].cost > heap_.front().difference)) {
      ++count;
    }
    return take_samples(count);
  }

  [[nodiscard]] partial_plan take_plan() noexcept
  {
    std::pop_heap(heap_.data(), heap_.data() + plans_, after);
    return heap_[--plans_];
  }

  void put_plan(std::uint32_t place, ballast::cost_units heaviest) noexcept
  {
    heap_[plans_++] = {heaviest - groups_of(place).front().load, place};
    std::push_heap(heap_.data(), heap_.data() + plans_, after);
  }

  /// Takes the groups behind the last plan's as a new plan.
  void store_new()
  {
    std::span<loaded_group> const groups = groups_of(stored_);
    std::sort(groups.begin(), groups.end(), lighter);  // which makes them a heap
    put_plan(stored_++, groups.back().load);
  }

  void store_run(std::span<ballast::priced_sample const> run)
  {
    std::span<loaded_group> const groups = groups_of(stored_);
    for (std::size_t place = 0; place < bags_; ++place) {
      groups[place] = {run[place].cost, static_cast<std::uint32_t>(run[place].sample)};
    }
    store_new();
  }

  /// Puts the heaviest sample of the run in the lightest group, the next in the next.
  void add_run(partial_plan plan, std::span<ballast::priced_sample const> run)
  {
    std::span<loaded_group> const groups = groups_of(plan.place);
    ballast::cost_units heaviest = plan.difference + groups.front().load;
    if (run.size() == 1) {  // the usual case, which takes half the steps
      auto const [cost, sample] = run.front();
      loaded_group const lightest = groups.front();
      join_rings(lightest.index, static_cast<std::uint32_t>(sample));
      replace_front(groups, {lightest.load + cost, lightest.index});
      put_plan(plan.place, std::max(heaviest, lightest.load + cost));
      return;
    }
    std::size_t in_heap = bags_;
    for (auto const [cost, sample] : run) {
      std::pop_heap(groups.data(), groups.data() + in_heap, heavier);
      loaded_group& lightest = groups[--in_heap];
      lightest.load += cost;
      join_rings(lightest.index, static_cast<std::uint32_t>(sample));
      heaviest = std::max(heaviest, lightest.load);
    }
    while (in_heap < bags_) {
      ++in_heap;
      std::push_heap(groups.data(), groups.data() + in_heap, heavier);
    }
    put_plan(plan.place, heaviest);
  }

  /// Joins the heaviest group of one plan with the lightest of the other, and so on.
  void join(partial_plan plan, partial_plan other)
  {
    if (other.place < plan.place) { std::swap(plan, other); }
    std::span<loaded_group> const groups = groups_of(plan.place);
    std::span<loaded_group> const others = groups_of(other.place);
    std::sort(groups.begin(), groups.end(), lighter);
    std::sort(others.begin(), others.end(), lighter);
    ballast::cost_units heaviest = 0;
    for (std::size_t place = 0; place < bags_; ++place) {
      loaded_group const partner = others[bags_ - 1 - place];
      groups[place].load += partner.load;
      join_rings(groups[place].index, partner.index);
      heaviest = std::max(heaviest, groups[place].load);
    }
    std::make_heap(groups.begin(), groups.end(), heavier);
    put_plan(plan.place, heaviest);
  }

  void join_rings(std::uint32_t a, std::uint32_t b) noexcept
  {
    std::swap(next_member_[a], next_member_[b]);
  }

  std::span<ballast::priced_sample const> left_;
  std::size_t bags_;
  std::span<std::uint32_t> next_member_;
  std::span<loaded_group> groups_;
  std::span<partial_plan> heap_;
  std::size_t plans_ = 0;
  std::uint32_t stored_ = 0;
};

/// The largest differencing method: the two partial plans whose loads differ most are merged, the
/// heaviest group of one with the lightest of the other, until one plan is left.
///
/// Longest processing time decides the bag of every sample at once. This policy only decides which
/// samples are in different bags, so that differences cancel; on average it is far closer to the
/// optimum. What bags have at the start is one more partial plan. Any group may go to any bag, so
/// bags have to be of one kind: with several sizes or speeds this is longest_processing_time.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) from empty bags of one kind, makespan <= (4/3 - 1/(3m)) * optimum, and with two
///                 bags 7/6 * optimum
///             (4) equal costs go in sample order; of partial plans with equal differences the one
///                 with the older part merges first, samples last
/// Complexity  O(n log(n + m)) after the sort that the problem brings, O(m) at a time; at most
///             20 (n + m) bytes of scratch.
/// Source      N. Karmarkar, R. M. Karp, "The Differencing Method of Set Partitioning", UCB/CSD
///             82/113, 1982; (3) M. Fischetti, S. Martello, "Worst-Case Analysis of the
///             Differencing Method for the Partition Problem", Math. Programming 37, 1987, and W.
///             Michiels, J. Korst, E. Aarts, J. van Leeuwen, "Performance Ratios for the
///             Karmarkar-Karp Differencing Method", J. Combinatorial Optimization 13(1):19-32,
///             2007.
struct karmarkar_karp {
  void operator()(ballast::partition_problem const& problem, std::span<ballast::cost_units> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace& memory) const
  {
    auto const all_alike = [](std::span<std::uint32_t const> values) {
      return std::count(values.begin(), values.end(), values.front()) == std::ssize(values);
    };
    if (!all_alike(problem.gpus) || !all_alike(problem.speeds)) {
      ballast::longest_processing_time{}(problem, loads, owner, memory);
      return;
    }
    auto scratch = memory.open();
    differenced_groups groups(problem.heaviest_first, loads, scratch);
    groups.merge_all();
    groups.store(loads, owner);
  }

  friend bool operator==(karmarkar_karp, karmarkar_karp) = default;
};

}  // namespace baselines
