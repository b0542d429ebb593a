// SPDX-License-Identifier: Apache-2.0
// Cost models in the containers and algorithms of Thrust, whose device is the host here
// (THRUST_DEVICE_SYSTEM_CPP). By nvcc and without that definition the same lines run on a GPU.

#include <ballast/cost/quadratic_cost.hpp>

#include "../support/test.hpp"

#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/gather.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

namespace {

using ballast::cost_units;
using ballast::tokens;

std::vector<tokens> some_lengths(std::size_t count)
{
  ballast::random_source random(7);
  std::vector<tokens> lengths(count);
  for (tokens& each : lengths) { each = static_cast<tokens>(random.below(5000)); }
  return lengths;
}

TEST(Thrust, HasTheCostsOfTheHost)
{
  auto const lengths = some_lengths(1000);
  ballast::quadratic_cost const model{3, 2};
  // [costs]
  thrust::device_vector<tokens> const on_device(lengths.begin(), lengths.end());
  thrust::device_vector<cost_units> costs(on_device.size());
  thrust::transform(on_device.begin(), on_device.end(), costs.begin(), model);
  cost_units const total = thrust::transform_reduce(on_device.begin(), on_device.end(), model,
                                                    cost_units{0}, std::plus<>{});
  // [costs]
  cost_units sum = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(static_cast<cost_units>(costs[i]), model(lengths[i])) << i;
    sum += model(lengths[i]);
  }
  EXPECT_EQ(total, sum);
}

TEST(Thrust, HasTheOffsetsOfABag)
{
  auto const lengths = some_lengths(64);
  auto const plan =
      ballast::partition(lengths, ballast::one_gpu_bags(4), ballast::quadratic_cost{1}).value();
  thrust::device_vector<tokens> const on_device(lengths.begin(), lengths.end());
  for (auto const own : plan.samples) {
    // [offsets]
    // cu_seqlens of a bag, as attention kernels for sequences of several lengths take them.
    std::vector<std::uint32_t> bag;
    for (ballast::sample_id const sample : own) {
      bag.push_back(static_cast<std::uint32_t>(ballast::to_index(sample)));
    }
    thrust::device_vector<std::uint32_t> const samples(bag.begin(), bag.end());
    thrust::device_vector<std::int32_t> offsets(samples.size() + 1, 0);
    thrust::gather(samples.begin(), samples.end(), on_device.begin(), offsets.begin() + 1);
    thrust::inclusive_scan(offsets.begin(), offsets.end(), offsets.begin());
    // [offsets]
    std::int32_t end = 0;
    EXPECT_EQ(offsets[0], 0);
    for (std::size_t at = 0; at < bag.size(); ++at) {
      end += static_cast<std::int32_t>(lengths[bag[at]]);
      EXPECT_EQ(static_cast<std::int32_t>(offsets[at + 1]), end);
    }
  }
}

TEST(Thrust, CountsLengthsByBin)
{
  auto const lengths = some_lengths(500);
  std::vector<tokens> const upper{127, 255, 1023, 4095, 8191};  // the last length of each bin
  thrust::device_vector<tokens> sorted(lengths.begin(), lengths.end());
  thrust::device_vector<tokens> const edges(upper.begin(), upper.end());
  thrust::sort(sorted.begin(), sorted.end());
  thrust::device_vector<std::ptrdiff_t> up_to(edges.size());  // lengths in this bin or before it
  thrust::upper_bound(sorted.begin(), sorted.end(), edges.begin(), edges.end(), up_to.begin());
  for (std::size_t bin = 0; bin < upper.size(); ++bin) {
    EXPECT_EQ(static_cast<std::ptrdiff_t>(up_to[bin]),
              std::count_if(lengths.begin(), lengths.end(),
                            [&](tokens length) { return length <= upper[bin]; }));
  }
}

}  // namespace
