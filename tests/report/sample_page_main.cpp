// SPDX-License-Identifier: Apache-2.0
// Writes the page of a made-up plan, and its timeline, for checks in a browser:
//   sample_page PAGE.html [TIMELINE.json [GPUS [SAMPLES_PER_GPU]]]
#include <ballast/core/random.hpp>
#include <ballast/report/chrome_trace.hpp>
#include <ballast/report/plan_page.hpp>
#include <ballast/report/write_file.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace {

using ballast::tokens;

constexpr double width = 3072;
constexpr double gamma = 0.405;
constexpr double seconds_per_flop = 57 / 400e12;  // 57 layers at 400 TFLOP/s

double dense_seconds(double length)
{
  return seconds_per_flop * 24 * length * width * width;
}
double attention_seconds(double length)
{
  return seconds_per_flop * gamma * 4 * length * length * width;
}
double cost(tokens length)
{
  auto const tokens_in_sample = static_cast<double>(length);
  return dense_seconds(tokens_in_sample) + attention_seconds(tokens_in_sample);
}

/// Images of two sizes and, on a quarter of the GPUs, videos: sources that differ between GPUs.
std::vector<tokens> draw_lengths(std::size_t gpus, std::size_t per_gpu)
{
  ballast::random_source random(7);
  std::vector<tokens> lengths;
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::size_t sample = 0; sample < per_gpu; ++sample) {
      tokens const base = gpu % 4 == 3   ? random.between(3000, 9000)
                          : gpu % 2 == 0 ? random.between(240, 420)
                                         : random.between(950, 1500);
      lengths.push_back(base + random.between(0, 392));
    }
  }
  return lengths;
}

struct placed {
  std::vector<double> loads;
  std::vector<ballast::gantt_bar> bars;
};

placed place(std::vector<tokens> const& lengths, std::size_t gpus, bool balanced)
{
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (balanced) {
    std::ranges::sort(order, {},
                      [&](std::size_t sample) { return std::pair(-lengths[sample], sample); });
  }
  placed plan{std::vector<double>(gpus, 0), {}};
  for (std::size_t const sample : order) {
    auto const lightest = std::ranges::min_element(plan.loads) - plan.loads.begin();
    std::size_t const gpu =
        balanced ? static_cast<std::size_t>(lightest) : sample / (lengths.size() / gpus);
    double const seconds = cost(lengths[sample]);
    plan.bars.push_back(
        {ballast::to_id<ballast::rank_id>(gpu), plan.loads[gpu], seconds,
         "sample " + std::to_string(sample) + ", " + std::to_string(lengths[sample]) + " tokens"});
    plan.loads[gpu] += seconds;
  }
  return plan;
}

ballast::balance_metrics metrics(std::vector<double> const& loads)
{
  auto const [lightest, heaviest] = std::ranges::minmax(loads);
  return {heaviest, lightest,
          std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size())};
}

ballast::plan_page_data sample_page(std::size_t gpus, std::size_t per_gpu)
{
  std::vector<tokens> const lengths = draw_lengths(gpus, per_gpu);
  placed const before = place(lengths, gpus, false);
  placed const after = place(lengths, gpus, true);

  ballast::plan_page_data data;
  data.title = "Images & <videos> on " + std::to_string(gpus) + " GPUs";
  data.unit = "s";
  data.settings = {
      {"Trace", "images \"and\" videos.csv"}, {"Length", "text_tokens+visual_tokens_qwen2vl"},
      {"Bags", "g1n" + std::to_string(gpus)}, {"Cost", "transformer:d=3072,gamma=0.405"},
      {"Policy", "greedy_knapsack"},          {"Digest", "0x5f2a9c01d3e4b786"}};
  data.load_before = before.loads;
  data.load_after = after.loads;
  data.timeline_before = before.bars;
  data.timeline_after = after.bars;

  auto const [shortest, longest] = std::ranges::minmax(lengths);
  for (tokens low = 256; low <= longest; low = low * 6 / 5) {
    ballast::histogram_bin bin{low, low * 6 / 5, 0, 0};
    for (tokens const length : lengths) {
      if (length < bin.low || length >= bin.high) { continue; }
      ++bin.samples;
      bin.work += cost(length);
    }
    data.lengths.push_back(bin);
  }
  for (int point = 0; point <= 96; ++point) {
    double const length = static_cast<double>(longest) * point / 96;
    data.cost_model.push_back(
        {static_cast<tokens>(length), dense_seconds(length), attention_seconds(length)});
  }
  for (tokens const length : {512, 1024, 2048, 4096, 8192}) {
    data.measured_costs.push_back({length, cost(length) * (length % 3 == 1 ? 1.04 : 0.97)});
  }
  std::vector<tokens> sorted = lengths;
  std::ranges::sort(sorted);
  data.length_marks = {
      {shortest, "shortest"}, {sorted[sorted.size() / 2], "median"}, {longest, "longest"}};

  tokens const total = std::accumulate(lengths.begin(), lengths.end(), tokens{0});
  double const bound = std::max(metrics(after.loads).mean, cost(longest));
  double const gap = metrics(after.loads).heaviest / bound - 1;
  for (int step = 0; step < 12; ++step) {
    data.steps.push_back({static_cast<std::int64_t>(lengths.size()), total + 811 * (step % 5),
                          metrics(before.loads), metrics(after.loads), gap,
                          43e-6 + 1e-6 * (step * 7 % 5)});
  }
  return data;
}

std::string timeline(ballast::plan_page_data const& data)
{
  ballast::chrome_trace trace;
  for (std::uint32_t const process : {0U, 1U}) {
    trace.name_process(process, process == 0 ? "before" : "after");
    auto const& bars = process == 0 ? data.timeline_before : data.timeline_after;
    auto const gpus = static_cast<std::uint32_t>(data.load_before.size());
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      trace.name_track({process, gpu}, "GPU " + std::to_string(gpu));
    }
    for (ballast::gantt_bar const& bar : bars) {
      auto const start = static_cast<std::int64_t>(bar.start * 1e9);
      auto const end = static_cast<std::int64_t>((bar.start + bar.duration) * 1e9);
      trace.add({{process, static_cast<std::uint32_t>(bar.gpu)},
                 bar.label,
                 "sample",
                 start,
                 end - start});
    }
  }
  return trace.json().value();
}

}  // namespace

int main(int arguments, char** argument)
{
  if (arguments < 2) { return 2; }
  auto const number = [&](int position, std::size_t otherwise) {
    return arguments > position ? static_cast<std::size_t>(std::atoi(argument[position]))
                                : otherwise;
  };
  ballast::plan_page_data const data = sample_page(number(3, 32), number(4, 6));
  auto written = ballast::write_file(argument[1], ballast::plan_page(data));
  if (written && arguments > 2) { written = ballast::write_file(argument[2], timeline(data)); }
  if (!written) { std::fprintf(stderr, "%s\n", written.error().message.c_str()); }
  return written ? 0 : 1;
}
