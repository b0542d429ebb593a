#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::tokens;

// What the route of a step moves and costs, for all ranks at once, in the steady state. Bags are
// drawn, so that hardly a message is shared by two samples: the worst case.
void measure_route(benchmark::State& state)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const samples = static_cast<std::size_t>(state.range(1));
  auto const spec =
      ballast::parse_bags(std::string("g").append(std::to_string(state.range(2))).append("n1"))
          .value();
  auto const machines = ballast::cluster_of(ranks).value();
  auto const bags = ballast::lay_out(spec, machines).value();

  ballast::random_source random(42);
  auto lengths = bench::lognormal_lengths(samples, 1.0, /*seed=*/42);
  std::vector<ballast::rank_id> source;
  std::vector<ballast::bag_id> owner;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    lengths[sample] = std::max<tokens>(lengths[sample], state.range(2));
    source.push_back(ballast::to_id<ballast::rank_id>(sample * ranks / samples));
    owner.push_back(ballast::to_id<ballast::bag_id>(random.below(bags.size())));
  }
  auto const read = ballast::place(lengths, source, ranks);
  auto const computed = ballast::place(lengths, owner, bags);

  ballast::route_volume volume;
  ballast::workspace memory;
  ballast::route_volume::cost cost;
  for (auto _ : state) {
    ballast::measure_route(volume, memory, read, computed, machines);
    cost = volume.price(machines, 6144);
    benchmark::DoNotOptimize(cost);
  }
  state.counters["messages_per_rank"] = cost.messages_mean;
  state.counters["predicted_ms"] = cost.seconds * 1e3;
}

BENCHMARK(measure_route)
    ->ArgNames({"ranks", "samples", "bag"})
    ->ArgsProduct({{1024}, {32'768}, {1, 8}})
    ->Args({8, 64, 1})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
