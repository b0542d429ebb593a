// Steps of drawn drawn_families within several limits at once: how far plans end above their bound, and how
// many are refused. Two trees that are built side by side compare plan by plan: the steps are the same.
#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/partition/partition.hpp>

namespace {

using ballast::cost_units;
using ballast::rank_id;
using ballast::tokens;
using whole_numbers = std::vector<std::int64_t>;

// Lognormal, even, nearly equal, four values, giants, multiples of 256, two clusters.
constexpr std::uint64_t drawn_families = 7;

whole_numbers draw_lengths(ballast::random_source& random, std::uint64_t family,
                           std::size_t samples)
{
  if (family == 0) { return bench::lognormal_lengths(samples, 1.0, random()); }
  whole_numbers lengths(samples);
  for (std::int64_t& length : lengths) {
    constexpr std::array<std::int64_t, 4> values{100, 200, 300, 700};
    bool const is_rare = random.below(50) == 0;
    bool const is_short = random.below(2) == 0;
    length = family == 1   ? random.between(1, 4096)
             : family == 2 ? random.between(100'000, 101'000)
             : family == 3 ? values[random.below(4)]
             : family == 4 ? is_rare ? random.between(20'000, 60'000) : random.between(50, 1500)
             : family == 5 ? 256 * random.between(1, 32)
             : is_short    ? random.between(400, 600)
                           : random.between(4000, 6000);
  }
  return lengths;
}

// What a step asks for. Caps are 0.5 to 10 % above the mean, and no smaller than the largest sample.
struct asked {
  bool cap = false;       // on tokens
  bool other = false;     // on another quantity
  bool speeds = false;    // 50 to 100
  bool counts = false;    // equal
  bool together = false;  // pairs
  bool apart = false;     // pairs
  bool moves = false;     // as few as possible, from a plan of which a tenth was shuffled
  bool level = false;
  bool quantities = false;  // two
};

void limits(benchmark::State& state, asked const what)
{
  constexpr std::array slacks{5, 10, 30, 100};  // thousandths
  double gaps = 0;
  double worst = 0;
  double moved = 0;
  int planned = 0;
  int proven = 0;
  int refused = 0;
  for (auto _ : state) {
    ballast::random_source random(59);
    for (std::uint64_t step = 0; step < 4 * drawn_families; ++step) {
      std::size_t const bags = std::size_t{4} << random.below(4);
      std::size_t const samples = bags * (6 + random.below(24)) + random.below(bags);
      whole_numbers const lengths = draw_lengths(random, step % drawn_families, samples);
      whole_numbers const others = draw_lengths(random, random.below(drawn_families), samples);
      whole_numbers const thirds = draw_lengths(random, random.below(drawn_families), samples);
      std::vector<std::uint32_t> speeds(bags, 1);
      for (std::uint32_t& speed : speeds) {
        if (what.speeds) { speed = static_cast<std::uint32_t>(random.between(50, 100)); }
      }
      whole_numbers keys(samples);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        keys[sample] = static_cast<std::int64_t>(sample / 2);
      }
      auto const cap_of = [&](whole_numbers const& of) {
        std::int64_t const mean =
            std::reduce(of.begin(), of.end()) / static_cast<std::int64_t>(bags);
        std::int64_t const largest = *std::ranges::max_element(of);
        std::int64_t const least = what.together ? 2 * largest : largest;
        return std::max(mean * (1000 + slacks[step / drawn_families]) / 1000 + 1, least);
      };
      auto const cost = [](std::int64_t length) { return length * (length + 4096); };
      auto const layout = ballast::one_gpu_bags(bags).with_speeds(speeds);
      ballast::placement_limits given;
      if (what.cap) { given.most_per_gpu = cap_of(lengths); }
      if (what.other) { given.also = {{.of = others, .most_per_gpu = cap_of(others)}}; }
      if (what.counts) { given.samples = ballast::counts::equal(); }
      if (what.together) { given.together = keys; }
      if (what.apart) { given.apart = keys; }
      if (what.level) { given.then = ballast::most_level; }
      std::vector<rank_id> home(what.moves ? samples : 0);
      if (what.moves) {
        auto const before = ballast::partition(lengths, layout, cost);
        for (std::size_t sample = 0; sample < samples; ++sample) {
          home[sample] = ballast::to_id<rank_id>(
              random.below(10) == 0 ? random.below(bags) : to_index(before->owner[sample]));
        }
        given.home = home;
        given.then = ballast::fewest_moves;
      }
      auto const count = [&](auto const& plan) {
        if (!plan) {
          ++refused;
          return;
        }
        ++planned;
        gaps += plan->gap();
        worst = std::max(worst, plan->gap());
        moved += plan->moved.value();
        proven += plan->proven_optimal() ? 1 : 0;
      };
      std::vector<std::size_t> ids(samples);
      std::iota(ids.begin(), ids.end(), std::size_t{0});
      auto const length_of = [&](std::size_t sample) { return lengths[sample]; };
      if (what.quantities) {
        auto const costs = [&](std::size_t sample) {
          return ballast::cost_vector<2>{cost(lengths[sample]), cost(thirds[sample])};
        };
        count(ballast::partition(ids, layout, costs, length_of, given));
      } else {
        auto const one = [&](std::size_t sample) { return cost(lengths[sample]); };
        count(ballast::partition(ids, layout, one, length_of, given));
      }
    }
  }
  state.counters["mean_gap"] = gaps / std::max(planned, 1);
  state.counters["worst_gap"] = worst;
  state.counters["proven_of_28"] = proven;
  state.counters["refused_of_28"] = refused;
  if (what.moves) { state.counters["moved"] = moved / std::max(planned, 1); }
}

void once(benchmark::internal::Benchmark* row)
{
  row->Iterations(1)->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(limits, cap, asked{.cap = true})->Apply(once);
BENCHMARK_CAPTURE(limits, cap_speeds, asked{.cap = true, .speeds = true})->Apply(once);
BENCHMARK_CAPTURE(limits, other_cap, asked{.other = true})->Apply(once);
BENCHMARK_CAPTURE(limits, other_cap_speeds, asked{.other = true, .speeds = true})->Apply(once);
BENCHMARK_CAPTURE(limits, two_caps, asked{.cap = true, .other = true})->Apply(once);
BENCHMARK_CAPTURE(limits, cap_together, asked{.cap = true, .together = true})->Apply(once);
BENCHMARK_CAPTURE(limits, cap_apart, asked{.cap = true, .apart = true})->Apply(once);
BENCHMARK_CAPTURE(limits, counts, asked{.counts = true})->Apply(once);
BENCHMARK_CAPTURE(limits, counts_speeds, asked{.speeds = true, .counts = true})->Apply(once);
BENCHMARK_CAPTURE(limits, cap_counts, asked{.cap = true, .counts = true})->Apply(once);
BENCHMARK_CAPTURE(limits, other_cap_counts_speeds,
                  asked{.other = true, .speeds = true, .counts = true})
    ->Apply(once);
BENCHMARK_CAPTURE(limits, moves, asked{.moves = true})->Apply(once);
BENCHMARK_CAPTURE(limits, cap_moves, asked{.cap = true, .moves = true})->Apply(once);
BENCHMARK_CAPTURE(limits, counts_moves, asked{.counts = true, .moves = true})->Apply(once);
BENCHMARK_CAPTURE(limits, cap_level, asked{.cap = true, .level = true})->Apply(once);
BENCHMARK_CAPTURE(limits, quantities_cap, asked{.cap = true, .quantities = true})->Apply(once);
BENCHMARK_CAPTURE(limits, quantities_other_cap_speeds,
                  asked{.other = true, .speeds = true, .quantities = true})
    ->Apply(once);

}  // namespace
