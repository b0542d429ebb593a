// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cuda/device_costs.cuh>
#include <ballast/gpu/device_memory.hpp>

#include <cstdio>

// The model that prices samples for the planner prices them on the device as well. Without a GPU it
// is enough that this compiles, links and starts.
int main()
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no GPU");
    return 0;
  }
  ballast::tokens const lengths[3] = {100, 900, 200};
  ballast::cost_units costs[3] = {};
  ballast::device_array<ballast::tokens> const on_device(3);
  ballast::device_array<ballast::cost_units> const priced(3);
  cudaMemcpy(on_device.data(), lengths, sizeof(lengths), cudaMemcpyHostToDevice);
  ballast::quadratic_cost const model{.linear = 2, .quadratic = 1};
  if (ballast::costs_of(on_device.data(), 3, model, priced.data(), nullptr) != cudaSuccess) {
    return 1;
  }
  cudaMemcpy(costs, priced.data(), sizeof(costs), cudaMemcpyDeviceToHost);
  std::printf("%ld, %ld and %ld\n", costs[0], costs[1], costs[2]);
  return costs[0] == model(100) && costs[1] == model(900) && costs[2] == model(200) ? 0 : 1;
}
