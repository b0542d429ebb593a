// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0::detail {

/// Which bag a sample goes to, of those with room for it: the one that finishes it earliest, or the
/// one with the least room; of equal ones the first.
enum class room_choice : std::uint8_t { earliest, tightest };

/// A plan that is being made, and what its bags weigh.
///
/// Where there are many bags, looking at all of them for each sample takes long: bags are looked at
/// `most_looks` times, a second or so, and then there is no room.
///
/// Expects     weights and capacities; what bags have at the start weighs nothing.
/// Ensures     (1) held[b] is what the samples of bag b weigh
class bags_with_room {
 public:
  static constexpr std::uint64_t most_looks = std::uint64_t{1} << 30;

  bags_with_room(partition_problem const& problem, std::span<cost_units> loads,
                 std::span<bag_id> owner, workspace::frame& scratch)
      : problem_(problem),
        loads_(loads),
        owner_(owner),
        held_(scratch.take<std::int64_t>(loads.size())),
        looks_left_(scratch.take<std::uint64_t>(1))
  {
    looks_left_[0] = most_looks;
    BALLAST_EXPECTS(problem.capacities.size() == loads.size(), "there are capacities of ",
                    counted(problem.capacities.size(), "bag"), " for a problem of ", loads.size());
    BALLAST_EXPECTS(problem.weights.size() == owner.size(), "there are weights of ",
                    counted(problem.weights.size(), "sample"), " for a problem of ", owner.size());
    weigh();
  }

  /// Makes this plan instead: its loads and the bag of every sample.
  void replace(std::span<cost_units const> loads, std::span<bag_id const> owner) const
  {
    std::copy(loads.begin(), loads.end(), loads_.begin());
    std::copy(owner.begin(), owner.end(), owner_.begin());
    weigh();
  }

  [[nodiscard]] std::span<std::int64_t> held() const noexcept { return held_; }
  [[nodiscard]] std::span<cost_units> loads() const noexcept { return loads_; }
  [[nodiscard]] std::span<bag_id> owner() const noexcept { return owner_; }

  [[nodiscard]] bool is_overrun(std::size_t bag) const noexcept
  {
    return held_[bag] > problem_.capacities[bag];
  }

  [[nodiscard]] bool any_overrun() const noexcept
  {
    for (std::size_t bag = 0; bag < held_.size(); ++bag) {
      if (is_overrun(bag)) { return true; }
    }
    return false;
  }

  /// Takes all samples out; bags have what they had at the start.
  void clear(std::span<cost_units const> starting_loads) const
  {
    std::copy(starting_loads.begin(), starting_loads.end(), loads_.begin());
    std::fill(owner_.begin(), owner_.end(), to_id<bag_id>(loads_.size()));
    std::fill(held_.begin(), held_.end(), 0);
  }

  void put(std::size_t sample, std::size_t bag) const noexcept
  {
    owner_[sample] = to_id<bag_id>(bag);
    held_[bag] += problem_.weights[sample];
    loads_[bag] += problem_.costs[sample];
  }

  void remove(std::size_t sample) const noexcept
  {
    std::size_t const bag = to_index(owner_[sample]);
    owner_[sample] = to_id<bag_id>(loads_.size());
    held_[bag] -= problem_.weights[sample];
    loads_[bag] -= problem_.costs[sample];
  }

  /// Counts bags that are looked at. Returns whether there were so many looks left.
  [[nodiscard]] bool look_at(std::size_t bags) const noexcept
  {
    bool const may_look = looks_left_[0] >= bags;
    looks_left_[0] -= may_look ? bags : looks_left_[0];
    return may_look;
  }

  /// Puts a sample in the bag of this choice, if any has room. O(m).
  [[nodiscard]] bool place(std::size_t sample, room_choice choice) const noexcept
  {
    if (!look_at(4 * loads_.size())) { return false; }  // each takes as long as four of a heap
    std::int64_t const weight = problem_.weights[sample];
    std::size_t best = loads_.size();
    ratio best_finish;
    for (std::size_t bag = 0; bag < loads_.size(); ++bag) {
      std::int64_t const room = problem_.capacities[bag] - held_[bag];
      if (room < weight || !problem_.fits(sample, bag)) { continue; }
      ratio const finish{loads_[bag] + problem_.costs[sample], problem_.speeds[bag]};
      bool const better =
          best == loads_.size() ||
          (choice == room_choice::earliest ? finish < best_finish
                                           : room < problem_.capacities[best] - held_[best]);
      if (better) {
        best = bag;
        best_finish = finish;
      }
    }
    if (best < loads_.size()) { put(sample, best); }
    return best < loads_.size();
  }

  /// Places all samples in this order. Returns whether all found room; those that did not have no
  /// bag.
  [[nodiscard]] bool fill(std::span<priced_sample const> order, room_choice choice) const noexcept
  {
    bool all = true;
    for (priced_sample const each : order) { all = place(to_index(each.sample), choice) && all; }
    return all;
  }

 private:
  void weigh() const
  {
    std::fill(held_.begin(), held_.end(), 0);
    for (std::size_t sample = 0; sample < owner_.size(); ++sample) {
      if (to_index(owner_[sample]) < held_.size()) {
        held_[to_index(owner_[sample])] += problem_.weights[sample];
      }
    }
  }

  partition_problem problem_;
  std::span<cost_units> loads_;
  std::span<bag_id> owner_;
  std::span<std::int64_t> held_;
  std::span<std::uint64_t> looks_left_;  // of all copies
};

}  // namespace ballast::inline v0::detail
