// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/sharded_timeline.hpp"  // defines: timelines::overlap_of
#include "../common/workloads.hpp"                     // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

#include <chrono>
#include <thread>

namespace {

using namespace ballast::literals;
using ballast::group_id;
using ballast::head_array;
using ballast::heads_of;
using ballast::rank_id;
using ballast::sharded_exchange;
using ballast::sharded_packs;
using ballast::thread_communicator;
using ballast::tokens;

constexpr std::uint32_t gpus_of_step = 8;
constexpr std::uint32_t heads_of_step = 8;
constexpr std::size_t dim = 16;
constexpr double step_seconds = 20e-3;  // of attention, if all GPUs are busy

/// A step of 32 sequences over 8 GPUs, computed as a plan says. A GPU's attention is a sleep of the
/// time that it is planned to take: the host is as free meanwhile as beside a kernel, and eight
/// threads need no eight cores for it. What is exchanged is exchanged.
struct sharded_layer {
  ballast::device_groups groups{ballast::node_sizes::equal(1, gpus_of_step), gpus_of_step};
  std::vector<tokens> lengths = bench::lognormal_lengths(32, 1.2, 42);
  ballast::sharding_cost cost{.work = "transformer:d=512,gamma=1"_cost,
                              .heads = heads_of_step,
                              .kv_heads = heads_of_step,
                              .bytes_per_head = dim * sizeof(float),
                              .within_node_bytes_per_second = 1'000'000'000,
                              .between_nodes_bytes_per_second = 1'000'000'000};
  ballast::sharding_plan plan;
  double seconds_per_unit = 0;

  struct arrays {
    sharded_packs packs;
    std::array<std::vector<float>, 4> between;  // q, k, v, out
    std::array<std::vector<float>, 4> whole;
    ballast::workspace memory;
    std::vector<timelines::sharded_moment> moments;
  };
  std::vector<arrays> of_ranks = std::vector<arrays>(gpus_of_step);

  explicit sharded_layer(std::uint32_t smallest_degree)
  {
    double work = 0;
    for (tokens& each : lengths) {
      each = std::max<tokens>(each / 8, gpus_of_step);
      work += static_cast<double>(cost.work(each));
    }
    seconds_per_unit = step_seconds * gpus_of_step / work;
    cost.units_per_second = static_cast<std::uint64_t>(1 / seconds_per_unit);
    plan = ballast::hybrid_sharding(lengths, groups, cost).value();
    if (smallest_degree > 1) {
      std::ranges::fill(plan.owner, groups.of_degree(smallest_degree).front());
      plan.samples.collect(plan.owner, groups.size());
    }
    for (std::size_t rank = 0; rank < gpus_of_step; ++rank) {
      auto& [packs, between, whole, memory, moments] = of_ranks[rank];
      packs.assign(plan, groups, ballast::to_id<rank_id>(rank), heads_of_step);
      for (auto& array : between) {
        array.assign(static_cast<std::size_t>(packs.rows()) * heads_of_step * dim, 1);
      }
      for (auto& array : whole) { array.assign(packs.heads_of_sequences(heads_of_step) * dim, 1); }
    }
  }

  void compute(arrays const& own, std::size_t pack) const
  {
    auto const& [id, group, gpu, row, of_pack] = own.packs[pack];
    auto const cost_at = cost.at({group.gpus, group.gpus, group.gpus});
    double units = 0;
    for (tokens const length : of_pack.lengths()) {
      units += static_cast<double>(cost_at.work(length));
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(units * seconds_per_unit));
  }

  [[nodiscard]] static std::array<head_array, 3> inputs(arrays& own)
  {
    return {heads_of(own.between[0], own.whole[0], heads_of_step, dim),
            heads_of(own.between[1], own.whole[1], heads_of_step, dim),
            heads_of(own.between[2], own.whole[2], heads_of_step, dim)};
  }
  [[nodiscard]] static std::array<head_array, 1> outputs(arrays& own)
  {
    return {heads_of(own.whole[3], own.between[3], heads_of_step, dim)};
  }

  void count(benchmark::State& state) const
  {
    std::uint64_t bytes = 0;
    for (arrays const& own : of_ranks) {
      for (std::size_t pack = 0; pack < own.packs.shared(); ++pack) {
        ballast::head_shape const shape{heads_of_step, dim * sizeof(float)};
        bytes +=
            own.packs[pack]
                .plan.to_heads_volume(own.packs[pack].gpu, std::array{shape, shape, shape, shape})
                .bytes_sent;
      }
    }
    state.counters["MB_exchanged"] = static_cast<double>(bytes) / 1e6;
  }
};

// Baseline: every sequence over all GPUs, by collectives, as Ulysses runs it.
void uniform_step(benchmark::State& state)
{
  sharded_layer step(gpus_of_step);
  for (auto _ : state) {
    ballast::run_ranks(gpus_of_step, [&](thread_communicator& comm) {
      auto& own = step.of_ranks[to_index(comm.rank())];
      auto const [q, k, v] = sharded_layer::inputs(own);
      auto const& plan = own.packs[0].plan;
      or_throw(to_heads(comm, plan, own.memory, q, k, v));
      step.compute(own, 0);
      or_throw(to_tokens(comm, plan, own.memory, sharded_layer::outputs(own)[0]));
    });
  }
  step.count(state);
}

// How much of the exchanges lay under computation, from times that all gpus_of_step recorded.
void hybrid_step(benchmark::State& state)
{
  sharded_layer step(1);
  std::vector<sharded_exchange<>> exchanges;
  for (std::size_t rank = 0; rank < gpus_of_step; ++rank) {
    exchanges.emplace_back(static_cast<std::size_t>(state.range(0)));
  }
  for (auto _ : state) {
    ballast::run_ranks(gpus_of_step, [&](thread_communicator& comm) {
      auto& own = step.of_ranks[to_index(comm.rank())];
      own.moments.clear();
      or_throw(exchanges[to_index(comm.rank())].forward(
          comm, own.packs, sharded_layer::inputs(own), sharded_layer::outputs(own),
          [&](std::size_t pack) { step.compute(own, pack); },
          timelines::sharded_recorder{own.moments}));
    });
  }
  step.count(state);
  std::vector<std::vector<timelines::sharded_moment>> moments;
  for (auto const& own : step.of_ranks) { moments.push_back(own.moments); }
  state.counters["hidden"] = timelines::overlap_of(moments).share();
}

BENCHMARK(uniform_step)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(hybrid_step)
    ->ArgName("ahead")
    ->Arg(1)
    ->Arg(8)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
