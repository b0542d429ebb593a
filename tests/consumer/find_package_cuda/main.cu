// SPDX-License-Identifier: Apache-2.0
#include <ballast/ballast.hpp>

#include <cstdio>

// The model that prices samples for the planner prices them on the device as well.
__global__ void price(ballast::quadratic_cost cost, ballast::tokens const* lengths,
                      ballast::cost_units* costs)
{
  costs[threadIdx.x] = cost(lengths[threadIdx.x]);
}

// Without a GPU it is enough that this compiles, links and starts.
int main()
{
  int devices = 0;
  cudaGetDeviceCount(&devices);
  std::printf("%d GPUs\n", devices);
  return 0;
}
