// SPDX-License-Identifier: Apache-2.0
#include "../common/workloads.hpp"
#include "gpu_timing.cuh"

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cuda/device_costs.cuh>
#include <ballast/gpu/device_memory.hpp>

namespace {

using ballast::cost_units;
using ballast::device_array;
using ballast::tokens;

template <class T>
device_array<T> to_device(std::vector<T> const& values)
{
  device_array<T> array(values.size());
  bench::check(
      cudaMemcpy(array.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return array;
}

/// Two bytes are moved for each one of `bytes`, as a copy does.
template <class Work>
void print(bench::stream const& stream, std::string const& name, std::size_t bytes,
           Work const& work)
{
  device_array<std::byte> const from(bytes), to(bytes);
  bench::check(cudaMemset(from.data(), 1, bytes));
  auto const copy = [&] {
    bench::check(
        cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream.get()));
  };
  auto const [us, memcpy_us] = bench::medians_us(stream.get(), work, copy);
  bench::row(name.c_str(), bytes, us, memcpy_us);
}

/// The same for a function that takes temporary storage.
template <class Call>
void print_with_temporary(bench::stream const& stream, std::string const& name, std::size_t bytes,
                          Call const& call)
{
  std::size_t temporary_bytes = 0;
  bench::check(call(nullptr, temporary_bytes));
  device_array<std::byte> const temporary(temporary_bytes);
  print(stream, name, bytes, [&] { bench::check(call(temporary.data(), temporary_bytes)); });
}

/// A table of what was measured at eight lengths.
ballast::interpolated_cost measured_cost()
{
  std::array<tokens, 8> const at = {64, 256, 1024, 4096, 16'384, 65'536, 262'144, 1'048'576};
  std::array<double, 8> const linear = {4e13, 9e13, 2e14, 3e14, 4e14, 4.1e14, 4.1e14, 4.1e14};
  std::array<double, 8> const attention = {5e12, 2e13, 9e13, 2e14, 2.6e14, 2.9e14, 3e14, 3e14};
  return {.linear = ballast::interpolated_throughput::make(at, linear).value(),
          .attention = ballast::interpolated_throughput::make(at, attention).value(),
          .flops = ballast::forward_flops(ballast::classic_transformer(4096, 32)).value()};
}

void price(bench::stream const& stream, std::size_t count)
{
  auto const lengths = to_device(bench::lognormal_lengths(count, 1.0, /*seed=*/42));
  device_array<cost_units> const costs(count);
  device_array<cost_units> const total(1);
  auto const named = [&](char const* what) { return std::to_string(count) + " lengths, " + what; };
  std::size_t const priced = count * sizeof(tokens);
  std::size_t const read = priced / 2;  // nothing is written

  auto const quadratic = bench::transformer_cost();
  print(stream, named("quadratic costs"), priced, [&] {
    bench::check(ballast::costs_of(lengths.data(), count, quadratic, costs.data(), stream.get()));
  });
  print(stream, named("interpolated costs"), priced, [&, model = measured_cost()] {
    bench::check(ballast::costs_of(lengths.data(), count, model, costs.data(), stream.get()));
  });
  print_with_temporary(stream, named("total of quadratic costs"), read,
                       [&](void* temporary, std::size_t& bytes) {
                         return ballast::total_cost(temporary, bytes, lengths.data(), count,
                                                    quadratic, total.data(), stream.get());
                       });
  for (std::int32_t const bins : {64, 4096}) {
    std::vector<tokens> edges;
    for (std::int32_t edge = 0; edge <= bins; ++edge) {
      edges.push_back(tokens{edge} * (1 << 20) / bins);
    }
    auto const at = to_device(edges);
    device_array<std::uint32_t> const counts(static_cast<std::size_t>(bins));
    print_with_temporary(stream, named(("histogram of " + std::to_string(bins) + " bins").c_str()),
                         read, [&](void* temporary, std::size_t& bytes) {
                           return ballast::count_lengths(temporary, bytes, lengths.data(), count,
                                                         at.data(), bins, counts.data(),
                                                         stream.get());
                         });
  }
}

}  // namespace

int main()
{
  bench::print_device();
  bench::header();
  bench::stream const stream;
  for (std::size_t const count : {4096, 65'536, 1'048'576, 16'777'216}) { price(stream, count); }
}
