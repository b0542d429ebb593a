#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/peak_tokens.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/workload/length_trace.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace {

using ballast::tokens;

constexpr std::size_t peak_ranks = 64;

// Lengths of real samples in random order, from the folder that BALLAST_DATA names.
std::vector<tokens> trace_of(std::string const& file, std::string const& column)
{
  char const* const folder = std::getenv("BALLAST_DATA");
  std::ifstream in(folder == nullptr ? file : folder + ("/" + file));
  std::ostringstream text;
  text << in.rdbuf();
  auto const all = ballast::read_length_trace(text.str(), column);
  if (!all) { return {}; }
  ballast::random_source random(1);
  std::vector<tokens> drawn(200 * peak_ranks);
  for (tokens& length : drawn) { length = (*all)[random.below(all->size())]; }
  return drawn;
}

// Baseline: samples on the ranks that read them. `read` and `balanced` are the tokens of the
// fullest of 64 ranks with 32 samples a rank, over the mean without padding; `batch_read` and
// `batch_balanced` the largest mini-batches, in samples a rank, with which no rank holds more than
// `budget` times the mean of those 32. The time is that of both searches.
template <class Policy>
void peak(benchmark::State& state, std::string const& file, std::string const& column,
          Policy policy, double budget)
{
  auto const lengths = trace_of(file, column);
  if (lengths.empty()) {
    return state.SkipWithError("BALLAST_DATA names no folder with this trace");
  }
  auto const bags = ballast::one_gpu_bags(peak_ranks);
  ballast::workspace memory;
  auto const first = [&](std::size_t samples) {
    return std::vector<tokens>(lengths.begin(),
                               lengths.begin() + static_cast<std::ptrdiff_t>(samples));
  };
  auto const peak_of = [&](std::vector<tokens> const& step, auto const& by) {
    auto const plan = ballast::partition(step, bags, ballast::quadratic_cost{.linear = 1}, {}, by);
    return static_cast<double>(
        peak_tokens(step, plan->owner, bags, ballast::batching_of(policy), memory));
  };
  auto const usual = first(32 * peak_ranks);
  double mean = 0;
  for (tokens const length : usual) { mean += static_cast<double>(length) / peak_ranks; }
  auto const largest = [&](auto const& by) {
    return ballast::largest_mini_batch(lengths.size() / peak_ranks, [&](std::size_t per_rank) {
      return peak_of(first(per_rank * peak_ranks), by) <= budget * mean;
    });
  };
  for (auto _ : state) {
    state.counters["batch_read"] = static_cast<double>(largest(ballast::round_robin{}));
    state.counters["batch_balanced"] = static_cast<double>(largest(policy));
  }
  state.counters["read"] = peak_of(usual, ballast::round_robin{}) / mean;
  state.counters["balanced"] = peak_of(usual, policy) / mean;
}

BENCHMARK_CAPTURE(peak, images_packed, "servegen_mm_image_sampled.csv", "image_tokens_sum",
                  ballast::longest_processing_time{}, 1.2)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(peak, images_padded, "servegen_mm_image_sampled.csv", "image_tokens_sum",
                  ballast::padded_batches{}, 1.2)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(peak, speech_packed, "librispeech_mix_audio.csv", "audio_tokens_25hz",
                  ballast::longest_processing_time{}, 1.2)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(peak, speech_padded, "librispeech_mix_audio.csv", "audio_tokens_25hz",
                  ballast::padded_batches{}, 1.2)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(peak, text_packed, "servegen_mm_image_sampled.csv", "text_tokens",
                  ballast::longest_processing_time{}, 1.2)
    ->Unit(benchmark::kMillisecond);

}  // namespace
