// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>

#include <cstdio>

__global__ void heaviest(ballast::ratio const* work, std::size_t gpus, ballast::rank_id* answer)
{
  std::size_t best = 0;
  for (std::size_t gpu = 1; gpu < gpus; ++gpu) {
    if (work[best] < work[gpu]) { best = gpu; }
  }
  *answer = ballast::to_id<ballast::rank_id>(best);
}

// Without a GPU it is enough that this compiles, links and starts.
int main()
{
  int devices = 0;
  cudaGetDeviceCount(&devices);
  std::printf("%d GPUs\n", devices);
  return 0;
}
