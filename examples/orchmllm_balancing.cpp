// SPDX-License-Identifier: Apache-2.0
// OrchMLLM (B. Xiao, Y. Zheng et al., arXiv 2503.23830): after a global batch is read, every phase
// of a multimodal model rearranges it for itself, by the algorithm for its batching strategy.
// Lengths are drawn, or read: orchmllm_balancing IMAGES.csv AUDIO.csv, of which the first has
// columns text_tokens and image_tokens_sum and the second audio_tokens_25hz.

#include <ballast/core/value_or_throw.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/text.hpp>
#include <ballast/topology.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using namespace ballast;

constexpr std::size_t ranks = 64;
constexpr std::size_t samples = 2048;

// [orchmllm]
// Work of the busiest rank when sample i is where it was read, on rank i mod ranks.
cost_units busiest_as_read(std::vector<cost_units> const& costs, batching batches)
{
  std::vector<cost_units> sums(ranks, 0);
  std::vector<cost_units> padded(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    cost_units longest = 0;
    cost_units count = 0;
    for (std::size_t sample = rank; sample < costs.size(); sample += ranks) {
      longest = std::max(longest, costs[sample]);
      sums[rank] += costs[sample];
      padded[rank] = ++count * longest;
    }
  }
  return std::ranges::max(batches == batching::padded ? padded : sums);
}

// Balances one phase, prints the busiest rank's work, before and after, as a multiple of the mean
// work without padding, and returns whether balancing made it less.
template <batching_strategy Strategy>
bool balance(char const* phase, char const* algorithm, std::vector<tokens> const& lengths,
             quadratic_cost const& cost)
{
  policy_for<Strategy> const policy;
  auto const plan = value_or_throw(ballast::partition(lengths, one_gpu_bags(ranks), policy, cost));
  double mean = 0;
  for (cost_units const each : plan.costs) { mean += static_cast<double>(each) / ranks; }
  auto const before = static_cast<double>(busiest_as_read(plan.costs, batching_of(policy)));
  std::printf("%-16s%-26s%8.2f%8.2f%8.1f %%\n", phase, algorithm, before / mean,
              plan.makespan.value() / mean, 100 * plan.gap());
  return plan.makespan.value() < before;
}

bool balance_step(std::vector<tokens> const& image, std::vector<tokens> const& audio,
                  std::vector<tokens> const& text)
{
  using enum batching_strategy;
  std::vector<tokens> all(samples);
  for (std::size_t i = 0; i < samples; ++i) { all[i] = image[i] + audio[i] + text[i]; }
  // Layers of width d cost 24 l d^2 + 4 l^2 d, in the proportion of 6 d to 1.
  std::printf("%-16s%-26s%8s%8s%10s\n", "phase", "strategy", "as read", "after", "gap");
  bool shorter = balance<padding>("vision encoder", "padding (Alg. 2)", image, {.linear = 1});
  shorter &= balance<conv_transformer>("audio encoder", "conv-transformer (Alg. 5)", audio,
                                       {.linear = 6 * 1280, .quadratic = 1});
  shorter &= balance<no_padding>("text embedding", "no padding (Alg. 1)", text, {.linear = 1});
  shorter &= balance<quadratic>("language model", "quadratic (Alg. 4)", all,
                                {.linear = 6 * 4096, .quadratic = 1});
  return shorter;
}
// [orchmllm]

std::vector<tokens> draw(tokens median, double sigma, std::uint64_t seed)
{
  random_source random(seed);
  return draw_lengths(
      clamped_lengths{lognormal_lengths{.median = median, .sigma = sigma}, 1, 32768}, samples,
      random);
}

// A trace keeps the order of its source, so that neighbours are alike: it is shuffled.
std::vector<tokens> read(char const* path, char const* column)
{
  auto lengths = value_or_throw(load_length_trace(path, column));
  if (lengths.size() < samples) { throw std::runtime_error("the trace has too few rows"); }
  random_source random(1);
  random.shuffle(std::span(lengths));
  lengths.resize(samples);
  return lengths;
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    bool const shorter =
        argc == 3 ? balance_step(read(argv[1], "image_tokens_sum"),
                                 read(argv[2], "audio_tokens_25hz"), read(argv[1], "text_tokens"))
                  : balance_step(draw(900, 0.8, 1), draw(300, 0.6, 2), draw(100, 1.2, 3));
    return shorter ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "orchmllm_balancing: %s\n", problem.what()), 1;
  }
}
