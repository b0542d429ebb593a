// SPDX-License-Identifier: Apache-2.0
// Four ranks, here threads, that read samples of different lengths, move them to where the plan
// wants them, and back.

// [first_step]
#include <ballast/ballast.hpp>

#include <cstdio>
#include <vector>

int main()
{
  using namespace ballast;
  constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
  bag_layout const bags("g2n1+g1n2"_bags, 4);
  std::vector<std::vector<tokens>> const read = {{9000, 300}, {400}, {2500, 800, 100}, {1200}};

  run_ranks(4, [&](auto& comm) {  // mpi_communicator and nccl_communicator have the same calls
    step_balancer balancer(comm, bags, cost, refine{});
    or_throw(balancer.plan(read[comm.rank()]));  // every step, and what follows

    std::vector<float> x(balancer.rows_read() * 16);  // 16 numbers for each token
    std::vector<float> x_there(balancer.rows_computed() * 16);
    or_throw(balancer.route(rows_of(x, x_there, 16)));
    // here the model computes x_there, with attention inside the bags
    or_throw(balancer.reverse_route(rows_of(x_there, x, 16)));
    std::printf("rank %zu: %5zu tokens read, %5zu to compute\n", to_index(comm.rank()),
                balancer.rows_read(), balancer.rows_computed());
  });
}
// [first_step]
