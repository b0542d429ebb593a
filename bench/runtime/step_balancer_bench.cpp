// One object per step against the calls that it makes, turn by turn in one run.

#include "../common/workloads.hpp"  // defines: bench::{lognormal_lengths, transformer_cost}

#include <benchmark/benchmark.h>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/runtime/step_balancer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace {

using ballast::result;
using ballast::tokens;

// Rank 0 of a group whose ranks all send what it sends: planning without waiting for anybody.
class echo_communicator {
 public:
  explicit echo_communicator(std::size_t ranks) : ranks_(ranks) {}

  [[nodiscard]] ballast::rank_id rank() const { return ballast::rank_id{0}; }
  [[nodiscard]] std::size_t size() const { return ranks_; }
  result<void> all_gather(std::span<std::byte const> send, std::span<std::byte> receive)
  {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::memcpy(&receive[rank * send.size()], send.data(), send.size());
    }
    return {};
  }
  result<void> all_to_all_v(std::span<std::byte const>, std::span<std::size_t const>,
                            std::span<std::byte>, std::span<std::size_t const>)
  {
    return {};
  }
  result<void> wait() { return {}; }
  std::span<std::byte> scratch(std::size_t bytes)
  {
    scratch_.resize(std::max(bytes, scratch_.size()));
    return std::span(scratch_).first(bytes);
  }
  result<echo_communicator> split(std::uint32_t) { return echo_communicator(1); }

 private:
  std::size_t ranks_;
  std::vector<std::byte> scratch_;
};

// What trainers write without it: the calls of plan(), in the same order.
struct calls_by_hand {
  ballast::gathered_samples<tokens> all;
  ballast::partition_plan plan;
  ballast::placement read;
  ballast::placement computed;
  ballast::route_plan to_compute;
  ballast::ulysses_plan heads;
  ballast::workspace memory;

  bool operator()(echo_communicator& comm, ballast::bag_layout const& bags,
                  ballast::quadratic_cost const& cost, std::span<tokens const> own)
  {
    auto const gathered = ballast::gather_samples(all, comm, own);
    auto const planned = partition_into(plan, memory, all.samples, bags, cost, {},
                                        ballast::longest_processing_time{});
    auto const same = ballast::agree(comm, plan.digest(), "the plan");
    ballast::place_as_read(read, all);
    auto const placed = ballast::place(computed, plan, bags);
    ballast::plan_route(to_compute, read, computed, comm.rank());
    auto const bag = bags.bag_of(comm.rank());
    heads.assign(all.samples, plan.samples[bag], bags[bag].gpus, 1);
    return gathered && planned && same && placed;
  }
};

void step_balancer(benchmark::State& state)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const samples = static_cast<std::size_t>(state.range(1)) / ranks;  // of each rank
  auto const bags = ballast::one_gpu_bags(ranks);
  auto const cost = bench::transformer_cost();
  echo_communicator comm(ranks);
  calls_by_hand by_hand;
  ballast::step_balancer balancer(comm, bags, cost, ballast::longest_processing_time{});
  std::vector<double> by_hand_seconds;
  std::vector<double> plan_seconds;
  std::uint64_t step = 0;
  bool done = true;
  for (auto _ : state) {
    auto const own = bench::lognormal_lengths(samples, 1.0, ++step);
    auto const next = bench::lognormal_lengths(samples, 1.0, ++step);
    by_hand_seconds.push_back(bench::median_seconds(1, [&] {
      done = by_hand(comm, bags, cost, own) && done;
      benchmark::ClobberMemory();
    }));
    plan_seconds.push_back(bench::median_seconds(1, [&] {
      done = balancer.plan(next).has_value() && done;
      benchmark::ClobberMemory();
    }));
  }
  if (!done) { state.SkipWithError("a step was not planned"); }
  auto const median_us = [](std::vector<double>& seconds) {
    auto const middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::ranges::nth_element(seconds, middle);
    return 1e6 * *middle;
  };
  state.counters["by_hand_us"] = median_us(by_hand_seconds);
  state.counters["plan_us"] = median_us(plan_seconds);
  state.counters["ratio"] = median_us(plan_seconds) / median_us(by_hand_seconds);
}

BENCHMARK(step_balancer)
    ->ArgNames({"ranks", "samples"})
    ->Args({8, 64})
    ->Args({64, 2048})
    ->Args({1024, 32'768})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
