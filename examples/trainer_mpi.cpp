// SPDX-License-Identifier: Apache-2.0
// mpirun -np 8 trainer_mpi: trains a transformer block over MPI, every step balanced over compute
// bags.

#include "common/gradient_sum.hpp"       // defines: block::{sum_over_ranks, print_step}
#include "common/step_reader.hpp"        // defines: block::step_reader
#include "common/transformer_block.hpp"  // defines: block::{transformer_block, parameters, values}

#include <ballast/ballast.hpp>
#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/partition.hpp>
#include <ballast/runtime.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <numeric>

namespace {

using namespace ballast;

// [trainer_mpi]
void train(mpi_communicator& comm, bag_layout const& bags, std::size_t steps)
{
  block::shape const shape;
  auto weights = block::random_parameters(shape, /*seed=*/1);
  block::step_reader reader(comm.size(), comm.rank());
  constexpr auto cost = "transformer:d=16,gamma=0.405"_cost;
  step_balancer balancer(comm, bags, cost, greedy_knapsack{}, {.query_heads = shape.query_heads});

  for (std::size_t step = 1; step <= steps; ++step) {
    or_throw(balancer.plan(reader.next()));
    block::transformer_block layer(shape, weights, balancer.bag_comm());

    // Forward, where the plan says; the result goes home.
    block::values const x = block::pixels(balancer.as_read(), comm.rank(), shape.width);
    block::values x_there(balancer.rows_computed() * shape.width), y_there(x_there.size());
    block::values y(x.size()), dx(x.size());
    or_throw(balancer.route(rows_of(x, x_there, shape.width)));
    or_throw(layer.forward(balancer.heads(), x_there, y_there));
    or_throw(balancer.reverse_route(rows_of(y_there, y, shape.width)));

    // The loss is |y|^2 / 2, so y is its gradient too, and takes the same two routes.
    block::values const loss{std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2};
    block::parameters gradients(shape);
    or_throw(balancer.route(rows_of(y, y_there, shape.width)));
    or_throw(layer.backward(y_there, x_there, gradients));
    or_throw(balancer.reverse_route(rows_of(x_there, dx, shape.width)));

    auto const sum = block::sum_over_ranks(comm, gradients.flat());
    auto const whole_loss = block::sum_over_ranks(comm, loss);
    weights.add(-1e-7, sum);
    if (comm.rank() == rank_id{0}) { block::print_step(step, whole_loss[0], sum); }
  }
}
// [trainer_mpi]

}  // namespace

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  try {
    auto comm = mpi_communicator::over(MPI_COMM_WORLD).value();
    auto const machine = cluster_of(comm.size(), comm.size()).value();
    train(comm, bag_layout("g1n4+g4n1"_bags, machine), 4);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "trainer_mpi: %s\n", problem.what());
    MPI_Abort(MPI_COMM_WORLD, 1);  // others may be waiting for this rank
  }
  MPI_Finalize();
}
