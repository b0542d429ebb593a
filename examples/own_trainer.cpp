// SPDX-License-Identifier: Apache-2.0
// A step with everything of one's own: sample, cost, policy, limits, and 37 GPUs of two speeds.

// [own_trainer]
#include <ballast/ballast.hpp>
#include <ballast/comm.hpp>
#include <ballast/core.hpp>
#include <ballast/partition.hpp>
#include <ballast/runtime.hpp>

#include <cstdio>

using namespace ballast;

struct document {  // what planning knows of a sample; documents of one prompt stay together
  tokens text, patches;
  std::int64_t prompt;
  [[nodiscard]] constexpr tokens length() const { return text + patches; }
};
constexpr auto layers = "transformer:d=4096,layers=32,gamma=0.4"_cost;
constexpr auto cost = sum_of{cost_of{layers, &document::length}, &document::patches};

struct in_turn {  // a policy: the heaviest sample to the first bag, the next to the second, ...
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace&) const
  {
    for (std::size_t bag = 0; auto const& each : problem.heaviest_first) {
      std::size_t const sample = to_index(each.sample);
      while (!problem.fits(sample, bag)) { bag = (bag + 1) % loads.size(); }
      owner[sample] = to_id<bag_id>(bag);
      loads[bag] += each.cost;
      bag = (bag + 1) % loads.size();
    }
  }
};
// [own_trainer]

std::vector<document> documents_read_by(rank_id rank)
{
  random_source random(to_index(rank));
  std::vector<document> read(24);
  for (document& each : read) {
    each = {random.between(16, 2048), random.between(0, 1024), random.between(0, 200)};
  }
  return read;
}

// [own_step]
double train_step(thread_communicator& comm, bag_layout const& bags,
                  std::vector<document> const& read)
{
  step_balancer balancer(
      comm, bags, cost, refine{in_turn{}},
      step_options<document>{.limits = {.most_per_gpu = 40'000},
                             .length_of = [](document const& each) { return each.length(); },
                             .together = [](document const& each) { return each.prompt; }});
  or_throw(balancer.plan(read));  // every step; then route() and the others
  return balancer.planned().gap();
}
// [own_step]

int main()
{
  auto machines = cluster_of({8, 8, 8, 8, 5}).value();
  machines.gpu_speeds.assign(32, 100);
  machines.gpu_speeds.resize(37, 60);  // the node of five has older GPUs
  bag_layout const bags("g8n3+g1n8+g4n1+g1n1"_bags, machines);
  auto const gaps = run_ranks(37, [&](thread_communicator& comm) {
    return train_step(comm, bags, documents_read_by(comm.rank()));
  });
  std::printf("at most %.2f %% above the best plan there is\n", 100 * gaps[0]);
}
