// SPDX-License-Identifier: Apache-2.0
// Prints digests of what ballast::compiled has: plans, grids, packings, orders, layouts and steps.
#include <ballast/ballast.hpp>
#include <ballast/core.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/partition.hpp>
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

void print(char const* name, std::size_t number, auto const& plan)
{
  if (plan) {
    std::printf("%s %zu: %lx\n", name, number, plan->digest());
  } else {
    std::printf("%s %zu: %s\n", name, number, plan.error().message.c_str());
  }
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
    print(name, count, plan);
  }
}

template <std::size_t D>
void print_vector_plan()
{
  ballast::random_source random(9);
  auto const bags = ballast::one_gpu_bags(6);
  auto const cost = [](tokens length) {
    ballast::cost_vector<D> costs{};
    for (std::size_t d = 0; d < D; ++d) { costs[d] = length % (1000 + 700 * static_cast<int>(d)); }
    return costs;
  };
  for (std::size_t count = 0; count < 60; count += 11) {
    print("vectors", D, ballast::partition(drawn_lengths(random, count), bags, cost));
    print("vectors, equal counts", D,
          ballast::partition(drawn_lengths(random, count), bags, cost,
                             {.samples = ballast::counts::equal()}));
  }
}

void print_grids_and_packings()
{
  ballast::random_source random(10);
  ballast::quadratic_cost const cost{.linear = 3072, .quadratic = 1};
  for (std::size_t count = 0; count < 60; count += 7) {
    auto const lengths = drawn_lengths(random, count);
    print("grid", count,
          ballast::partition_grid(lengths, ballast::one_gpu_bags(3), {.multiple_of = 2}, cost,
                                  {.most_per_gpu = 9000}));
    print("bins", count, ballast::pack(lengths, {.most_per_gpu = 9000}));
    print("bins of at most 3", count,
          ballast::pack(lengths, {.most_per_gpu = 9000, .samples = ballast::counts::at_most(3)}));
  }
}

void print_layouts()
{
  std::vector<tokens> const sizes{512, 1024, 4096};
  std::vector<double> const rates{4e13, 6e13, 8e13};
  auto const reached = ballast::interpolated_throughput::make(sizes, rates).value();
  ballast::module_profile model{.name = "llm", .layers = 4, .flops = {1'000'000'000, 1000}};
  for (std::uint32_t const tp : {1U, 2U}) {
    model.degrees.push_back({tp,
                             reached,
                             reached,
                             {.layers = {1, 4},
                              .state_bytes = {1000, 4000},
                              .sizes = {0, 64},
                              .activation_bytes = {{{0, 100}, {0, 400}}}}});
  }
  std::vector<tokens> const batch{2048, 512, 700, 4000, 100, 900, 2048, 2048};
  std::vector<ballast::module_profile> const modules{model};
  auto const found = ballast::search_layouts(
      {.modules = modules,
       .sizes = batch,
       .global_batch = 8,
       .kinds = {{.gpus = 4, .gpus_per_node = 4, .memory_bytes = std::uint64_t{1} << 30}}},
      batch);
  if (found) {
    std::printf("layout: %ld\n", found->layouts.front().simulated);
  } else {
    std::printf("layout: %s\n", found.error().message.c_str());
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

// A step of all that ballast.hpp has: ranks, slots, padded batches, and rows that go there and back.
void print_steps()
{
  auto const padded = [](tokens source, tokens target) { return 3 * source + 2 * target; };
  auto const digests = ballast::run_ranks(3, [&](auto& comm) {
    ballast::random_source random(ballast::to_index(comm.rank()));
    auto const read = drawn_lengths(random, 5);
    auto const bags = ballast::one_gpu_bags(3);
    ballast::quadratic_cost const cost{.linear = 3072, .quadratic = 1};
    ballast::step_balancer one(comm, bags, cost, ballast::refine{});
    ballast::step_balancer several(comm, bags, cost,
                                   {.microbatches = {}, .limits = {.most_per_gpu = 9000}});
    ballast::step_balancer batches(comm, bags, padded, {.microbatches = {.number = 2}});
    ballast::or_throw(one.plan(read));
    ballast::or_throw(several.plan(read));
    ballast::or_throw(batches.plan(read));
    std::vector<float> x(one.rows_read(), 1.0F), there(one.rows_computed()), back(one.rows_read());
    ballast::or_throw(one.route(ballast::rows_of(x, there)));
    ballast::or_throw(one.reverse_route(ballast::rows_of(there, back)));
    return std::array{one.planned().digest(), several.slots().size(), batches.grid().digest(),
                      std::uint64_t{x == back}};
  });
  for (auto const& each : digests) {
    std::printf("step: %lx, %lu, %lx, %lu\n", each[0], each[1], each[2], each[3]);
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
  print_vector_plan<1>();
  print_vector_plan<2>();
  print_vector_plan<3>();
  print_grids_and_packings();
  print_layouts();
  print_orders();
  print_steps();
}
