// SPDX-License-Identifier: Apache-2.0
// DistTrain (Z. Zhang et al., SIGCOMM 2025): the sequences of a step are spread over data-parallel
// groups (intra-microbatch reordering), then every group puts its microbatches in order
// (inter-microbatch reordering), so that no GPU waits for the few whose encoder takes long. The LLM
// always takes equally long, since sequences have one length. Lengths are drawn, or read:
// disttrain_reordering DOCS.csv VIDEO.csv, the first with columns text_tokens and
// visual_tokens_qwen2vl, the second with text_tokens and video_tokens_qwen2vl.

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

constexpr tokens sequence = 16'384;
constexpr std::size_t data_parallel = 8;  // groups of GPUs, each a pipeline
constexpr std::size_t steps = 8;

// [disttrain]
// A vision encoder of 0.6 billion parameters on one stage, an LLM of 8 billion on seven.
constexpr char const* encoder = "transformer:d=1280,layers=32";
constexpr char const* llm =
    "transformer:d=4096,layers=32,heads=32,kv_heads=8,ffn=14336,gated=1,causal=1";
std::vector<std::vector<std::uint32_t>> const layers = {{32}, {5, 5, 5, 5, 4, 4, 4}};

// Picoseconds at 200 TFLOP/s, both modules trained.
pass_costs price(char const* model)
{
  gamma_fit const gpu{.seconds_per_flop = 1 / 200e12, .gamma = 1};
  return value_or_throw(
      price_passes(value_or_throw(parse_cost_spec(model)).forward, training_passes{},
                   [&](flop_polynomial flops) { return latency_cost(gpu, flops); }));
}

// The encoder sees tiles of 1024 patches, which become 256 tokens, each for itself.
struct model_times {
  stage_time tile = price(encoder)(1024);
  stage_time sequence_in_llm = price(llm)(sequence);

  std::array<stage_time, 2> operator()(tokens visual) const
  {
    tokens const tiles = (visual + 255) / 256;
    return {stage_time{tiles * tile.forward, tiles * tile.backward}, sequence_in_llm};
  }
};

struct gpu_time {
  double busy = 0;
  double paid = 0;
  double least_paid = 0;  // for these sequences in these groups, whatever their order
};

// One sequence per microbatch, group after group. All groups wait for the slowest.
template <order_policy Policy>
void train(gpu_time& spent, compiled_schedule const& schedule, std::span<tokens const> step,
           std::span<sample_id const> by_group, model_times const& times_of, Policy const& policy)
{
  time_units slowest = 0;
  time_units bound = 0;
  for (auto left = by_group; !left.empty(); left = left.subspan(schedule.microbatches())) {
    std::vector<std::array<sample_id, 1>> microbatches;
    for (sample_id const id : left.first(schedule.microbatches())) { microbatches.push_back({id}); }
    auto const times =
        split_over_stages(value_or_throw(sum_over_samples(microbatches, step, times_of)), layers);
    auto const plan = value_or_throw(order_microbatches(schedule, times, policy));
    slowest = std::max(slowest, plan.makespan);
    bound = std::max(bound, plan.lower_bound);
    for (auto const& [forward, backward] : times.rows) {
      spent.busy += static_cast<double>(forward + backward);
    }
  }
  auto const gpus = static_cast<double>(data_parallel * schedule.stages().ranks());
  spent.paid += static_cast<double>(slowest) * gpus;
  spent.least_paid += static_cast<double>(bound) * gpus;
}

// In random order, reordered over the groups, and with the microbatches of a group in order too: by
// interval filling, and by search.
std::array<gpu_time, 4> compare(std::vector<tokens> sequences, std::size_t microbatches)
{
  model_times const times_of;
  auto const stages =
      value_or_throw(joined_stages({.encoders = {{1}}, .llm = {7}, .generators = {}}));
  auto const schedule = value_or_throw(compiled_schedule::make(
      stages, value_or_throw(one_forward_one_backward{}(stages, microbatches))));
  auto const size_of = [&](tokens visual) { return times_of(visual)[0].forward; };
  std::vector<sample_id> as_read(data_parallel * microbatches);
  for (std::size_t i = 0; i < as_read.size(); ++i) { as_read[i] = to_id<sample_id>(i); }
  std::array<gpu_time, 4> spent;
  random_source random(1);
  for (std::size_t number = 0; number < steps; ++number) {
    random.shuffle(std::span(sequences));
    auto const step = std::span(sequences).first(as_read.size());
    auto const spread =
        value_or_throw(intra_reorder(step, one_gpu_bags(data_parallel), size_of, equal_count{}));
    train(spent[0], schedule, step, as_read, times_of, given_order{});
    train(spent[1], schedule, step, spread.order(), times_of, given_order{});
    train(spent[2], schedule, step, spread.order(), times_of, interval_filling{});
    train(spent[3], schedule, step, spread.order(), times_of, local_search{insertion{}, 10'000});
  }
  return spent;
}
// [disttrain]

struct document {
  tokens text = 0;
  tokens visual = 0;
};

std::vector<document> read(std::string const& path, std::string_view visual)
{
  auto const texts = value_or_throw(load_length_trace(path, "text_tokens"));
  auto const visuals = value_or_throw(load_length_trace(path, visual));
  std::vector<document> all;
  for (std::size_t i = 0; i < texts.size(); ++i) { all.push_back({texts[i], visuals[i]}); }
  random_source random(2);  // a trace keeps the order of its source, so that neighbours are alike
  random.shuffle(std::span(all));
  return all;
}

std::vector<document> draw(std::size_t count, tokens text, tokens visual, std::uint64_t seed)
{
  random_source random(seed);
  clamped_lengths const texts{lognormal_lengths{.median = text, .sigma = 1.0}, 1, sequence};
  clamped_lengths const visuals{lognormal_lengths{.median = visual, .sigma = 1.0}, 1, sequence};
  std::vector<document> all(count);
  for (document& each : all) { each = {texts(random), visuals(random)}; }
  return all;
}

// Documents one after the other, each in the sequence that is open or else in a new one, cut where
// it is longer than a sequence. Returns the visual tokens of each sequence.
std::vector<tokens> pack(std::span<document const> documents)
{
  std::vector<tokens> sequences;
  tokens room = 0;
  for (auto const& [text, visual] : documents) {
    tokens const seen = std::min(visual, sequence);
    tokens const length = seen + std::min(text, sequence - seen);
    if (length > room) {
      sequences.push_back(0);
      room = sequence;
    }
    room -= length;
    sequences.back() += seen;
  }
  return sequences;
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    bool const real = argc == 3;
    auto documents = real ? read(argv[1], "visual_tokens_qwen2vl") : draw(9'000, 900, 200, 3);
    auto videos = real ? read(argv[2], "video_tokens_qwen2vl") : draw(1'500, 30, 8'000, 4);
    // One to six documents, which gives an encoder stage about as much to do as a stage of the LLM.
    videos.resize(std::min(videos.size(), documents.size() / 6));
    documents.insert(documents.end(), videos.begin(), videos.end());
    random_source random(5);
    random.shuffle(std::span(documents));
    auto const sequences = pack(documents);
    constexpr std::array<std::size_t, 4> microbatches = {8, 16, 32, 64};
    if (sequences.size() < data_parallel * microbatches.back()) {
      throw std::runtime_error("the traces have too few rows");
    }

    std::printf("Idle GPU time, of all, %zu sequences%s\n", sequences.size(),
                real ? "" : "; lengths are drawn, not real");
    std::printf("%12s%12s%12s%12s%12s%12s%10s\n", "microbatches", "random", "intra", "+ interval",
                "+ search", "bound", "faster");
    bool always_faster = true;
    for (std::size_t const count : microbatches) {
      auto const spent = compare(sequences, count);
      std::printf("%12zu", count);
      for (auto const& [busy, paid, least_paid] : spent) {
        std::printf("%10.1f %%", 100 * (1 - busy / paid));
      }
      double const bound = 1 - spent[3].busy / spent[3].least_paid;
      double const faster = spent[0].paid / spent[3].paid;
      std::printf("%10.1f %%%8.2f x\n", 100 * bound, faster);
      always_faster &= faster > 1;
    }
    return always_faster ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "disttrain_reordering: %s\n", problem.what()), 1;
  }
}
