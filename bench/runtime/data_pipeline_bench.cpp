// SPDX-License-Identifier: Apache-2.0
#include "../common/workloads.hpp"  // defines: bench::{lognormal_lengths, transformer_cost}

#include <benchmark/benchmark.h>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_proxy.hpp>
#include <ballast/runtime/data/data_ranks.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/length_trace.hpp>

#ifdef BALLAST_BENCH_WITH_JPEG
#include "../../examples/common/jpeg_file.hpp"  // defines: jpeg_file::{picture, read, write}

#include <unistd.h>
#endif

#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

namespace data_bench {

using ballast::data_setup;
using ballast::data_step;
using ballast::rank_id;
using ballast::tokens;

// The column of a trace, in a drawn order; empty where there is no folder of traces.
std::vector<tokens> column_of(char const* file, char const* expression)
{
  char const* const folder = std::getenv("BALLAST_DATA");
  if (folder == nullptr) { return {}; }
  auto lengths =
      ballast::read_file(std::string(folder) + "/" + file, ballast::read_length_trace, expression)
          .value();
  ballast::random_source(1).shuffle(std::span(lengths));
  return lengths;
}

// ---- Memory of the proxy -------------------------------------------------------------------------

std::size_t heap_bytes()
{
  auto const used = mallinfo2();
  return used.uordblks + used.hblkhd;
}

// What it holds in the middle of an epoch, and how long a sample takes it: dealt, reported,
// delivered, taken.
void data_proxy(benchmark::State& state)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  std::size_t held = 0;
  for (auto _ : state) {
    std::size_t const before = heap_bytes();
    auto const proxy =
        std::make_unique<ballast::data_proxy>(data_setup{.samples = samples, .step_samples = 256});
    data_step step;
    std::vector<std::uint64_t> tickets;
    std::vector<tokens> const length = {1000};
    for (std::size_t steps = 0; !proxy->finished(); ++steps) {
      while (auto const dealt = proxy->deal(0)) { (void)proxy->report(0, dealt->ticket, length); }
      while (proxy->make(step, tickets)) {
        for (std::uint64_t const ticket : tickets) { proxy->deliver(ticket); }
        proxy->take();
      }
      if (steps == samples / 1024) { held = heap_bytes() - before; }
    }
  }
  state.counters["bytes"] = static_cast<double>(held);
  state.counters["bytes_of_sample"] = static_cast<double>(held) / static_cast<double>(samples);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(data_proxy)
    ->ArgName("samples")
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000)
    ->Unit(benchmark::kMillisecond);

// ---- Throughput ----------------------------------------------------------------------------------

// A video of so many tokens, 1,536 bytes each, that is fetched at 1 GB/s and drawn.
struct drawn_videos {
  std::span<tokens const> lengths;

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    auto const bytes = static_cast<std::size_t>(lengths[sample]) * 1536;
    std::this_thread::sleep_for(std::chrono::nanoseconds(bytes));
    ballast::loaded_sample drawn{{lengths[sample]}, std::vector<std::byte>(bytes)};
    std::uint64_t word = sample;
    for (std::size_t at = 0; at + 8 <= bytes; at += 512) {  // what a decoder writes is not free
      word = word * 6364136223846793005U + 1;
      std::memcpy(&drawn.bytes[at], &word, 8);
    }
    return drawn;
  }
};

// Gives each sample to the rank with the shortest ones so far.
struct shortest {
  std::size_t ranks = 1;

  ballast::result<void> operator()(data_step const& step, std::span<rank_id> owner) const
  {
    std::vector<tokens> loads(ranks);
    for (std::size_t entry = 0; entry < owner.size(); ++entry) {
      std::size_t least = 0;
      for (std::size_t rank = 1; rank < ranks; ++rank) {
        if (loads[rank] < loads[least]) { least = rank; }
      }
      owner[entry] = ballast::to_id<rank_id>(least);
      loads[least] += step.lengths_of(entry)[0];
    }
    return {};
  }
};

struct loaded_bytes {
  std::size_t bytes = 0;
  double waited = 0;  // seconds of a step
};

// Trainers, the proxy and loaders as ranks, which copy each payload from one to the other.
template <class Source>
loaded_bytes over_ranks(Source const& source, data_setup const& setup, std::size_t trainers,
                        std::size_t loaders, std::chrono::nanoseconds computing = {})
{
  ballast::loader_options const options{.least = loaders, .most = loaders};
  auto const all =
      ballast::run_ranks(trainers + 1 + loaders, [&](ballast::thread_communicator& comm) {
        auto const proxy = ballast::to_id<rank_id>(trainers);
        loaded_bytes own;
        if (comm.rank() == proxy) {
          ballast::or_throw(serve_as_proxy(comm, trainers, shortest{trainers}, setup, {}, options));
        } else if (comm.rank() > proxy) {
          ballast::or_throw(serve_as_loader(comm, proxy, source));
        } else {
          ballast::data_trainer data(comm, proxy, options);
          std::chrono::nanoseconds first{};
          std::size_t steps = 0;
          for (; auto const batch = data.next().value(); ++steps) {
            if (steps == 0) { first = data.waited(); }  // nothing can be fetched ahead of it
            for (auto const& each : batch->own) { own.bytes += each.bytes.size(); }
            std::this_thread::sleep_for(computing);
          }
          own.waited = std::chrono::duration<double>(data.waited() - first).count() /
                       static_cast<double>(steps > 1 ? steps - 1 : 1);
          ballast::or_throw(data.finish());
        }
        return own;
      });
  loaded_bytes sum;
  for (std::size_t rank = 0; rank < trainers; ++rank) {
    sum.bytes += all[rank].bytes;
    sum.waited += all[rank].waited / static_cast<double>(trainers);
  }
  return sum;
}

void data_loaders(benchmark::State& state, bool central)
{
  auto lengths = column_of("nextqa_video.csv", "video_tokens_qwen2vl");
  if (lengths.empty()) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
  lengths.resize(96);
  drawn_videos const source{lengths};
  auto const loaders = static_cast<std::size_t>(state.range(0));
  std::size_t bytes = 0;
  for (auto _ : state) {
    if (!central) {
      bytes += over_ranks(source, {.samples = lengths.size(), .step_samples = 8}, 2, loaders).bytes;
      continue;
    }
    // A controller loads all payloads and sends each rank its own.
    auto const moved = ballast::run_ranks(3, [&](ballast::thread_communicator& comm) {
      std::size_t received = 0;
      for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
        std::size_t const owner = sample % 2;
        std::vector<std::size_t> to(3), from(3);
        std::vector<std::byte> payload;
        auto const size = static_cast<std::size_t>(lengths[sample]) * 1536;
        if (comm.rank() == rank_id{2}) {
          payload = source.load(sample)->bytes;
          to[owner] = size;
        }
        std::vector<std::byte> own(to_index(comm.rank()) == owner ? size : 0);
        from[2] = own.size();
        ballast::or_throw(comm.all_to_all_v(payload, to, own, from));
        received += own.size();
      }
      return received;
    });
    bytes += moved[0] + moved[1];
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
void loaders_central(benchmark::State& state)
{
  data_loaders(state, true);
}
void loaders_of_metadata(benchmark::State& state)
{
  data_loaders(state, false);
}
BENCHMARK(loaders_central)
    ->ArgName("loaders")
    ->Arg(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(loaders_of_metadata)
    ->ArgName("loaders")
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// ---- How long a training rank waits: DistTrain's Figure 17 ---------------------------------------

#ifdef BALLAST_BENCH_WITH_JPEG
// A sample is an image of a file.
struct jpeg_images {
  std::string path;

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t) const
  {
    auto image = jpeg_file::read(path);
    if (!image) { return tl::unexpected(image.error()); }
    return ballast::loaded_sample{{1}, std::move(image->pixels)};
  }
};

// The same with loaders that are threads of the rank's process, which copy nothing.
double waited_for_threads(jpeg_images const& source, data_setup const& setup,
                          std::chrono::nanoseconds computing)
{
  ballast::data_pipeline pipeline(source, shortest{1}, 1, setup, {}, {.least = 1, .most = 1});
  std::chrono::nanoseconds first{};
  std::size_t steps = 0;
  for (; pipeline.next(rank_id{0}).value(); ++steps) {
    if (steps == 0) { first = pipeline.waited(rank_id{0}); }
    std::this_thread::sleep_for(computing);
  }
  return std::chrono::duration<double>(pipeline.waited(rank_id{0}) - first).count() /
         static_cast<double>(steps - 1);
}

void data_wait(benchmark::State& state)
{
  auto const images = static_cast<std::size_t>(state.range(0));
  auto const side = static_cast<std::size_t>(state.range(1));
  jpeg_file::picture drawn{side, side, std::vector<std::byte>(side * side * 3)};
  ballast::random_source random(1);
  for (std::size_t at = 0; at < drawn.pixels.size(); ++at) {  // a gradient with noise
    drawn.pixels[at] = static_cast<std::byte>((at / side + random.below(24)) & 255U);
  }
  auto const path =
      std::filesystem::temp_directory_path() / ("ballast-" + std::to_string(getpid()) + ".jpg");
  (void)jpeg_file::write(path.string(), drawn);
  jpeg_images const source{path.string()};
  double inside = 0;
  double waited = 0;
  double of_threads = 0;
  for (auto _ : state) {
    inside = bench::median_seconds(3, [&] {
      for (std::size_t image = 0; image < images; ++image) { (void)source.load(image).value(); }
    });
    // The rank computes for three times as long as one loader decodes.
    std::chrono::nanoseconds const computing(static_cast<std::int64_t>(inside * 3e9));
    data_setup const setup{.samples = 6 * images, .step_samples = images};
    waited = over_ranks(source, setup, 1, 1, computing).waited;
    of_threads = waited_for_threads(source, setup, computing);
  }
  std::filesystem::remove(path);
  state.counters["decoding_ms"] = 1000 * inside;
  state.counters["waiting_for_ranks_ms"] = 1000 * waited;
  state.counters["waiting_for_threads_ms"] = 1000 * of_threads;
}
BENCHMARK(data_wait)
    ->ArgNames({"images", "side"})
    ->ArgsProduct({{1, 5, 10}, {512, 1024, 2048}})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
#endif

// ---- Windows -------------------------------------------------------------------------------------

// Sums over the steps of an epoch: makespans of 64 ranks over mean loads.
template <class Policy>
void data_windows(benchmark::State& state, std::vector<tokens> const& lengths, Policy policy)
{
  if (lengths.empty()) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
  constexpr std::size_t ranks = 64;
  auto const cost = bench::transformer_cost();
  auto const cost_of = [&](std::span<tokens const> own) { return cost(own[0]); };
  auto const bags = ballast::one_gpu_bags(ranks);
  double ratio = 0;
  double heaviest_step = 0;
  for (auto _ : state) {
    ballast::data_windows const windows{.steps = static_cast<std::size_t>(state.range(0)),
                                        .held_back = static_cast<std::size_t>(state.range(1)),
                                        .policy = policy,
                                        .cost = cost_of};
    auto const known = [&](std::uint64_t sample) { return std::vector<tokens>{lengths[sample]}; };
    ballast::data_proxy proxy(data_setup{.samples = lengths.size(), .step_samples = 4 * ranks},
                              windows, known);
    data_step step;
    std::vector<std::uint64_t> tickets;
    double makespans = 0;
    double means = 0;
    double most = 0;
    std::size_t steps = 0;
    while (!proxy.finished()) {
      while (auto const dealt = proxy.deal(0)) {
        (void)proxy.report(0, dealt->ticket, known(dealt->sample));
      }
      while (proxy.make(step, tickets)) {
        auto const plan = ballast::partition(step.lengths, bags, cost).value();
        double total = 0;
        for (auto const load : plan.loads) { total += static_cast<double>(load); }
        makespans += plan.makespan.value();
        means += total / ranks;
        most = std::max(most, total / ranks);
        ++steps;
        proxy.take();
      }
    }
    ratio = makespans / means;
    heaviest_step = most / (means / static_cast<double>(steps));
  }
  state.counters["makespan_over_mean"] = ratio;
  state.counters["heaviest_step_over_mean"] = heaviest_step;
}

template <class Policy>
void windows_documents(benchmark::State& state, Policy policy)
{
  data_windows(state, column_of("interleaved_docs.csv", "text_tokens+visual_tokens_qwen2vl"),
               policy);
}
template <class Policy>
void windows_lognormal(benchmark::State& state, Policy policy)
{
  data_windows(state, bench::lognormal_lengths(16'384, 1.5, 3), policy);
}
void window_sizes(benchmark::internal::Benchmark* each)
{
  each->ArgNames({"steps", "held_back"})
      ->Args({1, 0})
      ->Args({8, 4})
      ->Args({8, 8})
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(windows_documents, long_rounds, ballast::long_rounds{})->Apply(window_sizes);
BENCHMARK_CAPTURE(windows_documents, even_rounds, ballast::even_rounds{})->Apply(window_sizes);
BENCHMARK_CAPTURE(windows_lognormal, long_rounds, ballast::long_rounds{})->Apply(window_sizes);
BENCHMARK_CAPTURE(windows_lognormal, even_rounds, ballast::even_rounds{})->Apply(window_sizes);

}  // namespace data_bench
