// SPDX-License-Identifier: Apache-2.0
// mpirun -np 8 accumulate_mpi: each rank, then each pair of ranks, trains a transformer block on
// several microbatches a step, none above a cap, and adds up their gradients. Loss and gradients
// are those of one rank that takes the whole batch at once.

#include "common/gradient_sum.hpp"       // defines: block::sum_over_ranks
#include "common/step_reader.hpp"        // defines: block::step_reader
#include "common/transformer_block.hpp"  // defines: block::{transformer_block, parameters, values}

#include <ballast/ballast.hpp>
#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/partition.hpp>
#include <ballast/runtime.hpp>

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace {

using namespace ballast;

constexpr block::shape shape;

// [accumulate]
// The mean over all tokens of |y|^2 / 2, and its gradients: this rank's share of both.
template <class Balancer>
double accumulate(Balancer& balancer, std::span<tokens const> read,
                  block::parameters const& weights, block::parameters& gradients)
{
  or_throw(balancer.plan(read));  // one gather and one agreement for all slots
  block::values const x = block::pixels(balancer.as_read(), balancer.comm().rank(), shape.width);
  block::values y(x.size());
  double const weight = balancer.loss_weight();  // of a token in the mean
  double loss = 0;
  for (auto const slot : balancer.slots()) {  // as many on every rank
    block::transformer_block layer(shape, weights, balancer.bag_comm());
    block::values x_there(slot.rows_computed() * shape.width), y_there(x_there.size());
    block::values dx_there(x_there.size());
    or_throw(slot.route(rows_of(x, x_there, shape.width)));
    or_throw(layer.forward(slot.heads(), x_there, y_there));
    or_throw(slot.reverse_route(rows_of(y_there, y, shape.width)));  // in input order

    // The sum over this rank's tokens, times the weight of one: where a cell is empty, nothing.
    loss += weight * std::inner_product(y_there.begin(), y_there.end(), y_there.begin(), 0.0) / 2;
    for (double& each : y_there) { each *= weight; }
    or_throw(layer.backward(y_there, dx_there, gradients));
  }
  return loss;
}
// [accumulate]

double largest_of(block::in values)
{
  double largest = 0;
  for (double const value : values) { largest = std::max(largest, std::abs(value)); }
  return largest;
}

bool train(mpi_communicator& comm, mpi_communicator& alone, bag_layout const& bags,
           std::size_t steps)
{
  auto weights = block::random_parameters(shape, /*seed=*/1);
  block::step_reader reader(comm.size(), comm.rank());
  constexpr auto cost = "transformer:d=16,gamma=0.405"_cost;
  // [accumulating_balancer]
  step_balancer balancer(comm, bags, cost,
                         {.microbatches = {.number = 4},
                          .limits = {.also = {{.most_per_gpu = 1024, .rounded_to = 8}}},
                          .query_heads = shape.query_heads});
  // [accumulating_balancer]
  step_balancer whole(alone, one_gpu_bags(1), cost, {.query_heads = shape.query_heads});
  bool same = true;
  for (std::size_t step = 1; step <= steps; ++step) {
    block::parameters gradients(shape);
    block::values const own{accumulate(balancer, reader.next(), weights, gradients)};
    double const loss = block::sum_over_ranks(comm, own)[0];
    auto const sum = block::sum_over_ranks(comm, gradients.flat());

    if (comm.rank() == rank_id{0}) {  // takes the whole batch at once
      block::parameters expected(shape);
      std::vector<tokens> const all = balancer.samples().samples;
      double const whole_loss = accumulate(whole, all, weights, expected);
      auto difference = expected.flat();
      double const largest = largest_of(difference);
      std::transform(difference.begin(), difference.end(), sum.begin(), difference.begin(),
                     std::minus{});
      same = same && std::abs(loss - whole_loss) <= 1e-10 * whole_loss &&
             largest_of(difference) <= 1e-10 * largest;
      std::printf(
          "%zu bags, step %zu: %zu microbatches, loss %.12g, at once %.12g; gradients "
          "differ by %.1e\n",
          bags.size(), step, balancer.slots().size(), loss, whole_loss,
          largest_of(difference) / largest);
    }
    weights.add(-1e-1, sum);
  }
  return same;
}

}  // namespace

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  bool same = false;
  try {
    auto comm = mpi_communicator::over(MPI_COMM_WORLD).value();
    auto alone = mpi_communicator::over(MPI_COMM_SELF).value();
    same = true;
    for (auto const& bags : {"g1n1"_bags, "g2n1"_bags}) {
      same = train(comm, alone, bag_layout(bags, comm.size()), 2) && same;
    }
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "accumulate_mpi: %s\n", problem.what());
    MPI_Abort(MPI_COMM_WORLD, 1);  // others may be waiting for this rank
  }
  MPI_Finalize();
  return same ? 0 : 1;
}
