#include "../../tests/support/naive_grids.hpp"  // the baselines
#include "../../tests/support/seqlen_balancing.hpp"
#include "../common/plain_search.hpp"
#include "../common/workloads.hpp"

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

#include <cstdlib>
#include <functional>
#include <map>

namespace {

using ballast::grid_meeting;
using ballast::microbatches;
using ballast::placement_limits;
using ballast::tokens;

constexpr tokens cap = 16'384;

std::vector<tokens> clipped_lengths(std::size_t samples, double sigma, std::uint64_t seed)
{
  std::vector<tokens> lengths = bench::lognormal_lengths(samples, sigma, seed);
  for (tokens& length : lengths) { length = std::min(length, cap); }
  return lengths;
}

// Plans several steps, one for each iteration. gap is the mean above the bound, worst the largest;
// above_fewest counts steps with more microbatches than tokens / (ranks x cap), rounded up,
// two_above those with two more, and overruns cells above the cap.
void plan_steps(benchmark::State& state, std::vector<std::vector<tokens>> const& steps,
                ballast::bag_layout const& bags, microbatches const& slots,
                placement_limits const& limits)
{
  auto const cost = bench::transformer_cost();
  ballast::grid_plan plan;
  ballast::workspace memory;
  double gaps = 0;
  double worst = 0;
  double above = 0;
  double two_above = 0;
  double overruns = 0;
  double planned = 0;
  for (auto _ : state) {
    auto const& lengths = steps[static_cast<std::size_t>(planned) % steps.size()];
    auto const done =
        ballast::partition_grid_into(plan, memory, lengths, bags, slots, cost, limits);
    if (!done) { return state.SkipWithError(done.error().message.c_str()); }
    state.PauseTiming();
    tokens total = 0;
    for (tokens const length : lengths) { total += length; }
    auto const all_ranks = static_cast<tokens>(bags.size()) * cap;
    auto const fewest = static_cast<std::size_t>((total + all_ranks - 1) / all_ranks);
    ++planned;
    gaps += plan.gap();
    worst = std::max(worst, plan.gap());
    above += plan.microbatches > fewest ? 1 : 0;
    two_above += plan.microbatches > fewest + 1 ? 1 : 0;
    for (std::int64_t const weight : plan.filled) {
      overruns += weight > limits.most_per_gpu ? 1 : 0;
    }
    state.ResumeTiming();
  }
  state.counters["steps"] = planned;
  state.counters["gap"] = gaps / planned;
  state.counters["worst"] = worst;
  state.counters["above_fewest"] = above / planned;
  state.counters["two_above"] = two_above;
  state.counters["overruns"] = overruns;
}

void grid(benchmark::State& state, grid_meeting meet)
{
  std::vector<std::vector<tokens>> steps;
  for (std::uint64_t step = 0; step < 50; ++step) {
    steps.push_back(clipped_lengths(static_cast<std::size_t>(state.range(0)), 1, 42 + step));
  }
  plan_steps(state, steps, ballast::one_gpu_bags(static_cast<std::size_t>(state.range(1))),
             {.meet = meet}, {.most_per_gpu = cap});
}

// Ten thousand steps of one size, for overruns and numbers of microbatches.
void grid_many(benchmark::State& state, grid_meeting meet)
{
  std::vector<std::vector<tokens>> steps;
  for (std::uint64_t step = 0; step < 10'000; ++step) {
    steps.push_back(clipped_lengths(4096, 1, 10'000 + step));
  }
  plan_steps(state, steps, ballast::one_gpu_bags(64), {.meet = meet}, {.most_per_gpu = cap});
}

enum class constraint { none, equal, multiples, groups, kinds, speeds, caps };

// Caps are four times as large here: eight samples with the longest are above the usual one.
void grid_constrained(benchmark::State& state, constraint what, grid_meeting meet)
{
  constexpr std::size_t samples = 4096;
  std::vector<std::vector<tokens>> steps;
  for (std::uint64_t step = 0; step < 20; ++step) {
    steps.push_back(clipped_lengths(samples, 1, 42 + step));
  }
  std::vector<int> groups(samples);
  std::vector<int> kinds(samples);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    groups[sample] = static_cast<int>(sample / 4);
    kinds[sample] = sample % 4 == 3 ? 1 : 0;
  }
  microbatches slots{.number = 4, .meet = meet};
  placement_limits limits{.most_per_gpu = 4 * cap};
  if (what == constraint::equal) { limits.samples = ballast::counts::equal(); }
  if (what == constraint::multiples) { limits.samples = ballast::counts::multiple_of(8); }
  if (what == constraint::groups) { limits.together = groups; }
  if (what == constraint::kinds) { slots.kinds = kinds; }
  std::vector<std::int64_t> images(samples);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    images[sample] = static_cast<std::int64_t>(sample % 5 == 0 ? sample % 3 : 0);
  }
  if (what == constraint::caps) { limits.also = {{.of = images, .most_per_gpu = 5}}; }
  std::vector<std::uint32_t> speeds(64, 3);
  for (std::size_t bag = 0; bag < 64 && what == constraint::speeds; bag += 4) { speeds[bag] = 2; }
  plan_steps(state, steps, ballast::one_gpu_bags(64).with_speeds(speeds), slots, limits);
}

// Counts of cells alone, some lengths far above the others.
void grid_counts(benchmark::State& state, ballast::counts of, grid_meeting meet)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<tokens>> steps;
  for (std::uint64_t step = 0; step < 20; ++step) {
    steps.push_back(clipped_lengths(static_cast<std::size_t>(state.range(2)), 1.5, 90 + step));
  }
  plan_steps(state, steps, ballast::one_gpu_bags(ranks),
             {.number = static_cast<std::size_t>(state.range(1)), .meet = meet}, {.samples = of});
}

enum class family { lognormal, near_equal, two_valued, one_giant };

std::vector<tokens> family_lengths(family which, std::size_t samples, double sigma,
                                   std::uint64_t seed)
{
  std::vector<tokens> lengths = clipped_lengths(samples, sigma, seed);
  ballast::random_source random(seed);
  for (tokens& length : lengths) {
    if (which == family::near_equal) { length = random.between(900, 1000); }
    if (which == family::two_valued) { length = random.below(4) == 0 ? 4096 : 1024; }
  }
  if (which == family::one_giant) { lengths[0] = cap; }
  return lengths;
}

// Beside the naive lines, with costs that are tokens and a given number of microbatches: means of
// 100 steps, and in how many of 100 the plan is above the naive one by more than 0.05 %.
void grid_naive(benchmark::State& state, family which)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const slots = static_cast<std::size_t>(state.range(1));
  auto const samples = static_cast<std::size_t>(state.range(2));
  auto const sigma = static_cast<double>(state.range(3)) / 10;
  std::map<std::string, double> sums;
  for (auto _ : state) {
    sums.clear();
    for (std::uint64_t step = 0; step < 100; ++step) {
      auto const lengths = family_lengths(which, samples, sigma, 700 + step);
      auto const naive = ballast_test::naive_grid(lengths, ranks, slots, cap);
      bool const naive_plans = naive.step != ballast_test::grid_makespans{}.step;
      for (auto const meet : {grid_meeting::step, grid_meeting::microbatch}) {
        auto const plan = ballast::partition_grid(lengths, ballast::one_gpu_bags(ranks),
                                                  {.number = slots, .meet = meet}, std::identity{},
                                                  {.most_per_gpu = cap});
        std::string const name = meet == grid_meeting::step ? "step" : "microbatch";
        if (!plan || !naive_plans) {
          sums[plan ? "naive_none" : naive_plans ? "none" : "both_none"] += 1;
          continue;
        }
        auto const ours = plan->makespan.value();
        auto const theirs =
            static_cast<double>(meet == grid_meeting::step ? naive.step : naive.microbatch);
        auto const bound = plan->lower_bound.value();
        sums[name] += plan->gap() / 100;
        sums[name + "_naive"] += (theirs / bound - 1) / 100;
        sums[name + "_above"] += ours > theirs * 1.0005 ? 1 : 0;
      }
    }
  }
  for (auto const& [name, sum] : sums) { state.counters[name] = sum; }
}

using lengths_of_cells = std::vector<std::vector<tokens>>;  // slot x ranks + rank

// Samples of each rank, dealt by differencing, as many to each where that is possible.
lengths_of_cells dealt_evenly(std::span<tokens const> lengths, std::size_t ranks)
{
  lengths_of_cells own(ranks);
  auto const owner =
      ballast_test::seqlen_balanced_partitions(lengths, ranks, lengths.size() % ranks == 0);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    own[to_index(owner[i])].push_back(lengths[i]);
  }
  return own;
}

// What trainers of reinforcement learning do today, with samples dealt evenly: each rank counts
// the microbatches that first fit needs for its samples, all take the largest count, and each
// rearranges its samples into that many sets of nearly equal sums, whose cap nobody looks at.
lengths_of_cells first_fit_rearranged(std::span<tokens const> lengths, std::size_t ranks,
                                      tokens most)
{
  lengths_of_cells const own = dealt_evenly(lengths, ranks);
  std::size_t count = 1;
  for (auto const& each : own) {
    std::vector<tokens> bins;
    for (tokens const length : each) {
      auto const bin = std::ranges::find_if(bins, [&](tokens sum) { return sum + length <= most; });
      if (bin == bins.end()) {
        bins.push_back(length);
      } else {
        *bin += length;
      }
    }
    count = std::max(count, bins.size());
  }
  lengths_of_cells cells(ranks * count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const owner = ballast_test::seqlen_balanced_partitions(own[rank], count, false);
    for (std::size_t i = 0; i < owner.size(); ++i) {
      cells[to_index(owner[i]) * ranks + rank].push_back(own[rank][i]);
    }
  }
  return cells;
}

// The other way: each rank packs its samples by first fit decreasing, and where it has fewer rows
// than the others, rows of several samples are split in two until it has as many.
lengths_of_cells first_fit_with_split_rows(std::span<tokens const> lengths, std::size_t ranks,
                                           tokens most)
{
  std::vector<lengths_of_cells> rows(ranks);
  lengths_of_cells own = dealt_evenly(lengths, ranks);
  std::size_t count = 1;
  auto const sum = [](std::vector<tokens> const& row) {
    return std::reduce(row.begin(), row.end(), tokens{0});
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::ranges::sort(own[rank], std::greater{});
    for (tokens const length : own[rank]) {
      auto const row = std::ranges::find_if(
          rows[rank], [&](auto const& each) { return sum(each) + length <= most; });
      if (row == rows[rank].end()) {
        rows[rank].push_back({length});
      } else {
        row->push_back(length);
      }
    }
    count = std::max(count, rows[rank].size());
  }
  lengths_of_cells cells(ranks * count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    while (rows[rank].size() < count) {
      auto const longest = std::ranges::max_element(
          rows[rank], {}, [](std::vector<tokens> const& row) { return row.size(); });
      if (longest == rows[rank].end() || longest->size() < 2) { break; }
      auto const half = longest->begin() + static_cast<std::ptrdiff_t>(longest->size() / 2);
      std::vector<tokens> const second(half, longest->end());
      longest->erase(half, longest->end());
      rows[rank].push_back(second);
    }
    for (std::size_t slot = 0; slot < rows[rank].size(); ++slot) {
      cells[slot * ranks + rank] = rows[rank][slot];
    }
  }
  return cells;
}

// Prints overruns, steps with any, and the gap of a baseline beside ours, in tokens, under both
// makespans.
void beside_baselines(benchmark::State& state, std::vector<std::vector<tokens>> const& steps,
                      std::size_t ranks, tokens most)
{
  std::map<std::string, double> sums;
  auto const share = 1 / static_cast<double>(steps.size());
  for (auto _ : state) {
    sums.clear();
    for (auto const& lengths : steps) {
      auto const plan_for = [&](grid_meeting meet) {
        return ballast::partition_grid(lengths, ballast::one_gpu_bags(ranks), {.meet = meet},
                                       std::identity{}, {.most_per_gpu = most})
            .value();
      };
      auto const by_step = plan_for(grid_meeting::step);
      auto const by_slot = plan_for(grid_meeting::microbatch);
      sums["K"] += share * static_cast<double>(by_step.microbatches);
      sums["K_bound"] += share * static_cast<double>(by_step.fewest_microbatches);
      sums["step"] += share * by_step.gap();
      sums["microbatch"] += share * by_slot.gap();
      auto const add = [&](std::string const& name, lengths_of_cells const& cells) {
        tokens high = 0;
        std::vector<tokens> by_rank(ranks, 0);
        bool overrun = false;
        for (std::size_t first = 0; first < cells.size(); first += ranks) {
          tokens largest = 0;
          for (std::size_t rank = 0; rank < ranks; ++rank) {
            tokens sum = 0;
            for (tokens const length : cells[first + rank]) { sum += length; }
            by_rank[rank] += sum;
            largest = std::max(largest, sum);
          }
          overrun = overrun || largest > most;
          high += largest;
        }
        sums[name + "K"] += share * static_cast<double>(cells.size() / ranks);
        sums[name + "overrun_steps"] += overrun ? 1 : 0;
        sums[name + "step"] +=
            share *
            (static_cast<double>(std::ranges::max(by_rank)) / by_step.lower_bound.value() - 1);
        sums[name + "microbatch"] +=
            share * (static_cast<double>(high) / by_slot.lower_bound.value() - 1);
      };
      add("rearranged_", first_fit_rearranged(lengths, ranks, most));
      add("split_rows_", first_fit_with_split_rows(lengths, ranks, most));
    }
  }
  for (auto const& [name, sum] : sums) { state.counters[name] = sum; }
}

void grid_baselines(benchmark::State& state)
{
  tokens const most = state.range(3);
  std::vector<std::vector<tokens>> steps;
  for (std::uint64_t step = 0; step < 200; ++step) {
    steps.push_back(clipped_lengths(static_cast<std::size_t>(state.range(1)),
                                    static_cast<double>(state.range(2)) / 10, 42 + step));
    for (tokens& length : steps.back()) { length = std::min(length, most); }
  }
  beside_baselines(state, steps, static_cast<std::size_t>(state.range(0)), most);
}

// A trace of the folder that BALLAST_DATA names, shuffled and cut to the cap, on 16 ranks.
void grid_trace(benchmark::State& state, std::string const& file, std::string const& column,
                std::size_t samples, tokens most)
{
  char const* const folder = std::getenv("BALLAST_DATA");
  if (folder == nullptr) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
  auto trace =
      ballast::read_file(std::string(folder) + "/" + file, ballast::read_length_trace, column);
  if (!trace) { return state.SkipWithError(trace.error().message.c_str()); }
  ballast::random_source random(5);
  for (std::size_t at = trace->size(); at > 1; --at) {
    std::swap((*trace)[at - 1], (*trace)[random.below(at)]);
  }
  std::vector<std::vector<tokens>> steps;
  for (std::size_t at = 0; at < trace->size() / samples * samples && at < 50 * samples; ++at) {
    if (at % samples == 0) { steps.emplace_back(); }
    steps.back().push_back(std::min((*trace)[at], most));
  }
  beside_baselines(state, steps, 16, most);
}

// The naive search of grids that meet in every microbatch: N1, the best move or swap of the largest
// cell of any slot, from cells that are dealt slot after slot; N2, random changes with a descent each.
class plain_grid_search {
 public:
  plain_grid_search(std::vector<tokens> costs, std::size_t ranks, std::size_t slots,
                    bool only_swaps)
      : costs_(std::move(costs)),
        ranks_(ranks),
        swaps_(only_swaps),
        owner_(costs_.size()),
        loads_(ranks * slots, 0),
        cells_(ranks * slots)
  {
    std::vector<std::size_t> order(costs_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return costs_[i]; });
    std::size_t next = 0;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      auto const most = [&](std::size_t cell) {
        std::size_t const step = swaps_ && costs_.size() % (4 * cells_.size()) == 0 ? 4 : 1;
        std::size_t const steps = costs_.size() / step;
        return (steps / cells_.size() + (cell < steps % cells_.size() ? 1 : 0)) * step;
      };
      for (std::size_t cell = ranks_ * slot; next < order.size();) {
        std::size_t best = cells_.size();
        for (std::size_t at = cell; at < cell + ranks_; ++at) {
          bool const lacks = cells_[at].size() < most(at);
          if (lacks && (best == cells_.size() || loads_[at] < loads_[best])) { best = at; }
        }
        if (best == cells_.size()) { break; }
        put(order[next++], best);
      }
    }
  }

  [[nodiscard]] tokens takes() const
  {
    tokens sum = 0;
    for (std::size_t first = 0; first < cells_.size(); first += ranks_) { sum += height(first); }
    return sum;
  }
  void descend()
  {
    while (improve()) {}
  }
  void kick(double seconds, ballast::random_source& random)
  {
    double const end = bench::cpu_seconds() + seconds;
    auto best = owner_;
    while (bench::cpu_seconds() < end) {
      tokens const before = takes();
      for (auto changes = 1 + random.below(4); changes > 0; --changes) {
        auto const one = static_cast<std::size_t>(random.below(owner_.size()));
        auto const other = static_cast<std::size_t>(random.below(owner_.size()));
        std::size_t const to = owner_[other];
        std::size_t const from = owner_[one];
        if (from == to) { continue; }
        move(one, to);
        if (swaps_ || random.below(3) != 0) { move(other, from); }
      }
      descend();
      if (takes() > before) {
        for (std::size_t each = 0; each < owner_.size(); ++each) { move(each, best[each]); }
      } else {
        best = owner_;
      }
    }
  }

 private:
  // Of the slot of a cell, when some of its loads change.
  [[nodiscard]] tokens height(std::size_t cell, std::size_t a = 0, tokens of_a = 0,
                              std::size_t b = 0, tokens of_b = 0) const
  {
    tokens most = 0;
    std::size_t const first = cell - cell % ranks_;
    for (std::size_t at = first; at < first + ranks_; ++at) {
      most = std::max(most, loads_[at] + (at == a ? of_a : 0) + (at == b ? of_b : 0));
    }
    return most;
  }
  void put(std::size_t sample, std::size_t cell)
  {
    owner_[sample] = cell;
    loads_[cell] += costs_[sample];
    cells_[cell].push_back(sample);
  }
  void move(std::size_t sample, std::size_t cell)
  {
    loads_[owner_[sample]] -= costs_[sample];
    std::erase(cells_[owner_[sample]], sample);
    put(sample, cell);
  }
  bool improve()
  {
    constexpr auto none = static_cast<std::size_t>(-1);
    tokens best = 0;
    std::size_t given = none;
    std::size_t taken = none;
    std::size_t to = 0;
    for (std::size_t first = 0; first < cells_.size(); first += ranks_) {
      std::size_t late = first;
      for (std::size_t at = first; at < first + ranks_; ++at) {
        if (loads_[at] > loads_[late]) { late = at; }
      }
      auto const consider = [&](std::size_t x, std::size_t y, std::size_t cell) {
        tokens const net = costs_[x] - (y == none ? 0 : costs_[y]);
        if (net <= 0) { return; }
        tokens change = height(late, late, -net, cell, net) - height(late);
        if (cell / ranks_ != late / ranks_) { change += height(cell, cell, net) - height(cell); }
        if (change < best) { best = change, given = x, taken = y, to = cell; }
      };
      for (std::size_t const x : cells_[late]) {
        for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
          if (cell == late) { continue; }
          if (!swaps_) { consider(x, none, cell); }
          for (std::size_t const y : cells_[cell]) { consider(x, y, cell); }
        }
      }
    }
    if (given == none) { return false; }
    std::size_t const from = owner_[given];
    move(given, to);
    if (taken != none) { move(taken, from); }
    return true;
  }

  std::vector<tokens> costs_;
  std::size_t ranks_;
  bool swaps_;
  std::vector<std::size_t> owner_;
  std::vector<tokens> loads_;
  std::vector<std::vector<std::size_t>> cells_;
};

// Steps without a cap that meet in every microbatch, of 2 to 16 ranks and 2 to 8 slots, beside N1 and N2
// for 20 ms or five times our CPU time, whichever is longer.
void grid_beside_plain(benchmark::State& state, constraint what, family which)
{
  bench::compared_plans n1;
  bench::compared_plans n2;
  double gap = 0;
  double proven = 0;
  double spent = 0;
  constexpr int steps = 20;
  for (auto _ : state) {
    ballast::random_source random(bench::seed_of(state, 1));
    for (int step = 0; step < steps; ++step) {
      std::size_t const ranks = std::size_t{2} << random.below(4);
      std::size_t const slots = std::size_t{2} << random.below(3);
      std::size_t const each =
          what == constraint::multiples ? 4 * (1 + random.below(3)) : 2 + random.below(7);
      auto const lengths = family_lengths(which, ranks * slots * each, 1, random.below(1U << 30U));
      placement_limits limits;
      std::vector<int> groups(lengths.size());
      std::vector<tokens> joined = lengths;
      if (what == constraint::equal) { limits.samples = ballast::counts::equal(); }
      if (what == constraint::multiples) { limits.samples = ballast::counts::multiple_of(4); }
      if (what == constraint::groups) {
        joined.assign(lengths.size() / 2, 0);
        for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
          std::size_t const group = random.below(joined.size());
          groups[sample] = static_cast<int>(group);
          joined[group] += lengths[sample];
        }
        std::erase(joined, 0);
        limits.together = groups;
      }
      double const before = bench::cpu_seconds();
      auto const plan = ballast::partition_grid(lengths, ballast::one_gpu_bags(ranks),
                                                {.number = slots, .meet = grid_meeting::microbatch},
                                                std::identity{}, limits)
                            .value();
      double const ours = bench::cpu_seconds() - before;
      plain_grid_search plain(joined, ranks, slots,
                              what == constraint::equal || what == constraint::multiples);
      plain.descend();
      n1.add(plan.makespan.value(), static_cast<double>(plain.takes()));
      plain.kick(std::max(0.02, 5 * ours), random);
      n2.add(plan.makespan.value(), static_cast<double>(plain.takes()));
      gap += plan.gap() / steps;
      proven += plan.proven_optimal() ? 1.0 : 0.0;
      spent += ours / steps;
    }
  }
  n1.count(state, "n1");
  n2.count(state, "n2");
  state.counters["gap"] = gap;
  state.counters["proven"] = proven;
  state.counters["plan_ms"] = 1000 * spent;
}

// The least sum of the longest cells of all slots, by trying all cells for every sample.
tokens least_of_all_grids(std::vector<tokens> costs, std::size_t ranks, std::size_t slots)
{
  std::ranges::sort(costs, std::greater{});
  std::vector<tokens> loads(ranks * slots, 0);
  tokens least = std::reduce(costs.begin(), costs.end());
  auto const place = [&](auto const& again, std::size_t sample) -> void {
    tokens takes = 0;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      takes += *std::max_element(&loads[slot * ranks], &loads[slot * ranks] + ranks);
    }
    if (sample > 0 && takes >= least) { return; }
    if (sample == costs.size()) {
      least = takes;
      return;
    }
    for (std::size_t cell = 0; cell < loads.size(); ++cell) {
      bool const is_first = cell % ranks == 0;
      if (!is_first && loads[cell - 1] == 0) { continue; }  // cells of a slot are alike
      bool const is_empty = loads[cell] == 0;
      loads[cell] += costs[sample];
      again(again, sample + 1);
      loads[cell] -= costs[sample];
      if (is_first && is_empty) { break; }  // and so are slots
    }
  };
  place(place, 0);
  return least;
}

// Up to 8 samples on 2 x 2 or 2 x 3 cells that meet in every microbatch, without a cap.
void grid_beside_all(benchmark::State& state)
{
  bench::compared_plans all;
  double proven = 0;
  for (auto _ : state) {
    ballast::random_source random(bench::seed_of(state, 8));
    for (int step = 0; step < 1000; ++step) {
      std::size_t const slots = 2 + random.below(2);
      auto lengths = family_lengths(step % 2 == 0 ? family::lognormal : family::near_equal,
                                    3 + random.below(6), 1, random.below(1U << 30U));
      if (step % 3 == 0) {
        for (tokens& length : lengths) { length = random.between(1, 9); }
      }
      auto const plan = ballast::partition_grid(lengths, ballast::one_gpu_bags(2),
                                                {.number = slots, .meet = grid_meeting::microbatch},
                                                std::identity{})
                            .value();
      all.add(plan.makespan.value(), static_cast<double>(least_of_all_grids(lengths, 2, slots)));
      proven += plan.proven_optimal() ? 1 : 0;
    }
  }
  all.count(state, "all");
  state.counters["proven_of_1000"] = proven;
}

constexpr auto once_a_step = grid_meeting::step;
constexpr auto every_microbatch = grid_meeting::microbatch;

void grid_sizes(benchmark::internal::Benchmark* row)
{
  row->ArgNames({"samples", "ranks"})
      ->Args({4096, 64})
      ->Args({65'536, 1024})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(grid, step, once_a_step)->Apply(grid_sizes);
BENCHMARK_CAPTURE(grid, microbatch, every_microbatch)->Apply(grid_sizes);
BENCHMARK_CAPTURE(grid_many, step, once_a_step)->Iterations(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(grid_many, microbatch, every_microbatch)
    ->Iterations(10'000)
    ->Unit(benchmark::kMillisecond);

#define BALLAST_CONSTRAINED(what)                                                            \
  BENCHMARK_CAPTURE(grid_constrained, what##_step, constraint::what, once_a_step)            \
      ->Iterations(20)                                                                       \
      ->Unit(benchmark::kMillisecond);                                                       \
  BENCHMARK_CAPTURE(grid_constrained, what##_microbatch, constraint::what, every_microbatch) \
      ->Iterations(20)                                                                       \
      ->Unit(benchmark::kMillisecond)
BALLAST_CONSTRAINED(none);
BALLAST_CONSTRAINED(equal);
BALLAST_CONSTRAINED(multiples);
BALLAST_CONSTRAINED(groups);
BALLAST_CONSTRAINED(kinds);
BALLAST_CONSTRAINED(speeds);
BALLAST_CONSTRAINED(caps);

void counts_rows(benchmark::internal::Benchmark* row)
{
  row->ArgNames({"ranks", "slots", "samples"})->Iterations(20)->Unit(benchmark::kMillisecond);
  row->Args({4, 4, 64})->Args({16, 8, 512})->Args({64, 8, 4096});
}
BENCHMARK_CAPTURE(grid_counts, equal_step, ballast::counts::equal(), once_a_step)
    ->Apply(counts_rows);
BENCHMARK_CAPTURE(grid_counts, equal_microbatch, ballast::counts::equal(), every_microbatch)
    ->Apply(counts_rows);
BENCHMARK_CAPTURE(grid_counts, multiples_step, ballast::counts::multiple_of(4), once_a_step)
    ->Apply(counts_rows);
BENCHMARK_CAPTURE(grid_counts, multiples_microbatch, ballast::counts::multiple_of(4),
                  every_microbatch)
    ->Apply(counts_rows);

void table_rows(benchmark::internal::Benchmark* row)
{
  row->ArgNames({"ranks", "slots", "samples", "sigma_x10"})->Iterations(1);
  for (std::int64_t const sigma : {10, 15}) {
    row->Args({4, 4, 64, sigma})->Args({8, 8, 256, sigma})->Args({16, 8, 512, sigma});
  }
  row->Args({4, 4, 20, 10})->Args({8, 8, 70, 10})->Args({4, 4, 17, 15});  // R x K close to n
}
BENCHMARK_CAPTURE(grid_naive, lognormal, family::lognormal)->Apply(table_rows);
BENCHMARK_CAPTURE(grid_naive, near_equal, family::near_equal)->Apply(table_rows);
BENCHMARK_CAPTURE(grid_naive, two_valued, family::two_valued)->Apply(table_rows);
BENCHMARK_CAPTURE(grid_naive, one_giant, family::one_giant)->Apply(table_rows);

void plain_rows(benchmark::internal::Benchmark* row)
{
  row->Iterations(1)->Unit(benchmark::kMillisecond);
}
BENCHMARK(grid_beside_all)->Apply(plain_rows);
BENCHMARK_CAPTURE(grid_beside_plain, equal, constraint::equal, family::lognormal)
    ->Apply(plain_rows);
BENCHMARK_CAPTURE(grid_beside_plain, multiples, constraint::multiples, family::lognormal)
    ->Apply(plain_rows);
BENCHMARK_CAPTURE(grid_beside_plain, groups, constraint::groups, family::lognormal)
    ->Apply(plain_rows);
BENCHMARK_CAPTURE(grid_beside_plain, none, constraint::none, family::lognormal)->Apply(plain_rows);
BENCHMARK_CAPTURE(grid_beside_plain, equal_near_equal, constraint::equal, family::near_equal)
    ->Apply(plain_rows);
BENCHMARK_CAPTURE(grid_beside_plain, equal_two_valued, constraint::equal, family::two_valued)
    ->Apply(plain_rows);

BENCHMARK(grid_baselines)
    ->ArgNames({"ranks", "samples", "sigma_x10", "cap"})
    ->Args({16, 512, 10, cap})
    ->Args({4, 64, 15, cap})
    ->Args({8, 128, 15, cap})
    ->Args({8, 128, 10, 4096})  // few samples fill a cell
    ->Args({8, 64, 5, 3072})
    ->Iterations(1);
BENCHMARK_CAPTURE(grid_trace, interleaved_docs, "interleaved_docs.csv",
                  "text_tokens+visual_tokens_qwen2vl", 512, 16'384)
    ->Iterations(1);
BENCHMARK_CAPTURE(grid_trace, rl_groups, "rl_groups.csv", "prompt_tokens+response_tokens", 1024,
                  8192)
    ->Iterations(1);
BENCHMARK_CAPTURE(grid_trace, mooncake_conversation, "mooncake_conversation.csv",
                  "prompt_tokens+response_tokens", 512, 131'072)
    ->Iterations(1);
BENCHMARK_CAPTURE(grid_trace, servegen_reason, "servegen_reason_sampled.csv",
                  "prompt_tokens+response_tokens", 512, 65'536)
    ->Iterations(1);

}  // namespace
