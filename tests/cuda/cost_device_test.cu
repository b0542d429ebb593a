// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/core/units.hpp>
#include <ballast/cost/composed_cost.hpp>
#include <ballast/cost/gamma_correction.hpp>
#include <ballast/cost/interpolated_cost.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/throughput_grid.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

using ballast::cost_of;
using ballast::cost_units;
using ballast::interpolated_cost;
using ballast::interpolated_throughput;
using ballast::longest_sample;
using ballast::quadratic_cost;
using ballast::sum_of;
using ballast::throughput_grid;
using ballast::tokens;

struct document {
  tokens patches;
  tokens text;
};

struct all_tokens {
  BALLAST_HOST_DEVICE constexpr tokens operator()(document const& sample) const
  {
    return sample.patches + sample.text;
  }
};

// Prices at every tensor-parallel degree from 1 to 9: the grid is sliced on the device.
struct over_degrees {
  throughput_grid grid;

  BALLAST_HOST_DEVICE constexpr cost_units operator()(tokens length) const
  {
    cost_units sum = 0;
    for (std::int64_t degree = 1; degree <= 9; ++degree) {
      sum = ballast::saturating_sum(sum, grid.at(degree).picoseconds(1'000'000'007, length));
    }
    return sum;
  }
};

template <class Model, class Sample>
__global__ void price(Model model, Sample const* samples, cost_units* costs, std::size_t count)
{
  std::size_t const index = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < count) { costs[index] = model(samples[index]); }
}

struct device_deleter {
  void operator()(void* memory) const { cudaFree(memory); }
};

template <class T>
std::unique_ptr<T, device_deleter> on_device(std::size_t count)
{
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
  return std::unique_ptr<T, device_deleter>(static_cast<T*>(memory));
}

template <class Model, class Sample>
void expect_same_on_device(Model const& model, std::vector<Sample> const& samples)
{
  auto const input = on_device<Sample>(samples.size());
  auto const output = on_device<cost_units>(samples.size());
  ASSERT_EQ(cudaMemcpy(input.get(), samples.data(), samples.size() * sizeof(Sample),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  auto const blocks = static_cast<unsigned>((samples.size() + 255) / 256);
  price<<<blocks, 256>>>(model, input.get(), output.get(), samples.size());
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  std::vector<cost_units> costs(samples.size());
  ASSERT_EQ(cudaMemcpy(costs.data(), output.get(), costs.size() * sizeof(cost_units),
                       cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (std::size_t index = 0; index < samples.size(); ++index) {
    ASSERT_EQ(costs[index], model(samples[index])) << "sample " << index;
  }
}

class CostOnDevice : public testing::Test {
 protected:
  void SetUp() override
  {
    int devices = 0;
    cudaError_t const found = cudaGetDeviceCount(&devices);
    if (found != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(found);
    }
  }

  // Lengths of every magnitude, and those at the limits.
  std::vector<tokens> lengths()
  {
    std::vector<tokens> all = {0, 1, 2, longest_sample - 1, longest_sample, longest_sample + 1};
    while (all.size() < 20'000) {
      all.push_back(
          static_cast<tokens>(random_.below(std::uint64_t{1} << (1 + random_.below(31)))));
    }
    return all;
  }

  ballast::random_source random_{20240607};
};

interpolated_cost measured()
{
  std::array<tokens, 4> const at = {100, 1024, 4096, 1'000'000};
  std::array<double, 4> const linear = {90e12, 380e12, 400e12, 410e12};
  std::array<double, 4> const attention = {10e12, 120e12, 240e12, 300e12};
  return {.linear = interpolated_throughput::from(at, linear).value(),
          .attention = interpolated_throughput::from(at, attention).value(),
          .flops = ballast::forward_flops(ballast::classic_transformer(4096, 32)).value()};
}

TEST_F(CostOnDevice, OfAQuadraticCostIsTheHosts)
{
  auto const model = ballast::forward_flops(ballast::classic_transformer(3072, 57)).value();
  expect_same_on_device(ballast::gamma_corrected(model, 0.405).value().cost, lengths());
  expect_same_on_device(quadratic_cost{~std::uint64_t{0}, ~std::uint64_t{0}, 127}, lengths());
  expect_same_on_device(quadratic_cost{12'345'678'901, 987'654'321, 3}, lengths());
}

TEST_F(CostOnDevice, OfAnInterpolatedCostIsTheHosts)
{
  expect_same_on_device(measured(), lengths());
}

TEST_F(CostOnDevice, OfAThroughputGridIsTheHosts)
{
  std::array<tokens, 3> const at = {1000, 20'000, 300'000};
  std::array<std::int64_t, 3> const degrees = {1, 2, 8};
  std::array<double, 9> const per_second = {1e12, 2e12, 3e12, 2e12, 3.9e12, 5e12, 7e12, 1e13, 2e13};
  expect_same_on_device(over_degrees{throughput_grid::from(at, degrees, per_second).value()},
                        lengths());
}

TEST_F(CostOnDevice, OfASumOfModelsIsTheHosts)
{
  std::vector<document> samples;
  for (tokens const length : lengths()) {
    samples.push_back({.patches = length, .text = static_cast<tokens>(random_.below(100'000))});
  }
  expect_same_on_device(sum_of{cost_of{measured(), &document::patches},
                               cost_of{quadratic_cost{7, 3, 2}, &document::text},
                               cost_of{quadratic_cost{5, 1, 9}, all_tokens{}}},
                        samples);
}

}  // namespace
