// SPDX-License-Identifier: Apache-2.0
// Prints digests of what ballast::compiled has: plans of its policies, and orders.
#include <ballast/ballast.hpp>
#include <ballast/core.hpp>
#include <ballast/pipeline.hpp>

#include <cstdio>

namespace {

using ballast::tokens;

std::vector<tokens> drawn_lengths(ballast::random_source& random, std::size_t count)
{
  std::vector<tokens> lengths(count);
  for (tokens& length : lengths) { length = 1 + static_cast<tokens>(random.below(4000)); }
  return lengths;
}

template <class Policy>
void print_plan(char const* name, Policy const& policy)
{
  ballast::random_source random(7);
  auto const bags = ballast::one_gpu_bags(6);
  ballast::quadratic_cost const cost{.linear = 3072, .quadratic = 1};
  for (std::size_t count = 0; count < 60; count += 7) {
    ballast::placement_limits limits;
    limits.most_per_gpu = 4000 * 10;
    auto const plan = ballast::partition(drawn_lengths(random, count), bags, cost, limits, policy);
    if (plan) {
      std::printf("%s %zu: %lx\n", name, count, plan->digest());
    } else {
      std::printf("%s %zu: %s\n", name, count, plan.error().message.c_str());
    }
  }
}

void print_orders()
{
  ballast::random_source random(8);
  auto const stages = ballast::chain_of_stages(4, 4);
  for (std::size_t microbatches = 1; microbatches < 9; ++microbatches) {
    std::vector<tokens> const images = drawn_lengths(random, microbatches);
    ballast::pipeline_times const times(
        microbatches, 4, [&](std::size_t microbatch, std::size_t stage) {
          ballast::time_units const forward = stage == 0 ? images[microbatch] : 2000;
          return ballast::stage_time{forward, 2 * forward};
        });
    auto const schedule =
        ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, microbatches);
    auto const plan =
        ballast::order_microbatches(schedule.value(), times, ballast::local_search{}).value();
    std::printf("order of %zu: %lx, %ld\n", microbatches, plan.digest(), plan.makespan);
  }
}

}  // namespace

int main(int argc, char** argv)
{
#ifdef BALLAST_COMPILED
  std::string_view const built = "compiled";
#else
  std::string_view const built = "headers";
#endif
  if (argc > 1 && argv[1] != built) { return 1; }
  print_plan("refine", ballast::refine{});
  print_plan("longest_processing_time", ballast::longest_processing_time{});
  print_plan("greedy_knapsack", ballast::greedy_knapsack{});
  print_orders();
}
