// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_DEALT_PLAN_HPP
#define BALLAST_TESTS_SUPPORT_DEALT_PLAN_HPP

#include "direct_problem.hpp"

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace ballast_test {

/// A plan that deals the samples out in turn, without a look at costs or weights: a start for
/// searches. Expects samples that fit all bags.
struct dealt_plan {
  direct_problem given;
  std::vector<ballast::cost_units> loads;
  std::vector<ballast::bag_id> owner = {};
  ballast::workspace memory = {};

  explicit dealt_plan(direct_problem problem)
      : given(std::move(problem)), loads(given.step.gpus.size(), 0)
  {
    for (std::size_t sample = 0; sample < given.step.costs.size(); ++sample) {
      std::size_t const bag = sample % loads.size();
      owner.push_back(ballast::to_id<ballast::bag_id>(bag));
      loads[bag] += given.step.costs[sample];
    }
  }
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_DEALT_PLAN_HPP
