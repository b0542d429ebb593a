// SPDX-License-Identifier: Apache-2.0
// 5,000 prompts on 16 engines that generate rollouts, by lengths that are predicted with an error
// of 0.5 in their log. Half of the predicted work is dealt at once, the longest prompts first; the
// rest is held back, and half of it is dealt whenever an engine is about to run dry, on top of what
// engines still have. `rollouts servegen_reason_sampled.csv` takes real lengths, or draws some.

#include <ballast/core.hpp>
#include <ballast/partition.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace {

using namespace ballast;

constexpr std::size_t prompts = 5000;
constexpr std::size_t engines = 16;

struct rollout {
  tokens length = 0;     // of the answer, known when it ends
  tokens predicted = 0;  // before it begins
};

// An engine takes a time for each token, and its prompts one after the other.
struct engine {
  std::vector<rollout> given = {};
  tokens ends = 0;

  void give(rollout const& each)
  {
    given.push_back(each);
    ends += each.length;
  }

  // What it has left at a time, as far as one knows then: of an answer that is longer than was
  // predicted, as much again as a fourth of what there is.
  [[nodiscard]] tokens running_load(tokens now) const
  {
    tokens begins = 0;
    tokens load = 0;
    for (rollout const& each : given) {
      tokens const generated = std::clamp<tokens>(now - begins, 0, each.length);
      begins += each.length;
      if (generated == each.length) { continue; }
      load += std::max(each.predicted - generated, generated / 4);
    }
    return load;
  }
};

// The end of the last engine by the mean of all.
double last_by_mean(std::vector<engine> const& all)
{
  tokens last = 0;
  tokens sum = 0;
  for (engine const& each : all) {
    last = std::max(last, each.ends);
    sum += each.ends;
  }
  return static_cast<double>(last) * engines / static_cast<double>(sum);
}

// [deal]
std::vector<engine> deal_in_waves(std::vector<rollout> held)
{
  std::ranges::sort(held, std::greater{}, &rollout::predicted);
  std::vector<engine> all(engines);
  tokens left = 0;
  for (rollout const& each : held) { left += each.predicted; }
  for (std::size_t first = 0; first < held.size();) {
    // When the first engine is about to run dry.
    tokens const now = std::ranges::min(all, {}, &engine::ends).ends;
    std::vector<tokens> running;
    for (engine const& each : all) { running.push_back(each.running_load(now)); }
    std::vector<tokens> wave;
    for (tokens const until = left / 2; left > until; left -= wave.back()) {
      wave.push_back(held[first + wave.size()].predicted);
    }
    auto const plan = partition(wave, one_gpu_bags(engines), std::identity{},
                                placement_limits{.starting_loads = running})
                          .value();
    for (std::size_t at = 0; at < wave.size(); ++at) {
      all[plan.owner[sample_id(at)]].give(held[first + at]);
    }
    first += wave.size();
  }
  return all;
}
// [deal]

// All at once, each prompt to the engine that `choose(predicted loads, number)` names.
template <class Choose>
std::vector<engine> deal_at_once(std::vector<rollout> const& all_prompts, Choose const& choose)
{
  std::vector<engine> all(engines);
  std::vector<tokens> loads(engines);
  for (std::size_t number = 0; number < all_prompts.size(); ++number) {
    std::size_t const chosen = choose(loads, number);
    loads[chosen] += all_prompts[number].predicted;
    all[chosen].give(all_prompts[number]);
  }
  return all;
}

}  // namespace

int main(int arguments, char** argument)
{
  random_source random(1);
  std::vector<tokens> lengths =
      draw_lengths(lognormal_lengths{.median = 789, .sigma = 1.2}, 40'000, random);
  if (arguments > 1) {
    lengths = read_file(argument[1], read_length_trace, "response_tokens").value();
  }
  random.shuffle(std::span(lengths));
  lengths.resize(std::min(prompts, lengths.size()));
  std::vector<rollout> drawn;
  for (tokens const length : lengths) {
    lognormal_lengths const error{.median = 1000, .sigma = 0.5};
    drawn.push_back({length, std::max<tokens>(1, length * error(random) / 1000)});
  }
  double const in_turn = last_by_mean(
      deal_at_once(drawn, [](auto const&, std::size_t number) { return number % engines; }));
  double const least = last_by_mean(deal_at_once(drawn, [](auto const& loads, std::size_t) {
    return static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
  }));
  double const in_waves = last_by_mean(deal_in_waves(drawn));
  auto const known = partition(lengths, one_gpu_bags(engines), std::identity{}).value();
  std::printf("the last engine by the mean: round robin %.3f, least loaded %.3f, in waves %.3f\n",
              in_turn, least, in_waves);
  std::printf("known lengths: %.4f %% above the best plan there is\n", 100 * known.gap());
  return in_waves <= 1.05 && in_waves <= std::min(in_turn, least) && known.gap() < 1e-4 ? 0 : 1;
}
