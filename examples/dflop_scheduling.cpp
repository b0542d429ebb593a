// SPDX-License-Identifier: Apache-2.0
// DFLOP (H. An et al., arXiv 2603.25120): the samples of a step, of one image, of several or of a
// video, are spread over microbatches so that encoder and LLM time are both even, and every replica
// puts its microbatches in order. How long GPUs are idle then, in simulation, beside the 82 to 84 %
// less of the paper's Figure 13. Lengths are drawn, or read: dflop_scheduling ONE.csv SEVERAL.csv
// VIDEO.csv, the first with columns caption_tokens_sum and visual_tokens_qwen2vl, the second with
// text_tokens and visual_tokens_qwen2vl, the third with text_tokens and video_tokens_qwen2vl.

#include <ballast/core/value_or_throw.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/text.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ballast;

constexpr std::size_t replicas = 4;
constexpr std::size_t samples_per_microbatch = 4;  // on average, where they are balanced
constexpr std::size_t steps = 8;
constexpr tokens longest = 16'384;  // of a sample, text and images

// [dflop]
struct sample {
  tokens text = 0;
  tokens visual = 0;  // what the LLM reads: a quarter of the encoder's patches
};
using microbatch = std::vector<sample_id>;

// A vision encoder of 6 billion parameters on three stages, an LLM of 32 billion on five.
constexpr char const* encoder = "transformer:d=3200,layers=45";
constexpr char const* llm =
    "transformer:d=5120,layers=64,heads=40,kv_heads=8,ffn=27648,gated=1,causal=1";
std::vector<std::vector<std::uint32_t>> const layers = {{15, 15, 15}, {13, 13, 13, 13, 12}};

// Picoseconds on the eight GPUs of a stage, at 200 TFLOP/s each, both modules trained.
pass_costs price(char const* model)
{
  gamma_fit const gpus{.seconds_per_flop = 1 / (8 * 200e12), .gamma = 1};
  return value_or_throw(
      price_passes(value_or_throw(parse_cost_spec(model)).forward, training_passes{},
                   [&](flop_polynomial flops) { return latency_cost(gpus, flops); }));
}

// The encoder sees tiles of 1024 patches, 448 x 448 pixels, each for itself.
struct model_times {
  stage_time tile = price(encoder)(1024);
  pass_costs llm_costs = price(llm);

  std::array<stage_time, 2> operator()(sample const& each) const
  {
    tokens const tiles = (each.visual + 255) / 256;
    return {stage_time{tiles * tile.forward, tiles * tile.backward},
            llm_costs(each.text + each.visual)};
  }
};

// What a data loader does: replica after replica, each microbatch the next few samples.
std::vector<microbatch> as_read(std::size_t samples)
{
  std::vector<microbatch> all(samples / samples_per_microbatch);
  for (std::size_t i = 0; i < samples; ++i) {
    all[i / samples_per_microbatch].push_back(to_id<sample_id>(i));
  }
  return all;
}

// Both times of a stage even, first over the replicas, then over the microbatches of each.
std::vector<microbatch> balanced(std::span<sample const> step, std::size_t microbatches,
                                 model_times const& times_of)
{
  auto const stage_costs = [&](sample const& each) {
    auto const [encoding, answering] = times_of(each);
    return cost_vector<2>{(encoding.forward + encoding.backward) / 3,
                          (answering.forward + answering.backward) / 5};
  };
  std::vector<microbatch> all;
  auto const spread =
      value_or_throw(partition_vectors(step, replicas, vector_refine{}, stage_costs));
  for (auto const of_replica : spread.samples) {
    auto const cost_of = [&](sample_id id) { return stage_costs(step[to_index(id)]); };
    auto const plan =
        value_or_throw(partition_vectors(of_replica, microbatches, vector_refine{}, cost_of));
    for (auto const places : plan.samples) {
      auto& filled = all.emplace_back();
      for (sample_id const place : places) { filled.push_back(of_replica[to_index(place)]); }
    }
  }
  return all;
}

struct gpu_time {
  double busy = 0;
  double paid = 0;
};

// All replicas wait for the slowest.
template <order_policy Policy>
void train(gpu_time& spent, compiled_schedule const& schedule, std::span<microbatch const> all,
           std::span<sample const> step, model_times const& times_of, Policy const& policy)
{
  time_units slowest = 0;
  for (auto left = all; !left.empty(); left = left.subspan(schedule.microbatches())) {
    auto const own = left.first(schedule.microbatches());
    auto const times =
        split_over_stages(value_or_throw(sum_over_samples(own, step, times_of)), layers);
    slowest =
        std::max(slowest, value_or_throw(order_microbatches(schedule, times, policy)).makespan);
    for (auto const& [forward, backward] : times.rows) {
      spent.busy += static_cast<double>(forward + backward);
    }
  }
  spent.paid +=
      static_cast<double>(slowest) * static_cast<double>(replicas * schedule.stages().ranks());
}

// Samples as they are read, then those microbatches in order; samples balanced, then in order too.
std::array<gpu_time, 4> compare(std::vector<sample> pool, std::size_t microbatches)
{
  model_times const times_of;
  auto const stages =
      value_or_throw(joined_stages({.encoders = {{3}}, .llm = {5}, .generators = {}}));
  auto const schedule = value_or_throw(compiled_schedule::make(
      stages, value_or_throw(one_forward_one_backward{}(stages, microbatches))));
  local_search const search{insertion{}, 5'000};
  std::array<gpu_time, 4> spent;
  random_source random(1);
  for (std::size_t number = 0; number < steps; ++number) {
    random.shuffle(std::span(pool));
    auto const step = std::span(pool).first(replicas * microbatches * samples_per_microbatch);
    auto const dealt = as_read(step.size());
    auto const spread = balanced(step, microbatches, times_of);
    train(spent[0], schedule, dealt, step, times_of, given_order{});
    train(spent[1], schedule, dealt, step, times_of, search);
    train(spent[2], schedule, spread, step, times_of, given_order{});
    train(spent[3], schedule, spread, step, times_of, search);
  }
  return spent;
}
// [dflop]

// A trace keeps the order of its source, so that neighbours are alike: it is shuffled. Samples
// without an image are left out, and what is too long is cut, images last.
std::vector<sample> read(std::string const& path, std::string_view text, std::string_view visual)
{
  auto const texts = value_or_throw(load_length_trace(path, text));
  auto const visuals = value_or_throw(load_length_trace(path, visual));
  std::vector<sample> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    tokens const seen = std::min(visuals[i], longest);
    if (seen > 0) { all.push_back({std::min(texts[i], longest - seen), seen}); }
  }
  random_source random(2);
  random.shuffle(std::span(all));
  return all;
}

std::vector<sample> draw(tokens text, tokens visual, double sigma, std::uint64_t seed)
{
  random_source random(seed);
  clamped_lengths const texts{lognormal_lengths{.median = text, .sigma = sigma}, 1, longest / 2};
  clamped_lengths const visuals{lognormal_lengths{.median = visual, .sigma = sigma}, 1,
                                longest / 2};
  std::vector<sample> all(1500);
  for (sample& each : all) { each = {texts(random), visuals(random)}; }
  return all;
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    std::array<std::vector<sample>, 3> kinds;
    if (argc == 4) {
      kinds = {read(argv[1], "caption_tokens_sum", "visual_tokens_qwen2vl"),
               read(argv[2], "text_tokens", "visual_tokens_qwen2vl"),
               read(argv[3], "text_tokens", "video_tokens_qwen2vl")};
    } else {
      kinds = {draw(60, 340, 0.2, 1), draw(900, 600, 1.2, 2), draw(30, 7000, 0.7, 3)};
    }
    // As many of each kind.
    std::size_t const fewest =
        std::ranges::min(kinds, {}, [](auto const& kind) { return kind.size(); }).size();
    std::vector<sample> pool;
    for (auto const& kind : kinds) {
      pool.insert(pool.end(), kind.begin(), kind.begin() + static_cast<std::ptrdiff_t>(fewest));
    }
    constexpr std::array<std::size_t, 4> microbatches = {8, 16, 32, 64};
    if (pool.size() < replicas * microbatches.back() * samples_per_microbatch) {
      throw std::runtime_error("the traces have too few rows");
    }

    std::printf("Idle GPU time, of all%s\n", argc == 4 ? "" : "; lengths are drawn, not real");
    std::printf("%12s%11s%11s%11s%11s%11s%13s\n", "microbatches", "random", "ordered", "balanced",
                "both", "equal", "less idle");
    double least = 1;
    for (std::size_t const count : microbatches) {
      auto const spent = compare(pool, count);
      std::printf("%12zu", count);
      for (auto const& [busy, paid] : spent) { std::printf("%9.1f %%", 100 * (1 - busy / paid)); }
      double const bubbles = 7.0 / static_cast<double>(7 + count);  // of eight stages, all alike
      double const less = 1 - (spent[3].paid - spent[3].busy) / (spent[0].paid - spent[0].busy);
      std::printf("%9.1f %%%11.1f %%\n", 100 * bubbles, 100 * less);
      least = std::min(least, less);
    }
    std::printf("less idle in the paper: 82 to 84 %%\n");
    return least > 0.5 ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "dflop_scheduling: %s\n", problem.what()), 1;
  }
}
