// SPDX-License-Identifier: Apache-2.0
// The training of examples/trainer_mpi.cpp on threads, and each call of step_balancer by hand: both
// print the same lines. Losses and gradients are those of one rank that computes everything.

#include "../../examples/common/gradient_sum.hpp"
#include "../../examples/common/step_reader.hpp"
#include "../../examples/common/transformer_block.hpp"

#include <ballast/ballast.hpp>
#include <ballast/comm.hpp>
#include <ballast/partition.hpp>
#include <ballast/route.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using namespace ballast;

constexpr std::size_t readers = 8;

struct trained {  // in all steps
  block::values losses;
  block::values gradients;
};

trained train_by_hand(thread_communicator& comm, bag_layout const& bags, std::size_t steps)
{
  block::shape const shape;
  auto weights = block::random_parameters(shape, /*seed=*/1);
  std::vector<block::step_reader> own;
  for (std::size_t each = 0; each < readers / comm.size(); ++each) {
    own.emplace_back(readers,
                     to_id<rank_id>(to_index(comm.rank()) * (readers / comm.size()) + each));
  }
  trained found;
  constexpr auto cost = "transformer:d=16,gamma=0.405"_cost;
  auto const bag = bags.bag_of(comm.rank());
  auto in_bag = comm.split(static_cast<std::uint32_t>(bag)).value();

  for (std::size_t step = 1; step <= steps; ++step) {
    std::vector<tokens> lengths;
    for (block::step_reader& reader : own) {
      auto const more = reader.next();
      lengths.insert(lengths.end(), more.begin(), more.end());
    }
    auto const all = gather_samples(comm, lengths).value();
    auto const plan = ballast::partition(all.samples, bags, cost, {}, greedy_knapsack{}).value();
    or_throw(agree(comm, plan.digest(), "the plan"));
    auto const read = place_as_read(all);
    auto const computed = place(plan, bags).value();
    auto const to_compute = plan_route(read, computed, comm.rank());
    ulysses_plan heads;
    heads.assign(all.samples, plan.samples[bag], bags[bag].gpus, shape.query_heads);

    block::values const x = block::pixels(read, comm.rank(), shape.width);
    block::values x_there(static_cast<std::size_t>(to_compute.rows_after) * shape.width);
    block::values y_there(x_there.size());
    block::values y(x.size());
    workspace memory;
    block::transformer_block layer(shape, weights, in_bag);
    or_throw(route(comm, to_compute, memory, rows_of(x, x_there, shape.width)));
    or_throw(layer.forward(heads, x_there, y_there));
    or_throw(reverse_route(comm, to_compute, memory, rows_of(y_there, y, shape.width)));

    block::values const loss{std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2};
    block::values dx(x.size());
    block::parameters gradients(shape);
    or_throw(route(comm, to_compute, memory, rows_of(y, y_there, shape.width)));
    or_throw(layer.backward(y_there, x_there, gradients));
    or_throw(reverse_route(comm, to_compute, memory, rows_of(x_there, dx, shape.width)));

    auto const sum = block::sum_over_ranks(comm, gradients.flat());
    auto const whole_loss = block::sum_over_ranks(comm, loss);
    weights.add(-1e-7, sum);
    found.losses.push_back(whole_loss[0]);
    found.gradients.insert(found.gradients.end(), sum.begin(), sum.end());
    if (comm.rank() == rank_id{0} && comm.size() > 1) {
      block::print_step(step, whole_loss[0], sum);
    }
  }
  return found;
}

double apart(block::in found, block::in expected)
{
  double most = 0, largest = 0;
  for (std::size_t at = 0; at < expected.size(); ++at) {
    most = std::max(most, std::abs(found[at] - expected[at]));
    largest = std::max(largest, std::abs(expected[at]));
  }
  return most / largest;
}

}  // namespace

int main()
{
  auto const trained_on = [](bag_layout const& bags) {
    return run_ranks(bags.gpus(),
                     [&](thread_communicator& comm) { return train_by_hand(comm, bags, 4); })[0];
  };
  auto const several = trained_on(lay_out("g1n4+g4n1"_bags, readers).value());
  auto const one = trained_on(one_gpu_bags(1));
  bool const same = apart(several.losses, one.losses) <= 1e-10 &&
                    apart(several.gradients, one.gradients) <= 1e-10;
  return same ? 0 : 1;
}
