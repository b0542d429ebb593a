// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_GREEDY_DIFFERENCED_GROUPS_HPP
#define BALLAST_PARTITION_DETAIL_GREEDY_DIFFERENCED_GROUPS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/replace_front.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/greedy/loaded_bag.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

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
  differenced_groups(std::span<priced_sample const> heaviest_first,
                     std::span<cost_units const> loads, workspace::frame& scratch)
      : left_(heaviest_first),
        bags_(loads.size()),
        next_member_(scratch.take<std::uint32_t>(heaviest_first.size() + bags_)),
        groups_(scratch.take<loaded_bag>((heaviest_first.size() / bags_ + 1) * bags_)),
        heap_(scratch.take<partial_plan>(heaviest_first.size() / bags_ + 1))
  {
    BALLAST_EXPECTS(next_member_.size() < std::numeric_limits<std::uint32_t>::max());
    std::iota(next_member_.begin(), next_member_.end(), std::uint32_t{0});
    std::span<loaded_bag> const first = groups_of(stored_);
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
        std::span<priced_sample const> const run = take_run();
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
  void store(std::span<cost_units> loads, std::span<bag_id> owner) const
  {
    std::size_t const samples = owner.size();
    for (loaded_bag const group : groups_of(heap_.front().place)) {
      std::uint32_t member = group.index;
      while (member < samples) { member = next_member_[member]; }
      auto const bag = to_id<bag_id>(member - samples);
      loads[to_index(bag)] = group.load;
      for (std::uint32_t at = next_member_[member]; at != member; at = next_member_[at]) {
        owner[at] = bag;
      }
    }
  }

 private:
  struct partial_plan {
    cost_units difference;
    std::uint32_t place;  ///< of its groups; the older plan has the lower one
  };

  /// The order of the heap: the largest difference in front, of equal ones the oldest.
  [[nodiscard]] static bool after(partial_plan a, partial_plan b) noexcept
  {
    return precedes(a.difference, b.difference, b.place, a.place);
  }
  [[nodiscard]] static bool lighter(loaded_bag a, loaded_bag b) noexcept { return a < b; }
  [[nodiscard]] static bool heavier(loaded_bag a, loaded_bag b) noexcept { return b < a; }

  [[nodiscard]] std::span<loaded_bag> groups_of(std::size_t place) const noexcept
  {
    return groups_.subspan(place * bags_, bags_);
  }

  // A sample's difference is its cost. Where that equals a plan's, the plan is older.
  [[nodiscard]] bool heaviest_sample_is_next() const noexcept
  {
    return !left_.empty() && (plans_ == 0 || left_.front().cost > heap_.front().difference);
  }

  [[nodiscard]] std::span<priced_sample const> take_samples(std::size_t count) noexcept
  {
    return std::exchange(left_, left_.subspan(count)).first(count);
  }

  /// The samples that merge to one plan before any stored plan is the next partner.
  [[nodiscard]] std::span<priced_sample const> take_run() noexcept
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

  void put_plan(std::uint32_t place, cost_units heaviest) noexcept
  {
    heap_[plans_++] = {heaviest - groups_of(place).front().load, place};
    std::push_heap(heap_.data(), heap_.data() + plans_, after);
  }

  /// Takes the groups behind the last plan's as a new plan.
  void store_new()
  {
    std::span<loaded_bag> const groups = groups_of(stored_);
    std::sort(groups.begin(), groups.end(), lighter);  // which makes them a heap
    put_plan(stored_++, groups.back().load);
  }

  void store_run(std::span<priced_sample const> run)
  {
    std::span<loaded_bag> const groups = groups_of(stored_);
    for (std::size_t place = 0; place < bags_; ++place) {
      groups[place] = {run[place].cost, static_cast<std::uint32_t>(run[place].sample)};
    }
    store_new();
  }

  /// Puts the heaviest sample of the run in the lightest group, the next in the next.
  void add_run(partial_plan plan, std::span<priced_sample const> run)
  {
    std::span<loaded_bag> const groups = groups_of(plan.place);
    cost_units heaviest = plan.difference + groups.front().load;
    if (run.size() == 1) {  // the usual case, which takes half the steps
      auto const [cost, sample] = run.front();
      loaded_bag const lightest = groups.front();
      join_rings(lightest.index, static_cast<std::uint32_t>(sample));
      replace_front(groups, {lightest.load + cost, lightest.index});
      put_plan(plan.place, std::max(heaviest, lightest.load + cost));
      return;
    }
    std::size_t in_heap = bags_;
    for (auto const [cost, sample] : run) {
      std::pop_heap(groups.data(), groups.data() + in_heap, heavier);
      loaded_bag& lightest = groups[--in_heap];
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
    std::span<loaded_bag> const groups = groups_of(plan.place);
    std::span<loaded_bag> const others = groups_of(other.place);
    std::sort(groups.begin(), groups.end(), lighter);
    std::sort(others.begin(), others.end(), lighter);
    cost_units heaviest = 0;
    for (std::size_t place = 0; place < bags_; ++place) {
      loaded_bag const partner = others[bags_ - 1 - place];
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

  std::span<priced_sample const> left_;
  std::size_t bags_;
  std::span<std::uint32_t> next_member_;
  std::span<loaded_bag> groups_;
  std::span<partial_plan> heap_;
  std::size_t plans_ = 0;
  std::uint32_t stored_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_GREEDY_DIFFERENCED_GROUPS_HPP
