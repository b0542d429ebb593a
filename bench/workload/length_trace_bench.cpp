#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/workload/length_trace.hpp>

#include <sstream>

namespace {

/// A trace of six columns, as the real ones have.
std::string trace_of(std::size_t rows)
{
  ballast::random_source random(42);
  std::string csv = "split,video_id,frames,width,text_tokens,visual_tokens\n";
  for (std::size_t row = 0; row < rows; ++row) {
    csv += "train," + std::to_string(4'000'000'000 + row) + "," +
           std::to_string(random.between(300, 2700)) + ",640," +
           std::to_string(random.between(8, 52)) + "," +
           std::to_string(random.between(1300, 66960)) + "\n";
  }
  return csv;
}

// Baseline: what a trainer writes in a hurry, which takes no quotes and finds no bad row.
std::vector<ballast::tokens> split_lines(std::string const& csv)
{
  std::istringstream stream(csv);
  std::string line;
  std::string field;
  std::getline(stream, line);
  std::vector<ballast::tokens> lengths;
  while (std::getline(stream, line)) {
    std::istringstream fields(line);
    ballast::tokens length = 0;
    for (int column = 0; std::getline(fields, field, ','); ++column) {
      if (column >= 4) { length += std::stoll(field); }
    }
    lengths.push_back(length);
  }
  return lengths;
}

void getline_and_stoll(benchmark::State& state)
{
  std::string const csv = trace_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) { benchmark::DoNotOptimize(split_lines(csv)); }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void read_length_trace(benchmark::State& state)
{
  std::string const csv = trace_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(ballast::read_length_trace(csv, "text_tokens+visual_tokens"));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  auto const ours = ballast::read_length_trace(csv, "text_tokens+visual_tokens");
  state.counters["same_lengths"] = ours.has_value() && *ours == split_lines(csv) ? 1 : 0;
}

BENCHMARK(getline_and_stoll)->ArgName("rows")->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK(read_length_trace)->ArgName("rows")->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
