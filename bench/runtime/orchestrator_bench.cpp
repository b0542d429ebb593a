// SPDX-License-Identifier: Apache-2.0
// Planning all phases of a multimodal step, which the orchestrator does beside the step before.

#include <benchmark/benchmark.h>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/phase_planner.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <tuple>

namespace {

using ballast::lognormal_lengths;
using ballast::multimodal_samples;
using subsequence = ballast::multimodal_samples::subsequence;

// Of each rank: text in every sample, images in two of three, speech in one of three.
ballast::gathered_samples<subsequence> read_by_all(std::size_t ranks, std::size_t of_rank)
{
  ballast::random_source random(1);
  ballast::clamped_lengths const images{lognormal_lengths{.median = 600, .sigma = 0.8}, 4, 1280};
  ballast::clamped_lengths const speech{lognormal_lengths{.median = 300, .sigma = 0.6}, 25, 1500};
  ballast::clamped_lengths const texts{lognormal_lengths{.median = 100, .sigma = 1.2}, 1, 4096};
  ballast::gathered_samples<subsequence> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t sample = 0; sample < of_rank; ++sample) {
      all.samples.push_back({multimodal_samples::begins_sample, multimodal_samples::alone});
      std::size_t const count = sample % 3 == 0 ? 0 : 1 + random.below(4);
      for (std::size_t each = 0; each < count; ++each) {
        all.samples.push_back({0, images(random)});
      }
      if (sample % 3 == 0) { all.samples.push_back({1, speech(random)}); }
      all.samples.push_back({2, texts(random)});
    }
    all.source.resize(all.samples.size(), ballast::to_id<ballast::rank_id>(rank));
  }
  return all;
}

void orchestrator(benchmark::State& state)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const bags = ballast::one_gpu_bags(ranks);
  auto const cost = [](std::uint64_t width) {
    return ballast::quadratic_cost{.linear = 6 * width, .quadratic = 1};
  };
  ballast::phase const vision{bags, cost(2048), ballast::longest_processing_time{}, 4};
  ballast::phase const audio{bags, cost(1280), ballast::padded_batches{}, 2};
  ballast::phase const llm{bags, cost(3584), ballast::longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision, audio}, llm);
  auto const all = read_by_all(ranks, static_cast<std::size_t>(state.range(1)));
  ballast::orchestrated_step step;
  ballast::workspace memory;
  for (auto _ : state) {
    if (!planner(step, memory, all, ranks, ballast::rank_id{0})) {
      state.SkipWithError("a step was not planned");
      break;
    }
    benchmark::ClobberMemory();
  }
  state.counters["subsequences"] = static_cast<double>(all.samples.size() - step.lengths.size());
  state.counters["gap_permille"] =
      1000 * std::max({step.planned.gap(), step.modalities[0].planned.gap(),
                       step.modalities[1].planned.gap()});
}

BENCHMARK(orchestrator)
    ->ArgNames({"ranks", "samples_of_rank"})
    ->ArgsProduct({{64, 256, 1024, 2560}, {32}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
