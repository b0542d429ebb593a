#include "../../tests/route/node_traffic_bound.hpp"  // defines: ballast_test::node_traffic_bound
#include "../common/workloads.hpp"                   // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

namespace {

using ballast::rank_id;
using ballast::tokens;

constexpr std::uint64_t node_draws = 20;
constexpr std::size_t gpus_per_node = 8;

// One step of lognormal samples that LPT has planned, which fills equal bags in any order.
struct planned_job {
  ballast::bag_layout bags;
  ballast::cluster machines;
  ballast::placement read;
  ballast::partition_plan plan;

  planned_job(std::size_t ranks, std::size_t samples_per_rank, std::uint64_t seed)
      : bags(ballast::one_gpu_bags(ranks)),
        machines(ballast::cluster_of(ranks, gpus_per_node).value())
  {
    ballast::random_source random(seed);
    auto const lengths = ballast::draw_lengths(
        ballast::clamped_lengths{ballast::lognormal_lengths{.median = 1024, .sigma = 1.0}, 1,
                                 16384},
        samples_per_rank * ranks, random);
    std::vector<rank_id> source;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      source.push_back(ballast::to_id<rank_id>(sample / samples_per_rank));
    }
    plan =
        ballast::partition(lengths, bags, std::identity{}, {}, ballast::longest_processing_time{})
            .value();
    ballast::place(read, lengths, source, ranks);
  }
};

// The time is that of placing. Baseline: the plan as it is, `below_before` is how much less the
// rank with most sends to other nodes; `gap` is how far that is above the certified bound,
// `worst_gap` of all draws. bound_ms is what the bound takes.
void place_by_node(benchmark::State& state)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const samples_per_rank = static_cast<std::size_t>(state.range(1));
  std::vector<planned_job> jobs;
  for (std::uint64_t seed = 1; seed <= node_draws; ++seed) {
    jobs.emplace_back(ranks, samples_per_rank, seed);
  }
  double below = 0;
  double gap = 0;
  double worst_gap = 0;
  ballast::node_placement placed;
  ballast::workspace memory;
  for (planned_job const& job : jobs) {
    auto plan = job.plan;
    auto const done =
        ballast::place_by_node(placed, memory, plan, job.read, job.bags, job.machines);
    if (!done) { return state.SkipWithError(done.error().message.c_str()); }
    tokens const bound = ballast_test::node_traffic_bound(plan, job.read, job.bags, job.machines);
    auto const largest = static_cast<double>(placed.largest);
    below += 1 - largest / static_cast<double>(placed.largest_before);
    double const above = largest / static_cast<double>(bound) - 1;
    gap += above;
    worst_gap = std::max(worst_gap, above);
  }
  state.counters["below_before"] = below / node_draws;
  state.counters["gap"] = gap / node_draws;
  state.counters["worst_gap"] = worst_gap;
  planned_job const& first = jobs.front();
  state.counters["bound_ms"] = 1e3 * bench::median_seconds(3, [&] {
                                 benchmark::DoNotOptimize(ballast_test::node_traffic_bound(
                                     first.plan, first.read, first.bags, first.machines));
                               });

  auto plan = first.plan;
  for (auto _ : state) {
    std::ranges::copy(first.plan.owner, plan.owner.begin());
    auto const done =
        ballast::place_by_node(placed, memory, plan, first.read, first.bags, first.machines);
    benchmark::DoNotOptimize(done.has_value());
  }
}

BENCHMARK(place_by_node)
    ->ArgNames({"ranks", "samples"})
    ->Args({128, 25})
    ->Args({128, 75})
    ->Args({2560, 32})
    ->Unit(benchmark::kMillisecond);

// The largest volume after plain exchanges: as long as one lowers it, the rank that sends most has
// a bag of another node change places with one of its own, the first of those that help.
tokens after_plain_exchanges(ballast::placement const& read, ballast::partition_plan const& plan,
                             std::size_t ranks)
{
  std::size_t const nodes = ranks / gpus_per_node;
  std::vector<tokens> moved(ranks * ranks, 0);  // from each rank to each batch
  std::vector<tokens> sent(ranks, 0);           // to other nodes
  std::vector<std::size_t> node_of(ranks);
  for (std::size_t batch = 0; batch < ranks; ++batch) { node_of[batch] = batch / gpus_per_node; }
  for (std::size_t sample = 0; sample < plan.owner.size(); ++sample) {
    std::size_t const batch = to_index(plan.owner[sample]);
    for (ballast::piece const& each : read[ballast::to_id<ballast::sample_id>(sample)]) {
      std::size_t const rank = to_index(each.rank);
      moved[rank * ranks + batch] += each.count;
      sent[rank] += node_of[batch] == rank / gpus_per_node ? 0 : each.count;
    }
  }
  for (bool helped = nodes > 1; helped;) {
    auto const most = std::ranges::max_element(sent);
    std::size_t const home = static_cast<std::size_t>(most - sent.begin()) / gpus_per_node;
    helped = false;
    for (std::size_t pair = 0; pair < ranks * ranks && !helped; ++pair) {
      std::size_t const comes = pair / ranks;
      std::size_t const leaves = pair % ranks;
      std::size_t const other = node_of[comes];
      if (other == home || node_of[leaves] != home) { continue; }
      auto const gain = [&](std::size_t rank) {
        tokens const less = moved[rank * ranks + comes] - moved[rank * ranks + leaves];
        return rank / gpus_per_node == home ? less : -less;
      };
      helped = true;
      for (std::size_t gpu = 0; gpu < gpus_per_node && helped; ++gpu) {
        for (std::size_t const rank : {home * gpus_per_node + gpu, other * gpus_per_node + gpu}) {
          helped = helped && sent[rank] - gain(rank) < *most;
        }
      }
      if (!helped) { continue; }
      for (std::size_t gpu = 0; gpu < gpus_per_node; ++gpu) {
        for (std::size_t const rank : {home * gpus_per_node + gpu, other * gpus_per_node + gpu}) {
          sent[rank] -= gain(rank);
        }
      }
      std::swap(node_of[comes], node_of[leaves]);
    }
  }
  return std::ranges::max(sent);
}

// Half images of COCO (visual tokens), half speech of LibriSpeech (audio tokens), from the folder
// that BALLAST_DATA names, in one phase: 0 the vision encoder, 1 the audio encoder, 2 the language
// model. Counters are volumes of the rank with most over that of the plan as it is: after
// place_by_node, of the certified bound, after plain exchanges, and of least_movement.
void place_modalities(benchmark::State& state)
{
  constexpr std::size_t ranks = 128;
  constexpr std::uint64_t draws = 10;
  auto const samples = static_cast<std::size_t>(state.range(0)) * ranks;
  auto const column_of = [](std::string const& file, char const* column) {
    char const* const folder = std::getenv("BALLAST_DATA");
    std::ifstream in(folder == nullptr ? file : folder + ("/" + file));
    std::ostringstream text;
    text << in.rdbuf();
    return ballast::read_length_trace(text.str(), column);
  };
  auto const images = column_of("coco_val2017_images.csv", "visual_tokens_qwen2vl");
  auto const speech = column_of("librispeech_mix_audio.csv", "audio_tokens_25hz");
  if (!images || !speech) {
    return state.SkipWithError("BALLAST_DATA names no folder with these traces");
  }
  auto const bags = ballast::one_gpu_bags(ranks);
  auto const machines = ballast::cluster_of(ranks, gpus_per_node).value();
  double by_node = 0;
  double bound = 0;
  double by_exchanges = 0;
  double by_movement = 0;
  auto const largest_of = [&](ballast::placement const& read, ballast::partition_plan plan) {
    return ballast::place_by_node(plan, read, bags, machines).value();
  };
  auto const plan_all = [&] {
    by_node = bound = by_exchanges = by_movement = 0;
    for (std::uint64_t seed = 1; seed <= draws; ++seed) {
      ballast::random_source random(seed);
      std::vector<tokens> lengths(samples);
      std::vector<rank_id> source(samples);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        bool const image = random.below(2) == 0;
        tokens const length = image ? (*images)[random.below(images->size())]
                                    : (*speech)[random.below(speech->size())];
        bool const present = state.range(1) == 2 || image == (state.range(1) == 0);
        lengths[sample] = present ? length : 0;
        source[sample] = ballast::to_id<rank_id>(sample * ranks / samples);
      }
      auto const read = ballast::place(lengths, source, ranks);
      auto const plan =
          ballast::partition(lengths, bags, std::identity{}, {}, ballast::longest_processing_time{})
              .value();
      auto const moving =
          ballast::partition(
              lengths, bags, std::identity{},
              {.home = source, .then = ballast::fewest_moves, .within_per_million = 5'000})
              .value();
      auto const placed = largest_of(read, plan);
      auto const before = static_cast<double>(placed.largest_before);
      by_node += static_cast<double>(placed.largest) / before / draws;
      bound += static_cast<double>(ballast_test::node_traffic_bound(plan, read, bags, machines)) /
               before / draws;
      by_exchanges +=
          static_cast<double>(after_plain_exchanges(read, plan, ranks)) / before / draws;
      by_movement += static_cast<double>(largest_of(read, moving).largest_before) / before / draws;
    }
  };
  for (auto _ : state) { plan_all(); }
  state.counters["by_node"] = by_node;
  state.counters["bound"] = bound;
  state.counters["plain_exchanges"] = by_exchanges;
  state.counters["least_movement"] = by_movement;
}

BENCHMARK(place_modalities)
    ->ArgNames({"samples", "phase"})
    ->ArgsProduct({{75, 50, 25}, {0, 1, 2}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
