// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

#include <cstdlib>
#include <ctime>
#include <random>
#include <string>

namespace bench {

/// The seed of drawn steps: `fixed`, or where BALLAST_SEED is set another one, which the row prints.
/// `fresh` draws one for the program, a number repeats it.
inline std::uint64_t seed_of(benchmark::State& state, std::uint64_t fixed)
{
  static std::uint64_t const asked = [] {
    char const* const given = std::getenv("BALLAST_SEED");
    if (given == nullptr) { return std::uint64_t{0}; }
    return given == std::string("fresh") ? std::uint64_t{std::random_device()() % 1'000'000'000}
                                         : std::uint64_t{std::stoul(given)};
  }();
  if (asked == 0) { return fixed; }
  state.counters["seed"] = static_cast<double>(asked);
  return (asked << 16U) + fixed;
}

/// CPU time of this process, in seconds.
inline double cpu_seconds()
{
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// A step as `plain_search` sees it.
template <std::size_t D>
struct plain_step {
  std::vector<ballast::cost_vector<D>> costs;
  std::vector<ballast::tokens> lengths;
  std::vector<std::uint32_t> gpus;  // a sample goes to no bag with more GPUs than it has tokens
  std::vector<std::uint32_t> speeds;
  std::vector<std::int64_t> weights;
  std::int64_t most_weight = 0;  // of a bag
  bool keeps_counts = false;     // of bags: then samples are swapped only
  std::size_t most_samples = std::numeric_limits<std::size_t>::max();  // of a bag
  std::vector<std::int64_t> apart = {};  // keys, or empty: samples of one key in different bags
};

/// Baselines that one writes in an afternoon. N1, `descend`: the best move or swap of one sample of
/// the latest bag, until none helps. N2, `kick` after it: random changes with a descent each, which
/// are undone where the plan ends later.
template <std::size_t D>
class plain_search {
 public:
  plain_search(plain_step<D> step, std::span<ballast::bag_id const> owner)
      : step_(std::move(step)),
        owner_(owner.size()),
        bags_(step_.speeds.size()),
        loads_(bags_.size()),
        held_(bags_.size(), 0)
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      add(sample, to_index(owner[sample]));
    }
  }

  [[nodiscard]] double makespan() const
  {
    double latest = 0;
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) { latest = std::max(latest, finish(bag)); }
    return latest;
  }

  void descend()
  {
    while (improve()) {}
  }

  void kick(double seconds, double bound, ballast::random_source& random)
  {
    double const end = cpu_seconds() + seconds;
    auto best_owner = owner_;
    double best = makespan();
    auto const go_back = [&] {
      for (std::size_t each = 0; each < owner_.size(); ++each) { move(each, best_owner[each]); }
    };
    while (cpu_seconds() < end && best > bound * (1 + 1e-12)) {
      for (auto changes = 1 + random.below(4); changes > 0; --changes) { change(random); }
      descend();
      if (makespan() > best) {
        go_back();
      } else {
        best = makespan();
        best_owner = owner_;
      }
    }
    go_back();
  }

 private:
  static constexpr auto none = static_cast<std::size_t>(-1);

  // When a bag finishes without one sample and with another.
  [[nodiscard]] double finish(std::size_t bag, std::size_t without = none,
                              std::size_t with = none) const
  {
    ballast::cost_units largest = 0;
    for (std::size_t d = 0; d < D; ++d) {
      ballast::cost_units load = loads_[bag][d];
      if (without != none) { load -= step_.costs[without][d]; }
      if (with != none) { load += step_.costs[with][d]; }
      largest = std::max(largest, load);
    }
    return static_cast<double>(largest) / step_.speeds[bag];
  }

  // Whether a sample may come to a bag that another leaves.
  [[nodiscard]] bool may_come(std::size_t bag, std::size_t leaves, std::size_t comes) const
  {
    if (comes == none) { return true; }
    std::int64_t const left = leaves == none ? 0 : step_.weights[leaves];
    bool const is_apart =
        step_.apart.empty() || std::ranges::none_of(bags_[bag], [&](std::size_t other) {
          return other != leaves && step_.apart[other] == step_.apart[comes];
        });
    return is_apart && step_.lengths[comes] >= static_cast<ballast::tokens>(step_.gpus[bag]) &&
           bags_[bag].size() + (leaves == none ? 1 : 0) <= step_.most_samples &&
           held_[bag] - left + step_.weights[comes] <= step_.most_weight;
  }

  void add(std::size_t sample, std::size_t bag)
  {
    owner_[sample] = bag;
    bags_[bag].push_back(sample);
    held_[bag] += step_.weights[sample];
    for (std::size_t d = 0; d < D; ++d) { loads_[bag][d] += step_.costs[sample][d]; }
  }
  void move(std::size_t sample, std::size_t bag)
  {
    std::size_t const from = owner_[sample];
    if (from == bag) { return; }
    std::erase(bags_[from], sample);
    held_[from] -= step_.weights[sample];
    for (std::size_t d = 0; d < D; ++d) { loads_[from][d] -= step_.costs[sample][d]; }
    add(sample, bag);
  }

  bool improve()
  {
    std::size_t late = 0;
    for (std::size_t bag = 1; bag < bags_.size(); ++bag) {
      if (finish(bag) > finish(late)) { late = bag; }
    }
    double best = finish(late) * (1 - 1e-12);
    std::size_t given = none;
    std::size_t taken = none;
    std::size_t to = late;
    auto const consider = [&](std::size_t x, std::size_t y, std::size_t bag) {
      double const earlier = finish(late, x, y);
      if (earlier >= best || !may_come(bag, y, x) || !may_come(late, x, y)) { return; }
      double const both = std::max(earlier, finish(bag, y, x));
      if (both < best) { best = both, given = x, taken = y, to = bag; }
    };
    for (std::size_t const x : bags_[late]) {
      for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
        if (bag == late) { continue; }
        if (!step_.keeps_counts) { consider(x, none, bag); }
        for (std::size_t const y : bags_[bag]) { consider(x, y, bag); }
      }
    }
    if (given == none) { return false; }
    move(given, to);
    if (taken != none) { move(taken, late); }
    return true;
  }

  void change(ballast::random_source& random)
  {
    auto const one = static_cast<std::size_t>(random.below(owner_.size()));
    std::size_t const from = owner_[one];
    if (!step_.keeps_counts && random.below(3) == 0) {
      auto const to = static_cast<std::size_t>(random.below(bags_.size()));
      if (may_come(to, none, one)) { move(one, to); }
      return;
    }
    auto const other = static_cast<std::size_t>(random.below(owner_.size()));
    std::size_t const to = owner_[other];
    if (from == to || !may_come(to, other, one) || !may_come(from, one, other)) { return; }
    move(one, to);
    move(other, from);
  }

  plain_step<D> step_;
  std::vector<std::size_t> owner_;
  std::vector<std::vector<std::size_t>> bags_;
  std::vector<ballast::cost_vector<D>> loads_;
  std::vector<std::int64_t> held_;
};

/// In how many percent of the steps ours is above another plan, and by how many at most.
class compared_plans {
 public:
  void add(double ours, double theirs)
  {
    ++steps_;
    double const above = theirs > 0 ? ours / theirs - 1 : ours > 0 ? 1 : 0;
    above_ += above > 1e-9 ? 1 : 0;
    far_above_ += above > 0.005 ? 1 : 0;
    worst_ = std::max(worst_, above);
  }
  void count(benchmark::State& state, std::string const& theirs) const
  {
    state.counters["above_" + theirs + "_percent"] = 100 * above_ / std::max(steps_, 1.0);
    state.counters["above_" + theirs + "_by_half_percent"] =
        100 * far_above_ / std::max(steps_, 1.0);
    state.counters["worst_" + theirs + "_percent"] = 100 * worst_;
  }

 private:
  double steps_ = 0;
  double above_ = 0;
  double far_above_ = 0;
  double worst_ = 0;
};

/// Compares a plan, where it is not proven, with N1 from a start and N2 for so many seconds.
template <std::size_t D>
void compare_with_plain_search(auto const& plan, plain_step<D> step,
                               std::span<ballast::bag_id const> start, double seconds,
                               compared_plans& n1, compared_plans& n2)
{
  double const ours = plan.makespan.value();
  if (plan.proven_optimal()) {
    n1.add(ours, ours);
    n2.add(ours, ours);
    return;
  }
  ballast::random_source random(start.size());
  plain_search<D> plain(std::move(step), start);
  plain.descend();
  n1.add(ours, plain.makespan());
  plain.kick(seconds, plan.lower_bound.value(), random);
  n2.add(ours, plain.makespan());
}

}  // namespace bench
