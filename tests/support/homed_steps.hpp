// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instances.hpp"  // defines: ballast_test::{instance, random_instance}

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>

#include <map>

namespace ballast_test {

/// A step whose samples lie in bags already, with everything that a policy is told about it.
struct homed_step {
  instance step;
  std::vector<ballast::bag_id> home;
  std::vector<ballast::cost_units> starting_loads;
  std::vector<std::uint32_t> speeds;
  std::vector<ballast::priced_sample> order;
  std::vector<ballast::tokens> joint_lengths = {};
  std::vector<std::uint32_t> first_part = {};
  std::vector<ballast::partition_problem::part> parts = {};

  homed_step(instance of, std::vector<std::uint32_t> const& homes,
             std::vector<ballast::cost_units> before = {})
      : step(std::move(of)), starting_loads(std::move(before)), order(step.costs.size())
  {
    for (std::uint32_t const bag : homes) { home.push_back(ballast::bag_id{bag}); }
    starting_loads.resize(step.gpus.size(), 0);
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      speeds.push_back(step.speed_of(bag));
    }
    ballast::workspace memory;
    ballast::descending_order_into(order, step.costs, memory);
  }

  [[nodiscard]] ballast::partition_problem problem() const
  {
    return {step.costs, step.lengths, order,         step.gpus,  speeds, home,
            {},         {},           joint_lengths, first_part, parts};
  }
  /// Makes samples of several that stay together, each in a bag of its own below `bags`.
  void join_several(ballast::random_source& random, std::size_t bags)
  {
    first_part.push_back(0);
    for (std::size_t sample = 0; sample < home.size(); ++sample) {
      std::map<std::size_t, ballast::tokens> at;
      ballast::tokens const shortest = step.lengths[sample];
      at[random.below(bags)] = shortest;
      for (std::size_t more = random.below(4); more > 0; --more) {
        at[random.below(bags)] += random.between(shortest, shortest + shortest / 2);
      }
      joint_lengths.push_back(0);
      ballast::tokens most = -1;
      for (auto const& [bag, length] : at) {
        joint_lengths.back() += length;
        if (length > most) { home[sample] = ballast::to_id<ballast::bag_id>(bag); }
        most = std::max(most, length);
        if (length > 0) { parts.push_back({ballast::to_id<ballast::bag_id>(bag), length}); }
      }
      first_part.push_back(static_cast<std::uint32_t>(parts.size()));
    }
  }
  [[nodiscard]] ballast::tokens moved(std::span<ballast::bag_id const> owner) const
  {
    ballast::tokens all = 0;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      if (first_part.empty()) {
        all += owner[sample] == home[sample] ? 0 : step.lengths[sample];
        continue;
      }
      for (auto part = first_part[sample]; part < first_part[sample + 1]; ++part) {
        all += owner[sample] == parts[part].bag ? 0 : parts[part].length;
      }
    }
    return all;
  }
  /// Starting loads and what the owners add to them.
  [[nodiscard]] std::vector<ballast::cost_units> loads(std::span<ballast::bag_id const> owner) const
  {
    return sums_of(assignment_of(owner), step.costs, starting_loads);
  }
};

/// A random step as random_instance draws it, in every second one with all samples at few bags, in
/// every fourth with work that bags have before, and in every third with samples joined to one. Work
/// is in units of 2^shift.
inline homed_step random_homed_step(ballast::random_source& random, std::size_t most_samples,
                                    std::size_t most_bags, std::uint32_t largest_bag, int shift = 0)
{
  instance step = random_instance(random, most_samples, most_bags, largest_bag);
  std::size_t const bags = step.gpus.size();
  std::size_t const used = random.below(2) == 0 ? bags : 1 + random.below(bags);
  std::vector<std::uint32_t> homes;
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    homes.push_back(static_cast<std::uint32_t>(random.below(used)));
  }
  std::vector<ballast::cost_units> before(bags, 0);
  if (random.below(4) == 0) {
    for (auto& load : before) { load = random.between(0, 500) << shift; }
  }
  for (auto& cost : step.costs) { cost <<= shift; }
  homed_step homed(std::move(step), homes, std::move(before));
  if (random.below(3) == 0) { homed.join_several(random, used); }
  return homed;
}

/// The fewest tokens that any plan within the limits moves, by trying all of them; nothing where
/// there is none.
inline std::optional<ballast::tokens> least_moved(homed_step const& homed,
                                                  std::vector<ballast::cost_units> const& limits)
{
  return least_of_all(homed.step.costs.size(), limits.size(),
                      [&](assignment const& places) -> std::optional<ballast::tokens> {
                        std::vector<ballast::bag_id> owner;
                        for (std::size_t const bag : places) {
                          owner.push_back(ballast::to_id<ballast::bag_id>(bag));
                        }
                        auto const loads = homed.loads(owner);
                        bool const within = std::equal(loads.begin(), loads.end(), limits.begin(),
                                                       std::less_equal<ballast::cost_units>{});
                        if (!within || !homed.step.all_fit(places)) { return std::nullopt; }
                        return homed.moved(owner);
                      });
}

}  // namespace ballast_test
