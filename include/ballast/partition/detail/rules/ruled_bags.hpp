// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0::detail {

/// A plan that grows and shrinks by samples, and that knows what its rules admit.
///
/// In, out     loads and owner, as a policy takes them.
/// Expects     the problem has rules, and outlives this.
/// Ensures     (1) a plan made of samples that were admitted keeps the rules and the capacities
/// Complexity  admits: O(1 + the samples that have to be apart from this one); put, take: O(1);
///             24 n + 20 m bytes of scratch.
class ruled_bags {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  ruled_bags(partition_problem const& problem, std::span<cost_units> loads, std::span<bag_id> owner,
             workspace::frame& scratch)
      : problem_(problem),
        loads_(loads),
        owner_(owner),
        held_(scratch.take<std::int64_t>(problem.capacities.size())),
        taken_(scratch.take<std::int64_t>(loads.size())),
        first_(scratch.take<std::size_t>(loads.size())),
        next_(scratch.take<std::size_t>(owner.size())),
        before_(scratch.take<std::size_t>(owner.size())),
        too_heavy_(scratch.take<bool>(owner.size()))
  {
    BALLAST_EXPECTS(problem.rules != nullptr, "a plan by rules was asked for without rules");
    std::fill(held_.begin(), held_.end(), 0);
    std::fill(taken_.begin(), taken_.end(), 0);
    std::fill(first_.begin(), first_.end(), none);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      too_heavy_[sample] = problem.rules->cap_is_soft && !finds_room(sample);
    }
  }

  [[nodiscard]] std::size_t bags() const noexcept { return loads_.size(); }
  [[nodiscard]] std::size_t samples() const noexcept { return owner_.size(); }
  [[nodiscard]] std::size_t owner(std::size_t sample) const { return to_index(owner_[sample]); }
  [[nodiscard]] cost_units cost(std::size_t sample) const { return problem_.costs[sample]; }
  [[nodiscard]] bool is_empty(std::size_t bag) const { return first_[bag] == none; }
  /// Whether the sample fits a bag that holds it.
  [[nodiscard]] bool finds_room(std::size_t sample) const
  {
    if (problem_.capacities.empty()) { return true; }
    for (std::size_t bag = 0; bag < bags(); ++bag) {
      if (problem_.weights[sample] <= problem_.capacities[bag] && problem_.fits(sample, bag)) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool stands_alone(std::size_t sample) const { return too_heavy_[sample]; }
  [[nodiscard]] std::int64_t samples_in(std::size_t bag) const { return taken_[bag]; }
  /// The samples of a bag, one after the other, up to none.
  [[nodiscard]] std::size_t first(std::size_t bag) const { return first_[bag]; }
  [[nodiscard]] std::size_t next(std::size_t sample) const { return next_[sample]; }

  /// When a bag finishes that gets so much more work.
  [[nodiscard]] ratio finish(std::size_t bag, cost_units more = 0) const
  {
    return {loads_[bag] + more, problem_.speeds[bag]};
  }

  /// How many samples were joined to this one.
  [[nodiscard]] std::int64_t size_of(std::size_t sample) const
  {
    auto const sizes = problem_.rules->sample_counts;
    return sizes.empty() ? 1 : sizes[sample];
  }

  /// Whether the bag takes the sample beside what it has, one sample of that left out.
  [[nodiscard]] bool admits(std::size_t sample, std::size_t bag, std::size_t without = none) const
  {
    bool const leaves = without != none;
    if (!problem_.fits(sample, bag) ||
        taken_[bag] + size_of(sample) - (leaves ? size_of(without) : 0) >
            problem_.rules->most_samples) {
      return false;
    }
    if (too_heavy_[sample]) {
      std::size_t const other = first_[bag] == without && leaves ? next_[without] : first_[bag];
      if (other != none) { return false; }
    } else if (!held_.empty()) {
      std::int64_t const room =
          problem_.capacities[bag] - held_[bag] + (leaves ? problem_.weights[without] : 0);
      if (problem_.weights[sample] > room) { return false; }
    }
    return is_apart(sample, bag, without);
  }

  void put(std::size_t sample, std::size_t bag)
  {
    owner_[sample] = to_id<bag_id>(bag);
    next_[sample] = first_[bag];
    before_[sample] = none;
    if (first_[bag] != none) { before_[first_[bag]] = sample; }
    first_[bag] = sample;
    count(sample, bag, 1);
  }

  void take(std::size_t sample)
  {
    std::size_t const bag = owner(sample);
    std::size_t const last = before_[sample];
    (last == none ? first_[bag] : next_[last]) = next_[sample];
    if (next_[sample] != none) { before_[next_[sample]] = last; }
    owner_[sample] = to_id<bag_id>(bags());
    count(sample, bag, -1);
  }

 private:
  [[nodiscard]] bool is_apart(std::size_t sample, std::size_t bag, std::size_t without) const
  {
    auto const& rules = *problem_.rules;
    if (rules.first_group.empty()) { return true; }
    for (std::size_t at = rules.first_group[sample]; at < rules.first_group[sample + 1]; ++at) {
      std::size_t const group = rules.groups[at];
      for (std::size_t each = rules.first_member[group]; each < rules.first_member[group + 1];
           ++each) {
        std::size_t const other = rules.members[each];
        if (other != sample && other != without && owner(other) == bag) { return false; }
      }
    }
    return true;
  }

  void count(std::size_t sample, std::size_t bag, int sign)
  {
    loads_[bag] += sign * cost(sample);
    taken_[bag] += sign * size_of(sample);
    if (!held_.empty()) { held_[bag] += sign * problem_.weights[sample]; }
  }

  partition_problem const& problem_;
  std::span<cost_units> loads_;
  std::span<bag_id> owner_;
  std::span<std::int64_t> held_;
  std::span<std::int64_t> taken_;  // samples of each bag
  std::span<std::size_t> first_;
  std::span<std::size_t> next_;
  std::span<std::size_t> before_;
  std::span<bool> too_heavy_;  // for each bag that they fit, under a soft cap
};

}  // namespace ballast::inline v0::detail
