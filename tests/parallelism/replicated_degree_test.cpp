// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_problem.hpp>  // first: proves it is self-contained

#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"

#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/simulate_orchestration.hpp>

namespace {

using ballast::module_layout;
using ballast::orchestrated_degree;
using ballast::replicated_degree;

TEST(ReplicatedDegree, IsThatOfTheGpuWithMostItems)  // Ensures (1)
{
  orchestrated_degree const one{1, 100, 200, 90, 10, 20, 61, 50};
  // Ten images on four GPUs: one has three.
  EXPECT_EQ(replicated_degree(one, 4, 10), (orchestrated_degree{4, 30, 60, 27, 10, 20, 16, 15, 4}));
  EXPECT_EQ(replicated_degree(one, 8, 4).forward, 25) << "four GPUs have none";
  EXPECT_EQ(replicated_degree(one, 1, 10), one);
}

TEST(ReplicatedDegree, ReducesGradientsInsideTheNodeFirst)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].bytes_per_second = 1'000'000'000'000;  // a byte in a picosecond
  auto& degrees = problem.modules[0].degrees;
  auto const step = [&](module_layout const& vision) {
    return price_orchestration(problem, std::vector<module_layout>{vision, {1, 1, 4}})->step;
  };
  auto const alone = step({1, 1, 4});
  degrees[1] = replicated_degree(degrees[0], 2, 1);
  // One image: as long as on one GPU. 3 / 4 of 40 bytes of weights and gradients, and half of it.
  EXPECT_EQ(alone - step({2, 1, 4}), 30 - 15);
}

}  // namespace
