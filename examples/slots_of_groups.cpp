// SPDX-License-Identifier: Apache-2.0
// Eight ranks train a transformer block in three slots, which groups of 5 and 3, of 4 and 4, and of
// all 8 ranks tile: long sequences are split over many ranks, short ones over few. Losses and
// gradients are those of one rank.

#include "common/gradient_sum.hpp"   // defines: block::sum_over_ranks
#include "common/sharded_block.hpp"  // defines: block::{sharded_block, parameters, values}

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route.hpp>
#include <ballast/sharding.hpp>

#ifdef SLOTS_OF_GROUPS_WITH_MPI
#include "common/on_processes.hpp"  // defines: on_processes
#endif

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace ballast;

constexpr std::size_t ranks = 8;
constexpr std::size_t steps = 2;
// Query heads for each of eight ranks; five and three of them have unequal shares.
constexpr block::shape model{
    .width = 24, .query_heads = 8, .kv_heads = 4, .head_dim = 3, .hidden = 32};

/// What every rank of a run finds: losses, and gradients of the last step.
struct outcome {
  std::vector<double> losses;
  block::values gradients;
};

/// Sequence s was read on rank s mod ranks. Each token of it is drawn from its number.
block::values read_tokens(placement const& as_read, rank_id rank, std::size_t step)
{
  block::values x(static_cast<std::size_t>(as_read.rows(rank)) * model.width);
  for (std::size_t sample = 0; sample < as_read.size(); ++sample) {
    for (piece const& each : as_read[to_id<sample_id>(sample)]) {
      if (each.rank != rank) { continue; }
      random_source random(1000 * step + sample);
      double* to = &x[static_cast<std::size_t>(each.row) * model.width];
      for (std::size_t at = 0; at < static_cast<std::size_t>(each.count) * model.width; ++at) {
        *to++ = static_cast<double>(random.below(2001)) / 1000 - 1;
      }
    }
  }
  return x;
}

// The mean over all tokens of |y|^2 / 2, and its gradients: this rank's share of both.
template <class Communicator>
double accumulate(Communicator& comm, slots_plan const& plan, placement const& as_read, block::in x,
                  block::parameters const& weights, block::parameters& gradients)
{
  double loss = 0;
  workspace memory;
  placement from;
  placement to;
  sharded_packs packs;
  for (std::size_t slot = 0; slot < plan.slots; ++slot) {  // as many on every rank
    place(from, plan, slot, as_read);
    place(to, plan, slot);
    auto const way = plan_route(from, to, comm.rank());
    packs.assign(plan, slot, comm.rank(), model.query_heads);
    block::values x_there(static_cast<std::size_t>(packs.rows()) * model.width);
    block::values y_there(x_there.size()), dx_there(x_there.size()), y(x.size());
    or_throw(route(comm, way, memory, rows_of(x, x_there, model.width)));
    block::sharded_block layer(model, weights, comm, packs);
    or_throw(layer.forward(x_there, y_there));  // Ulysses inside each group
    or_throw(reverse_route(comm, way, memory, rows_of(y_there, y, model.width)));

    // The sum over this rank's tokens, times the weight of one.
    loss += plan.loss_weight() *
            std::inner_product(y_there.begin(), y_there.end(), y_there.begin(), 0.0) / 2;
    for (double& each : y_there) { each *= plan.loss_weight(); }
    or_throw(layer.backward(y_there, dx_there, gradients));
  }
  return loss;
}

void print(slots_plan const& plan)
{
  for (std::size_t slot = 0; slot < plan.slots; ++slot) {
    std::printf("slot %zu: groups of", slot);
    for (std::size_t at = plan.first_group[slot]; at < plan.first_group[slot + 1]; ++at) {
      std::printf(" %u", plan.groups[at].ranks.gpus);
    }
    std::printf(", %lld units long\n", static_cast<long long>(plan.length_of(slot)));
  }
  std::printf("at most %.1f %% above the best plan\n", 100 * plan.gap());
}

template <class Communicator>
outcome train(Communicator& comm)
{
  // Each rank holds 100 tokens a slot. A token takes a rank 1000 units, and five for each head that
  // is sent: no group is larger than it has to be.
  std::vector<tokens> const lengths{800, 500, 300, 400, 390};
  sharding_cost const cost{.work = {1000, 0, 0},
                           .heads = model.query_heads,
                           .kv_heads = model.kv_heads,
                           .bytes_per_head = 5,
                           .units_per_second = 1};
  std::vector<rank_id> source;
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    source.push_back(to_id<rank_id>(sample % comm.size()));
  }
  auto const nodes = node_sizes::equal(1, comm.size());
  tokens const room = comm.size() == ranks ? 100 : no_limit;
  auto const plan = plan_slots(lengths, nodes, cost, {.most_per_gpu = room}).value();
  if (comm.rank() == rank_id{0} && comm.size() == ranks) { print(plan); }
  auto const as_read = place(lengths, source, comm.size());

  auto weights = block::random_parameters(model, /*seed=*/1);
  outcome own;
  for (std::size_t step = 0; step < steps; ++step) {
    block::parameters gradients(model);
    auto const x = read_tokens(as_read, comm.rank(), step);
    block::values const loss{accumulate(comm, plan, as_read, x, weights, gradients)};
    own.losses.push_back(block::sum_over_ranks(comm, loss)[0]);
    own.gradients = block::sum_over_ranks(comm, gradients.flat());
    weights.add(-1e-1, own.gradients);
  }
  return own;
}

outcome train_on_threads(std::size_t gpus)
{
  return run_ranks(gpus, [](thread_communicator& comm) { return train(comm); }).front();
}

bool compare(outcome const& many, outcome const& one)
{
  double losses = 0;
  double largest = 0;
  double difference = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    losses = std::max(losses, std::abs(many.losses[step] / one.losses[step] - 1));
  }
  for (std::size_t at = 0; at < one.gradients.size(); ++at) {
    largest = std::max(largest, std::abs(one.gradients[at]));
    difference = std::max(difference, std::abs(one.gradients[at] - many.gradients[at]));
  }
  bool const same = losses <= 1e-12 && difference <= 1e-12 * largest;
  std::printf("losses %.12g, then %.12g; losses and gradients of one rank%s\n", many.losses[0],
              many.losses[1], same ? "" : ", but they differ");
  if (!same) { std::printf("by %.1e and %.1e\n", losses, difference / largest); }
  return same;
}

}  // namespace

// `mpirun -np 8 slots_of_groups mpi` does the same over MPI.
int main(int argc, char** argv)
{
  try {
    bool const over_mpi = argc > 1 && std::string(argv[1]) == "mpi";
#ifdef SLOTS_OF_GROUPS_WITH_MPI
    if (over_mpi) {
      bool same = true;
      on_processes("slots_of_groups", ranks, [&](mpi_communicator& comm) {
        auto const own = train(comm);
        if (comm.rank() == rank_id{0}) { same = compare(own, train_on_threads(1)); }
      });
      return same ? 0 : 1;
    }
#endif
    if (over_mpi) { return std::fprintf(stderr, "slots_of_groups: built without MPI\n"), 1; }
    return compare(train_on_threads(ranks), train_on_threads(1)) ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "slots_of_groups: %s\n", problem.what()), 1;
  }
}
