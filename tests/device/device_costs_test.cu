// SPDX-License-Identifier: Apache-2.0
#include "gpu_test.hpp"

#include <gtest/gtest.h>
#include <thrust/iterator/transform_iterator.h>
#include <ballast/core.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cuda/device_costs.cuh>

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

interpolated_cost measured()
{
  std::array<tokens, 4> const at = {100, 1024, 4096, 1'000'000};
  std::array<double, 4> const linear = {90e12, 380e12, 400e12, 410e12};
  std::array<double, 4> const attention = {10e12, 120e12, 240e12, 300e12};
  return {.linear = interpolated_throughput::make(at, linear).value(),
          .attention = interpolated_throughput::make(at, attention).value(),
          .flops = ballast::forward_flops(ballast::classic_transformer(4096, 32)).value()};
}

template <class Model>
cost_units total_on_host(Model const& model, std::vector<tokens> const& lengths)
{
  cost_units total = 0;
  for (tokens const length : lengths) { total = ballast::saturating_sum(total, model(length)); }
  return total;
}

std::vector<std::uint32_t> counts_on_host(std::vector<tokens> const& edges,
                                          std::vector<tokens> const& lengths)
{
  std::vector<std::uint32_t> counts(edges.size() - 1);
  for (tokens const length : lengths) {
    auto const above = std::ranges::upper_bound(edges, length);
    if (above != edges.begin() && above != edges.end()) { ++counts[above - edges.begin() - 1]; }
  }
  return counts;
}

class CostsOnDevice : public ballast_test::gpu_test {
 protected:
  template <class Model, class Sample>
  void expect_same_on_device(Model const& model, std::vector<Sample> const& samples)
  {
    auto const input = to_device(samples);
    ballast::device_array<cost_units> const output(samples.size());
    ASSERT_EQ(ballast::costs_of(input.data(), input.size(), model, output.data(), stream()),
              cudaSuccess);
    std::vector<cost_units> const costs = to_host(output);
    for (std::size_t index = 0; index < samples.size(); ++index) {
      ASSERT_EQ(costs[index], model(samples[index])) << "sample " << index;
    }
  }

  cost_units total_on_device(quadratic_cost const& model, std::vector<tokens> const& lengths)
  {
    auto const input = to_device(lengths);
    ballast::device_array<cost_units> const total(1);
    run([&](void* temporary, std::size_t& bytes) {
      return ballast::total_cost(temporary, bytes, input.data(), input.size(), model, total.data(),
                                 stream());
    });
    return to_host(total).front();
  }

  // Lengths of every magnitude, and those at the limits.
  std::vector<tokens> lengths(std::size_t count = 20'000)
  {
    std::vector<tokens> all = {0, 1, 2, longest_sample - 1, longest_sample, longest_sample + 1};
    while (all.size() < count) {
      all.push_back(
          static_cast<tokens>(random_.below(std::uint64_t{1} << (1 + random_.below(31)))));
    }
    return all;
  }

  ballast::random_source random_{20240607};
};

TEST_F(CostsOnDevice, OfAQuadraticCostIsTheHosts)
{
  auto const model = ballast::forward_flops(ballast::classic_transformer(3072, 57)).value();
  expect_same_on_device(ballast::gamma_corrected(model, 0.405).value().cost, lengths());
  expect_same_on_device(quadratic_cost{~std::uint64_t{0}, ~std::uint64_t{0}, 127}, lengths());
  expect_same_on_device(quadratic_cost{12'345'678'901, 987'654'321, 3}, lengths());
}

TEST_F(CostsOnDevice, OfAnInterpolatedCostIsTheHosts)
{
  expect_same_on_device(measured(), lengths());
}

TEST_F(CostsOnDevice, OfAThroughputGridIsTheHosts)
{
  std::array<tokens, 3> const at = {1000, 20'000, 300'000};
  std::array<std::int64_t, 3> const degrees = {1, 2, 8};
  std::array<double, 9> const per_second = {1e12, 2e12, 3e12, 2e12, 3.9e12, 5e12, 7e12, 1e13, 2e13};
  expect_same_on_device(over_degrees{throughput_grid::make(at, degrees, per_second).value()},
                        lengths());
}

TEST_F(CostsOnDevice, OfASumOfModelsIsTheHosts)
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

TEST_F(CostsOnDevice, ComeToTheHostsTotal)
{
  quadratic_cost const model{7, 3, 2};
  for (std::size_t const count : {0, 1, 2, 31, 257, 100'000}) {
    std::vector<tokens> lengths(count);
    for (tokens& length : lengths) { length = static_cast<tokens>(random_.below(10'000)); }
    EXPECT_EQ(total_on_device(model, lengths), total_on_host(model, lengths)) << count;
  }
  std::vector<tokens> const too_much(100'000, longest_sample);
  EXPECT_EQ(total_on_device(model, too_much), ballast::no_cost);
}

TEST_F(CostsOnDevice, ArePricedAndSummedOnAStream)
{
  std::vector<tokens> const values = {100, 900, 200};
  quadratic_cost const model{.linear = 2, .quadratic = 1};
  auto const lengths = to_device(values);
  ballast::device_array<cost_units> const costs(lengths.size());
  ballast::device_array<cost_units> const total(1);
  // [device_costs]
  cudaError_t const priced =
      ballast::costs_of(lengths.data(), lengths.size(), model, costs.data(), stream());

  auto const sum = [&](void* temporary, std::size_t& bytes) {
    return ballast::total_cost(temporary, bytes, lengths.data(), lengths.size(), model,
                               total.data(), stream());
  };
  std::size_t bytes = 0;
  cudaError_t const asked = sum(nullptr, bytes);  // once: how much temporary storage
  ballast::device_array<std::byte> const temporary(bytes);
  cudaError_t const summed = sum(temporary.data(), bytes);  // every step
  // [device_costs]
  ASSERT_EQ(priced, cudaSuccess);
  ASSERT_EQ(asked, cudaSuccess);
  ASSERT_EQ(summed, cudaSuccess);
  EXPECT_EQ(to_host(costs), (std::vector<cost_units>{10'200, 811'800, 40'400}));
  EXPECT_EQ(to_host(total).front(), 862'400);
}

TEST_F(CostsOnDevice, AreOfNoSampleNone)
{
  ballast::device_array<tokens> const none;
  ballast::device_array<cost_units> const costs;
  EXPECT_EQ(ballast::costs_of(none.data(), 0, quadratic_cost{1}, costs.data(), stream()),
            cudaSuccess);
}

TEST_F(CostsOnDevice, AreCountedByLengthAsOnTheHost)
{
  std::vector<tokens> const values = lengths();
  auto const input = to_device(values);
  std::vector<std::vector<tokens>> cases = {{0, 1}, {1, 2, 4, 8, 1000, 1 << 20}, {-5, 0, 0, 3, 9}};
  std::vector<tokens>& many = cases.emplace_back();  // more than shared memory holds
  for (tokens edge = 0; edge < 5000; ++edge) { many.push_back(edge * edge); }
  for (std::vector<tokens> const& limits : cases) {
    auto const edges = to_device(limits);
    auto const bins = static_cast<std::int32_t>(limits.size()) - 1;
    ballast::device_array<std::uint32_t> const counts(limits.size() - 1);
    for (std::size_t const count : {std::size_t{0}, std::size_t{7}, values.size()}) {
      run([&](void* temporary, std::size_t& bytes) {
        return ballast::count_lengths(temporary, bytes, input.data(), count, edges.data(), bins,
                                      counts.data(), stream());
      });
      EXPECT_EQ(to_host(counts), counts_on_host(limits, {values.begin(), values.begin() + count}));
    }
  }
}

TEST_F(CostsOnDevice, AreCountedByTheLengthsOfSamples)
{
  std::vector<document> samples;
  std::vector<tokens> sums;
  for (tokens const length : lengths()) {
    samples.push_back({.patches = length, .text = 5});
    sums.push_back(length + 5);
  }
  std::vector<tokens> const limits = {0, 6, 7, 512, 1 << 14, longest_sample};
  auto const input = to_device(samples);
  auto const edges = to_device(limits);
  ballast::device_array<std::uint32_t> const counts(limits.size() - 1);
  run([&](void* temporary, std::size_t& bytes) {
    return ballast::count_lengths(temporary, bytes,
                                  thrust::make_transform_iterator(input.data(), all_tokens{}),
                                  samples.size(), edges.data(), 5, counts.data(), stream());
  });
  EXPECT_EQ(to_host(counts), counts_on_host(limits, sums));
}

TEST_F(CostsOnDevice, FollowTheLengthsOfEachReplay)
{
  std::size_t const count = 5000;
  std::vector<tokens> const limits = {0, 10, 1000, 100'000, longest_sample};
  quadratic_cost const model{7, 3, 2};
  auto const input = to_device(lengths(count));
  auto const edges = to_device(limits);
  ballast::device_array<cost_units> const costs(count);
  ballast::device_array<cost_units> const total(1);
  ballast::device_array<std::uint32_t> const counts(limits.size() - 1);
  auto const sum = [&](void* temporary, std::size_t& bytes) {
    return ballast::total_cost(temporary, bytes, input.data(), count, model, total.data(),
                               stream());
  };
  auto const histogram = [&](void* temporary, std::size_t& bytes) {
    return ballast::count_lengths(temporary, bytes, input.data(), count, edges.data(), 4,
                                  counts.data(), stream());
  };
  auto const for_sum = ballast_test::temporary_for(sum);
  auto const for_histogram = ballast_test::temporary_for(histogram);
  auto const graph = ballast_test::graph_of(stream(), [&](cudaStream_t on) {
    std::size_t bytes = for_sum.size();
    cudaError_t status = ballast::costs_of(input.data(), count, model, costs.data(), on);
    if (status == cudaSuccess) { status = sum(for_sum.data(), bytes); }
    bytes = for_histogram.size();
    return status == cudaSuccess ? histogram(for_histogram.data(), bytes) : status;
  });
  for (int step = 0; step < 3; ++step) {
    std::vector<tokens> const values = lengths(count);
    write(input, values);
    ASSERT_EQ(graph.replay(stream()), cudaSuccess);
    std::vector<cost_units> const priced = to_host(costs);
    for (std::size_t index = 0; index < count; ++index) {
      ASSERT_EQ(priced[index], model(values[index])) << "sample " << index;
    }
    EXPECT_EQ(to_host(total).front(), total_on_host(model, values));
    EXPECT_EQ(to_host(counts), counts_on_host(limits, values));
  }
}

}  // namespace
