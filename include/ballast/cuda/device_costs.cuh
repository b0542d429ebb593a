// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime.h>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_transform.cuh>

namespace ballast::inline v0 {

/// A cost model that kernels take by value. Its call operator must be marked BALLAST_HOST_DEVICE,
/// as those of all models of this library are: otherwise nvcc refuses the kernel.
template <class Model, class Sample>
concept device_cost_model = cost_model<Model, Sample> && std::is_trivially_copyable_v<Model> &&
                            requires(Model const& model, Sample const& sample) {
                              { model(sample) } -> std::same_as<cost_units>;
                            };

namespace detail {

struct saturating_plus {
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(cost_units a,
                                                                    cost_units b) const
  {
    return saturating_sum(a, b);
  }
};

}  // namespace detail

/// Computes the costs of samples that lie on the device: the same integers as on the host.
///
/// Shapes      samples[count], costs[count], both on the stream's device
/// Ensures     (1) costs[i] is model(samples[i])
/// Errors      CUDA's own
/// Complexity  O(count) reads and writes; one kernel, no temporary storage.
template <class Sample, device_cost_model<Sample> Model>
[[nodiscard]] cudaError_t costs_of(Sample const* samples, std::size_t count, Model const& model,
                                   cost_units* costs, cudaStream_t stream)
{
  nvtx_range const range("ballast::costs_of");
  // The kernel of thrust::transform, without its exceptions. CUB's other kernel, Transform, keeps
  // the tile size that suited the process's first call.
  return cub::DeviceTransform::TransformStableArgumentAddresses(samples, costs, count, model,
                                                                stream);
}

/// Computes the total cost of samples that lie on the device.
///
/// Shapes      samples[count], total[1], both on the stream's device
/// In, out     without memory (temporary == nullptr) only temporary_bytes is written, as CUB does
/// Ensures     (1) *total is the host's saturating_sum of all costs, 0 without samples: costs are
///                 never negative, so the sum is the smaller of the true sum and no_cost, in
///                 whatever order a GPU adds
/// Errors      CUDA's own
/// Complexity  O(count) reads; costs are not written down.
template <class Sample, device_cost_model<Sample> Model>
[[nodiscard]] cudaError_t total_cost(void* temporary, std::size_t& temporary_bytes,
                                     Sample const* samples, std::size_t count, Model const& model,
                                     cost_units* total, cudaStream_t stream)
{
  nvtx_range const range("ballast::total_cost");
  return cub::DeviceReduce::TransformReduce(temporary, temporary_bytes, samples, total, count,
                                            detail::saturating_plus{}, model, cost_units{0},
                                            stream);
}

/// Counts lengths that lie on the device, bin by bin.
///
/// Lengths are read through a pointer, or through an iterator that kernels can use, such as a
/// thrust::transform_iterator over samples.
///
/// Shapes      lengths[count], edges[bins + 1], counts[bins], all on the stream's device
/// In, out     without memory (temporary == nullptr) only temporary_bytes is written, as CUB does
/// Expects     bins >= 1; count < 2^31; edges do not descend.
/// Ensures     (1) counts[b] lengths are in [edges[b], edges[b + 1])
///             (2) lengths outside of all bins are not counted
/// Errors      CUDA's own
/// Complexity  O(count log bins); up to 256 bins are counted in shared memory.
template <class Lengths>
  requires std::convertible_to<std::iter_value_t<Lengths>, tokens>
[[nodiscard]] cudaError_t count_lengths(void* temporary, std::size_t& temporary_bytes,
                                        Lengths lengths, std::size_t count, tokens const* edges,
                                        std::int32_t bins, std::uint32_t* counts,
                                        cudaStream_t stream)
{
  BALLAST_EXPECTS(bins >= 1, "a histogram was asked for of ", bins, " bins, and the least is 1");
  BALLAST_EXPECTS(count < (std::size_t{1} << 31), "a histogram was asked for of ", count,
                  " lengths, and there can be fewer than 2^31");
  nvtx_range const range("ballast::count_lengths");
  // With a count of 32 bits CUB compiles one kernel, with one of 64 bits two.
  return cub::DeviceHistogram::HistogramRange(temporary, temporary_bytes, lengths, counts, bins + 1,
                                              edges, static_cast<std::int32_t>(count), stream);
}

}  // namespace ballast::inline v0
