#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace {

using ballast::placement;
using ballast::rank_id;
using ballast::tokens;

struct planned_step {
  std::vector<tokens> lengths;
  std::vector<rank_id> source;
  ballast::partition_plan plan;
};

std::vector<planned_step> planned_steps(std::size_t count, std::size_t samples,
                                        ballast::bag_layout const& bags)
{
  std::vector<planned_step> steps(count);
  for (std::size_t step = 0; step < count; ++step) {
    planned_step& each = steps[step];
    each.lengths = bench::lognormal_lengths(samples, 1.0, /*seed=*/42 + step);
    for (tokens& length : each.lengths) { length = std::max<tokens>(length, bags.sizes()[0]); }
    for (std::size_t sample = 0; sample < samples; ++sample) {
      each.source.push_back(ballast::to_id<rank_id>(sample * bags.gpus() / samples));
    }
    each.plan = ballast::partition(each.lengths, bags, bench::transformer_cost(), {},
                                   ballast::longest_processing_time{})
                    .value();
  }
  return steps;
}

// What every rank does after the partition: where tokens are, where they go, and its own tables.
void plan_route(benchmark::State& state)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const samples = static_cast<std::size_t>(state.range(1));
  auto const bag_gpus = static_cast<std::uint32_t>(state.range(2));
  auto const spec = ballast::parse_bags(std::string("g") + std::to_string(bag_gpus) + "n1").value();
  auto const bags = ballast::lay_out(spec, ranks).value();
  auto const steps = planned_steps(4, samples, bags);
  placement read;
  placement computed;
  ballast::route_plan route;
  std::size_t step = 0;
  for (auto _ : state) {
    planned_step const& each = steps[step++ % steps.size()];
    ballast::place(read, each.lengths, each.source, ranks);
    ballast::place(computed, each.lengths, each.plan.owner, bags);
    ballast::plan_route(route, read, computed, ballast::to_id<rank_id>(step % ranks));
    benchmark::DoNotOptimize(route.kept.data());
    benchmark::ClobberMemory();
  }
}

BENCHMARK(plan_route)
    ->ArgNames({"ranks", "samples", "bag"})
    ->ArgsProduct({{1024}, {32'768}, {1, 8}})
    ->Args({8, 64, 1})
    ->Unit(benchmark::kMicrosecond);

// One rank's messages against memcpy of the same bytes between the same two buffers, turn by turn.
void pack(benchmark::State& state)
{
  auto const chunk_bytes = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t ranks = 9;
  constexpr std::size_t row_bytes = 2048;  // bf16, width 1024
  constexpr std::size_t total = std::size_t{64} << 20;
  auto const rows = static_cast<tokens>(chunk_bytes / row_bytes);
  std::size_t const samples = total / chunk_bytes;
  std::vector<tokens> const lengths(samples, rows);
  std::vector<rank_id> const source(samples, rank_id{0});
  std::vector<rank_id> target(samples);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    target[sample] = ballast::to_id<rank_id>(1 + sample % (ranks - 1));  // neighbours part
  }
  auto const read = ballast::place(lengths, source, ranks);
  auto const computed = ballast::place(lengths, target, ranks);
  auto const route = ballast::plan_route(read, computed, rank_id{0});
  std::vector<std::byte> local(total, std::byte{1});
  std::vector<std::byte> messages(total, std::byte{2});
  std::array const arrays{ballast::row_array{local, local, row_bytes}};

  std::vector<double> pack_seconds;
  std::vector<double> unpack_seconds;
  std::vector<double> copy_seconds;
  for (auto _ : state) {
    pack_seconds.push_back(bench::median_seconds(1, [&] {
      ballast::pack_rows(route.sent, arrays, messages);
      benchmark::ClobberMemory();
    }));
    copy_seconds.push_back(bench::median_seconds(1, [&] {
      std::memcpy(messages.data(), local.data(), total);
      benchmark::ClobberMemory();
    }));
    unpack_seconds.push_back(bench::median_seconds(1, [&] {
      ballast::unpack_rows(route.sent, arrays, messages);
      benchmark::ClobberMemory();
    }));
  }
  auto const median = [](std::vector<double>& seconds) {
    auto const middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::ranges::nth_element(seconds, middle);
    return *middle;
  };
  double const copy = median(copy_seconds);
  state.counters["memcpy_GBps"] = static_cast<double>(total) / copy / 1e9;
  state.counters["pack_of_memcpy"] = copy / median(pack_seconds);
  state.counters["unpack_of_memcpy"] = copy / median(unpack_seconds);
}

BENCHMARK(pack)
    ->ArgName("chunk_bytes")
    ->RangeMultiplier(4)
    ->Range(4 << 10, 4 << 20)
    ->Iterations(41)
    ->Unit(benchmark::kMillisecond);

}  // namespace
