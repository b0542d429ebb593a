// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <cmath>

namespace {

using ballast::bag_mix;
using ballast::sample_batch;

// The mixes of KnapFormer's Table 1: one resolution, several, and images with videos.
constexpr std::array knapformer_codes = {
    "g32b32i256f1s0", "g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0",
    "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,g1b10i256f4s0,g3b1i512f4s0,"
    "g8b2i256f85s1,g4b1i512f85s1"};

struct bag_job {
  ballast::cost_spec spec =
      ballast::parse_cost_spec("transformer:d=3072,layers=57,gamma=0.405").value();
  ballast::cluster machines;
  ballast::bag_exchange_work exchanges;

  explicit bag_job(std::size_t gpus) : machines(ballast::cluster_of(gpus).value())
  {
    // A forward pass of 57 layers in bf16: q, k, v and out, and what is routed there and back.
    ballast::bag_traffic const traffic{
        .layers = 57,
        .head_bytes_per_token_and_layer = 4 * 3072 * 2,
        .all_to_alls_per_layer = 2,
        .routed_bytes_per_token = 2 * 3072 * 2,
        .routes = 2,
        .units_per_second = 400e12 / std::ldexp(1.0, spec.log2_flops_per_unit)};
    exchanges = ballast::price_bag_exchanges(traffic, machines).value();
  }

  // Data 0 to 2 are KnapFormer's; 3 has lognormal-like lengths with a long tail, eight per GPU.
  [[nodiscard]] std::vector<sample_batch> draw(std::int64_t data, std::size_t batches,
                                               std::uint64_t seed) const
  {
    ballast::random_source random(seed);
    std::vector<sample_batch> drawn;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      if (data < 3) {
        auto const codes =
            ballast::parse_data_codes(knapformer_codes[static_cast<std::size_t>(data)]).value();
        drawn.push_back(ballast::draw_batch(codes, machines.gpus(), {}, random).value());
        continue;
      }
      auto& lengths = drawn.emplace_back().lengths;
      for (std::size_t sample = 0; sample < 8 * machines.gpus(); ++sample) {
        double normal = -6;  // the sum of twelve uniform numbers, less its mean
        for (int part = 0; part < 12; ++part) {
          normal += static_cast<double>(random.below(1 << 20)) / (1 << 20);
        }
        lengths.push_back(
            static_cast<std::int64_t>(std::clamp(2048 * std::exp(1.5 * normal), 8.0, 131'072.0)));
      }
    }
    return drawn;
  }
};

// On 64 batches that nothing was fitted to or judged on: mean step / that of the best bags of one
// size.
double over_uniform(bag_job const& job, bag_mix const& mix, std::vector<sample_batch> const& later)
{
  auto const gpus = static_cast<std::uint32_t>(job.machines.gpus());
  std::vector<bag_mix> const mixes = {
      mix, {{gpus, 0, 0, 0}}, {{0, gpus / 2, 0, 0}}, {{0, 0, gpus / 4, 0}}, {{0, 0, 0, gpus / 8}}};
  auto const priced = ballast::price_bags(mixes, later, job.exchanges, job.spec.cost);
  double uniform = std::numeric_limits<double>::max();
  for (std::size_t size = 1; size < mixes.size(); ++size) {
    uniform = std::min(uniform, (*priced)[size].value());
  }
  return priced->front().value() / uniform;
}

// Fitted to eight batches and, with `judged`, judged on as many others as the command line takes.
// `over_uniform` is that of the worst of four draws; `over_longer_search`, where nothing is judged:
// mean step on the eight / that of a search with 64 times the work.
void choose(benchmark::State& state)
{
  bag_job const job(static_cast<std::size_t>(state.range(0)));
  bool const judged = state.range(2) != 0;
  constexpr std::size_t draws = 4;
  std::vector<std::vector<sample_batch>> fitted;
  std::vector<std::vector<sample_batch>> others(draws);
  double over_longer = 0;
  double over = 0;
  double proven = 0;
  auto const chosen = [&](std::size_t draw, std::uint64_t work) {
    return ballast::choose_bags(fitted[draw], job.machines, job.exchanges, job.spec.cost,
                                {.judged_on = others[draw], .most_work = work})
        .value();
  };
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    fitted.push_back(job.draw(state.range(1), 8, 3 * draw + 1));
    if (judged) {
      auto const batches = std::clamp<std::size_t>(4096 / job.machines.gpus(), 32, 256);
      others[draw] = job.draw(state.range(1), batches, 3 * draw + 3);
    }
    auto const found = chosen(draw, 0);
    proven += found.proven ? 1.0 / draws : 0;
    auto const& [mix, fitted_step, judged_step] = found.mixes.front();
    over = std::max(over, over_uniform(job, mix, job.draw(state.range(1), 64, 3 * draw + 2)));
    if (!judged) {
      auto const longer = chosen(draw, 64 * ((1U << 20) + 4096 * job.machines.gpus()));
      over_longer =
          std::max(over_longer, fitted_step.value() / longer.mixes.front().fitted_step.value());
    }
  }
  state.counters["proven"] = proven;
  state.counters["over_uniform"] = over;
  if (!judged) { state.counters["over_longer_search"] = over_longer; }
  std::size_t next = 0;
  for (auto _ : state) {
    auto const found = chosen(next++ % draws, 0);
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(choose)
    ->Name("choose_bags/search")
    ->ArgNames({"gpus", "data", "judged"})
    ->ArgsProduct({{32, 64, 1024}, {0, 1, 2, 3}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

// The same under the policy that runs, judged as above, and how many times as long the steps on 64
// other batches are in the bags that longest_processing_time would have: the worst of two draws.
template <class Policy>
void choose_under(benchmark::State& state, Policy const& policy)
{
  bag_job const job(static_cast<std::size_t>(state.range(0)));
  auto const batches = std::clamp<std::size_t>(4096 / job.machines.gpus(), 32, 256);
  std::vector<std::vector<sample_batch>> fitted;
  std::vector<std::vector<sample_batch>> others;
  double longer = 0;
  auto const chosen = [&](std::size_t draw, auto const& runs) {
    return ballast::choose_bags(fitted[draw], job.machines, job.exchanges, job.spec.cost,
                                {.judged_on = others[draw]}, runs)
        .value()
        .mixes.front()
        .mix;
  };
  for (std::uint64_t draw = 0; draw < 2; ++draw) {
    fitted.push_back(job.draw(state.range(1), 8, 3 * draw + 1));
    others.push_back(job.draw(state.range(1), batches, 3 * draw + 3));
    std::vector<bag_mix> const mixes = {chosen(draw, policy),
                                        chosen(draw, ballast::longest_processing_time{})};
    auto const later = job.draw(state.range(1), 64, 3 * draw + 2);
    auto const priced = ballast::price_bags(mixes, later, job.exchanges, job.spec.cost,
                                            ballast::short_samples::refused, policy);
    longer = std::max(longer, (*priced)[1].value() / (*priced)[0].value());
  }
  state.counters["longest_first_mix"] = longer;
  std::size_t next = 0;
  for (auto _ : state) { benchmark::DoNotOptimize(chosen(next++ % 2, policy)); }
}
BENCHMARK_CAPTURE(choose_under, knapsack, ballast::greedy_knapsack{})
    ->Name("choose_bags/under_knapsack")
    ->ArgNames({"gpus", "data"})
    ->ArgsProduct({{32, 64}, {2, 3}})
    ->Args({1024, 3})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(choose_under, refine, ballast::refine<>{})
    ->Name("choose_bags/under_refine")
    ->ArgNames({"gpus", "data"})
    ->ArgsProduct({{32}, {2, 3}})
    ->Unit(benchmark::kMillisecond);

// The baseline: prices every mix to the end.
void price_all_mixes(benchmark::State& state)
{
  bag_job const job(static_cast<std::size_t>(state.range(0)));
  auto const batches = job.draw(state.range(1), 8, 1);
  std::vector<bag_mix> mixes;
  auto const gpus = static_cast<std::uint32_t>(state.range(0));
  for (std::uint32_t eights = 0; 8 * eights <= gpus; ++eights) {
    for (std::uint32_t fours = 0; 8 * eights + 4 * fours <= gpus; ++fours) {
      for (std::uint32_t twos = 0; 8 * eights + 4 * fours + 2 * twos <= gpus; ++twos) {
        mixes.push_back({{gpus - 8 * eights - 4 * fours - 2 * twos, twos, fours, eights}});
      }
    }
  }
  for (auto _ : state) {
    auto const priced = ballast::price_bags(mixes, batches, job.exchanges, job.spec.cost);
    benchmark::DoNotOptimize(priced);
  }
}
BENCHMARK(price_all_mixes)
    ->Name("choose_bags/price_all")
    ->ArgNames({"gpus", "data"})
    ->ArgsProduct({{32, 64}, {0, 1, 2, 3}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
