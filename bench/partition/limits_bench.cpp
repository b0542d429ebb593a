// Steps of drawn drawn_families within several limits at once: how far plans end above their bound, and how
// many are refused. Two trees that are built side by side compare plan by plan: the steps are the same.
#include "../common/plain_search.hpp"  // the baselines N1 and N2
#include "../common/workloads.hpp"     // defines: bench::lognormal_lengths, ...

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
    ballast::random_source random(bench::seed_of(state, 59));
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

// Steps whose cap counts something else than the cost, 1 % above the mean where not said otherwise.
enum class drawn {
  light_long,       // long samples weigh next to nothing, and heavy ones cost next to nothing
  squares,          // the weight is the square of the cost; speeds 1 and 3
  half_free,        // half of the samples cost nothing; +0.1 %
  few_values,       // four costs, and weights of few values
  equal_counts,     // +5 %
  at_most_n_apart,  // about as many samples as the mean, pairs and threes apart; +1 to +10 %
};

struct drawn_step {
  whole_numbers costs;
  bench::plain_step<1> plain;
};

drawn_step draw_step(ballast::random_source& random, drawn family, bool speeds)
{
  constexpr std::array<std::size_t, 6> counts{2, 3, 4, 6, 8, 16};
  std::size_t const bags = counts[random.below(counts.size())];
  std::size_t const samples = bags * (3 + random.below(14)) + random.below(bags);
  std::int64_t slack = 10;  // thousandths
  drawn_step step{whole_numbers(samples), {}};
  whole_numbers weights(samples);
  step.plain.speeds.assign(bags, 1);
  for (auto& speed : step.plain.speeds) {
    if (speeds) { speed = static_cast<std::uint32_t>(random.between(50, 100)); }
    if (!speeds && family == drawn::squares) { speed = random.below(2) == 0 ? 1 : 3; }
  }
  for (std::size_t sample = 0; sample < samples; ++sample) {
    std::int64_t const large = random.between(500, 2000);
    std::int64_t const small = random.between(1, 20);
    std::int64_t const any = random.between(1, 1000);
    bool const is_long = random.below(2) == 0;
    if (family == drawn::squares) {
      step.costs[sample] = 1 + any / 10;
      weights[sample] = step.costs[sample] * step.costs[sample];
    } else if (family == drawn::half_free) {
      slack = 1;
      step.costs[sample] = sample % 2 == 0 ? 0 : any;
      weights[sample] = random.between(1, 1000);
    } else {
      step.costs[sample] = is_long ? large : small;
      weights[sample] = is_long ? small : large;
    }
  }
  if (family == drawn::few_values) {
    slack = std::array{5, 10, 30, 100}[random.below(4)];
    step.costs = draw_lengths(random, 3, samples);
    weights = draw_lengths(random, 3 + 2 * random.below(2), samples);
  }
  if (family == drawn::equal_counts || family == drawn::at_most_n_apart) {
    step.costs = draw_lengths(random, random.below(drawn_families), samples);
    weights = draw_lengths(random, random.below(drawn_families), samples);
  }
  step.plain.keeps_counts = family == drawn::equal_counts;
  step.plain.most_samples = (samples + bags - 1) / bags;
  if (family == drawn::equal_counts) { slack = 50; }
  if (family == drawn::at_most_n_apart) {
    slack = std::array{10, 30, 50, 100}[random.below(4)];
    step.plain.most_samples = samples / bags + 1 + random.below(2);
    for (std::size_t sample = 0; sample < samples; ++sample) {
      std::size_t const key = sample / std::min(bags, 2 + random.below(2));
      step.plain.apart.push_back(static_cast<std::int64_t>(random.below(2) == 0 ? key : sample));
    }
  } else if (family != drawn::equal_counts) {
    step.plain.most_samples = samples;
  }
  std::int64_t const all = std::reduce(weights.begin(), weights.end());
  step.plain.most_weight =
      std::max(all * (1000 + slack) / 1000 / static_cast<std::int64_t>(bags) + 1,
               *std::ranges::max_element(weights));
  step.plain.weights = weights;
  step.plain.lengths.assign(samples, 1);
  step.plain.gpus.assign(bags, 1);
  for (std::int64_t const cost : step.costs) { step.plain.costs.push_back({cost}); }
  return step;
}

// What one writes in a few lines: samples by cost or by weight, each to the bag that it ends
// earliest in, or that is lightest, of those that limits admit. Equal counts: the fastest get more.
std::optional<std::vector<ballast::bag_id>> deal(drawn_step const& step, bool by_cost,
                                                 bool to_early)
{
  auto const& plain = step.plain;
  std::size_t const bags = plain.speeds.size();
  std::size_t const samples = step.costs.size();
  std::vector<std::size_t> order(samples);
  std::vector<std::size_t> fastest(bags);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::iota(fastest.begin(), fastest.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t sample) {
    return by_cost ? step.costs[sample] : plain.weights[sample];
  });
  std::ranges::stable_sort(fastest, std::greater{},
                           [&](std::size_t bag) { return plain.speeds[bag]; });
  std::vector<std::size_t> places(bags, plain.most_samples);
  for (std::size_t at = 0; at < bags && plain.keeps_counts; ++at) {
    places[fastest[at]] = samples / bags + (at < samples % bags ? 1 : 0);
  }
  std::vector<std::vector<std::size_t>> held(bags);
  std::vector<double> loads(bags, 0);
  std::vector<std::int64_t> weights(bags, 0);
  std::vector<ballast::bag_id> owner(samples);
  for (std::size_t const sample : order) {
    std::size_t best = bags;
    double least = 0;
    for (std::size_t bag = 0; bag < bags; ++bag) {
      bool const is_apart =
          plain.apart.empty() || std::ranges::none_of(held[bag], [&](std::size_t other) {
            return plain.apart[other] == plain.apart[sample];
          });
      bool const fits = held[bag].size() < places[bag] && is_apart &&
                        weights[bag] + plain.weights[sample] <= plain.most_weight;
      double const end = (loads[bag] + static_cast<double>(step.costs[sample])) / plain.speeds[bag];
      double const key = to_early ? end : static_cast<double>(weights[bag]);
      if (!fits || (best < bags && key >= least)) { continue; }
      best = bag;
      least = key;
    }
    if (best == bags) { return std::nullopt; }
    owner[sample] = ballast::to_id<ballast::bag_id>(best);
    held[best].push_back(sample);
    loads[best] += static_cast<double>(step.costs[sample]);
    weights[best] += plain.weights[sample];
  }
  return owner;
}

// Beside N1 and N2 from the best of these; N2 has five times the CPU time. How many steps are
// refused, and of these how many that `deal` plans.
void limits_beside_swaps(benchmark::State& state, drawn family, bool speeds)
{
  bench::compared_plans n1;
  bench::compared_plans n2;
  double seconds = 0;
  double planned = 0;
  double gaps = 0;
  double refused = 0;
  double refused_dealt = 0;
  for (auto _ : state) {
    ballast::random_source random(
        bench::seed_of(state, 31 + 2 * static_cast<std::uint64_t>(family) + (speeds ? 1 : 0)));
    for (int trial = 0; trial < 100; ++trial) {
      drawn_step const step = draw_step(random, family, speeds);
      auto const layout =
          ballast::one_gpu_bags(step.plain.speeds.size()).with_speeds(step.plain.speeds);
      ballast::placement_limits limits{
          .also = {{.of = step.plain.weights, .most_per_gpu = step.plain.most_weight}},
          .apart = step.plain.apart};
      if (family == drawn::equal_counts) { limits.samples = ballast::counts::equal(); }
      if (family == drawn::at_most_n_apart) {
        limits.samples =
            ballast::counts::at_most(static_cast<std::int64_t>(step.plain.most_samples));
      }
      double const before = bench::cpu_seconds();
      auto const plan = ballast::partition(
          step.costs, layout, std::identity{}, [](std::int64_t) { return tokens{1}; }, limits);
      double const took = bench::cpu_seconds() - before;
      seconds += took;
      std::optional<std::vector<ballast::bag_id>> start;
      double earliest = 0;
      for (int way = 0; way < 4; ++way) {
        auto const dealt = deal(step, way % 2 == 0, way / 2 == 0);
        if (!dealt) { continue; }
        bench::plain_search<1> search(step.plain, *dealt);
        search.descend();
        if (!start || search.makespan() < earliest) {
          start = dealt;
          earliest = search.makespan();
        }
      }
      if (!plan) {
        ++refused;
        refused_dealt += start ? 1 : 0;
        continue;
      }
      ++planned;
      gaps += plan->gap();
      if (!start) { continue; }
      bench::compare_with_plain_search<1>(*plan, step.plain, *start, 5 * took, n1, n2);
    }
  }
  n1.count(state, "n1");
  n2.count(state, "n2");
  state.counters["mean_gap"] = gaps / std::max(planned, 1.0);
  state.counters["refused_of_100"] = refused;
  state.counters["refused_that_are_dealt"] = refused_dealt;
  state.counters["mean_ms"] = 10 * seconds;
}

BENCHMARK_CAPTURE(limits_beside_swaps, light_long, drawn::light_long, false)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, light_long_speeds, drawn::light_long, true)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, squares, drawn::squares, false)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, squares_speeds, drawn::squares, true)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, half_free, drawn::half_free, false)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, half_free_speeds, drawn::half_free, true)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, few_values_speeds, drawn::few_values, true)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, equal_counts_speeds, drawn::equal_counts, true)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, at_most_n_apart, drawn::at_most_n_apart, false)->Apply(once);
BENCHMARK_CAPTURE(limits_beside_swaps, at_most_n_apart_speeds, drawn::at_most_n_apart, true)
    ->Apply(once);

// Steps without limits.
enum class free_step {
  families,     // 16 families of costs on 6 sizes, half of them on GPUs of several speeds
  few_each,     // 1 to 2 samples a bag, on such speeds
  even_threes,  // triples of one sum, one for each bag, and a small sample
};

std::vector<std::int64_t> draw_costs(ballast::random_source& random, std::uint64_t family,
                                     std::size_t samples)
{
  whole_numbers costs(samples);
  if (family >= 2 * drawn_families) {  // small integers, short samples
    for (std::int64_t& cost : costs) { cost = random.between(1, 10); }
    if (family % 2 == 0) { return costs; }
    for (std::int64_t& cost : costs) {
      cost = random.between(1, 64) * (64 + random.between(1, 64));
    }
    return costs;
  }
  costs = draw_lengths(random, family % drawn_families, samples);
  for (std::int64_t& cost : costs) {
    if (family >= drawn_families) { cost *= cost + 4096; }
  }
  return costs;
}

// Beside N1 and N2 from LPT's plan; N2 has 20 ms or five times the CPU time.
void free_beside_swaps(benchmark::State& state, free_step kind)
{
  constexpr std::array<std::size_t, 6> bags_of{2, 4, 8, 16, 24, 32};
  constexpr std::uint64_t families = 2 * drawn_families + 2;
  bench::compared_plans n1;
  bench::compared_plans n2;
  double gaps = 0;
  double proven = 0;
  constexpr int steps = 2 * families * bags_of.size();
  for (auto _ : state) {
    ballast::random_source random(bench::seed_of(state, 71 + static_cast<std::uint64_t>(kind)));
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::size_t const bags = bags_of[step / families % bags_of.size()];
      std::size_t samples = bags * (2 + random.below(20)) + random.below(bags);
      if (kind == free_step::few_each) { samples = bags + 1 + random.below(bags); }
      auto costs = draw_costs(random, step % families, samples);
      if (kind == free_step::even_threes) {
        costs.clear();
        for (std::size_t bag = 0; bag < bags; ++bag) {
          std::int64_t const first = random.between(100, 500);
          std::int64_t const second = random.between(100, 500);
          costs.insert(costs.end(), {first, second, 1200 - first - second});
        }
        costs.push_back(random.between(1, 60));
      }
      std::vector<std::uint32_t> speeds(bags, 1);
      bool const has_speeds = kind == free_step::few_each ||
                              (kind == free_step::families && step % (2 * families) >= families);
      for (std::uint32_t& speed : speeds) {
        if (has_speeds) { speed = static_cast<std::uint32_t>(random.between(50, 100)); }
      }
      auto const layout = ballast::one_gpu_bags(bags).with_speeds(speeds);
      double const before = bench::cpu_seconds();
      auto const length = [](std::int64_t) { return tokens{1}; };
      auto const plan = ballast::partition(costs, layout, std::identity{}, length).value();
      double const took = bench::cpu_seconds() - before;
      gaps += plan.gap() / steps;
      proven += plan.proven_optimal() ? 1 : 0;
      bench::plain_step<1> plain{.costs = {},
                                 .lengths = std::vector<tokens>(costs.size(), 1),
                                 .gpus = std::vector<std::uint32_t>(bags, 1),
                                 .speeds = speeds,
                                 .weights = whole_numbers(costs.size(), 0)};
      for (cost_units const cost : costs) { plain.costs.push_back({cost}); }
      auto const start = ballast::partition(costs, layout, std::identity{}, length, {},
                                            ballast::longest_processing_time{})
                             .value();
      bench::compare_with_plain_search<1>(plan, plain, start.owner, std::max(0.02, 5 * took), n1,
                                          n2);
    }
  }
  n1.count(state, "n1");
  n2.count(state, "n2");
  state.counters["mean_gap"] = gaps;
  state.counters["proven_percent"] = 100 * proven / steps;
}

BENCHMARK_CAPTURE(free_beside_swaps, families, free_step::families)->Apply(once);
BENCHMARK_CAPTURE(free_beside_swaps, few_each, free_step::few_each)->Apply(once);
BENCHMARK_CAPTURE(free_beside_swaps, even_threes, free_step::even_threes)->Apply(once);

}  // namespace
