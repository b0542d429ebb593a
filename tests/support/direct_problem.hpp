// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_DIRECT_PROBLEM_HPP
#define BALLAST_TESTS_SUPPORT_DIRECT_PROBLEM_HPP

#include "brute_force.hpp"  // defines: ballast_test::instance

#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ballast_test {

/// An instance as policies see it, for tests of what lies behind the front door.
struct direct_problem {
  instance step;
  std::vector<std::int64_t> weights = {};
  std::vector<std::int64_t> capacities = {};
  std::vector<ballast::priced_sample> heaviest_first = {};
  std::vector<std::uint32_t> speeds = {};

  explicit direct_problem(instance of, std::vector<std::int64_t> weighing = {},
                          std::vector<std::int64_t> holding = {})
      : step(std::move(of)),
        weights(std::move(weighing)),
        capacities(std::move(holding)),
        heaviest_first(step.costs.size())
  {
    ballast::workspace memory;
    ballast::descending_order_into(heaviest_first, step.costs, memory);
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      speeds.push_back(step.speed_of(bag));
    }
  }

  [[nodiscard]] ballast::partition_problem view() const
  {
    return {step.costs, step.lengths, heaviest_first, step.gpus, speeds, {}, weights, capacities};
  }
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_DIRECT_PROBLEM_HPP
