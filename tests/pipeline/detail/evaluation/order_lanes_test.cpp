#include <ballast/pipeline/detail/evaluation/order_lanes.hpp>  // first: proves it is self-contained

#include "../../../support/simd_levels.hpp"

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace {

namespace detail = ballast::detail;
using ballast::microbatch_id;
using ballast_test::simd_levels;
using detail::simd_level;

constexpr std::size_t program_positions = 5;
constexpr std::size_t program_rows = program_positions + 1;  // one is for none
constexpr std::size_t program_groups = 3;
constexpr std::size_t program_slots = 24;
constexpr std::size_t loaded_slots = 12;  // from 1 on; steps end in the others
constexpr std::int64_t most_steps = 72;

constexpr detail::time_slot slot(std::uint32_t number)
{
  return number * detail::fewest_lanes;
}

// Any steps and loads that keep to the rules, whether or not they come from a schedule. Durations
// are what was loaded, so that times grow by no more than one of them per step.
struct random_program {
  std::vector<detail::order_beat> beats;
  std::vector<detail::order_load> loads;
  std::vector<detail::order_step> steps;
  std::vector<std::int64_t> transfers;  // or none: they are all 0

  explicit random_program(ballast::random_source& random)
  {
    auto const any = [&](std::size_t bound) {
      return static_cast<std::uint32_t>(random.below(bound));
    };
    bool const is_free = random.below(3) == 0;
    for (int beat = 0; beat < 6; ++beat) {
      for (auto left = random.below(4); left > 0; --left) {
        std::array<std::uint32_t, loaded_slots> to{};
        for (std::uint32_t i = 0; i < loaded_slots; ++i) { to[i] = slot(1 + i); }
        random.shuffle(std::span<std::uint32_t>(to));
        loads.push_back(
            {any(program_positions), any(program_groups), {to[0], to[1], to[2], to[3]}});
      }
      for (auto left = random.below(12); left > 0; --left) {
        detail::order_step step{slot(any(program_slots)), slot(any(program_slots)),
                                slot(any(1 + loaded_slots)), 0};
        do {
          step.end = slot(1 + loaded_slots + any(program_slots - loaded_slots - 1));
        } while (step.end == step.first || step.end == step.second);
        steps.push_back(step);
        if (!is_free) { transfers.push_back(random.between(0, 3)); }
      }
      beats.push_back({loads.size(), steps.size()});
    }
  }

  [[nodiscard]] detail::order_program view() const
  {
    detail::order_program program;
    program.beats = beats;
    program.loads = loads;
    program.steps = steps;
    program.transfers = transfers;
    program.groups = program_groups;
    program.slots = slot(program_slots);
    return program;
  }
};

// Oracle: one lane, by the definitions of load and step.
template <class T>
void run_lane(random_program const& program, std::vector<T> const& table, std::size_t lanes,
              std::size_t lane, std::vector<microbatch_id> const& orders, std::vector<T>& memory)
{
  auto const of = [&](detail::time_slot slot) -> T& {
    return memory[slot / detail::fewest_lanes * lanes + lane];
  };
  std::size_t loaded = 0;
  std::size_t done = 0;
  for (auto const& beat : program.beats) {
    for (; loaded < beat.loads; ++loaded) {
      auto const& load = program.loads[loaded];
      std::size_t const row = to_index(orders[lane * program_positions + load.position]);
      for (std::size_t i = 0; i < 4; ++i) {
        of(load.to[i]) = table[4 * (load.group * program_rows + row) + i];
      }
    }
    for (; done < beat.steps; ++done) {
      auto const& step = program.steps[done];
      auto const transfer = program.transfers.empty() ? 0 : program.transfers[done];
      of(step.end) =
          std::max(of(step.first), static_cast<T>(of(step.second) + transfer)) + of(step.duration);
    }
  }
}

// The content of `of` where a cache line begins.
template <class T>
struct aligned_copy {
  explicit aligned_copy(std::vector<T> const& of) : lines((of.size() * sizeof(T) + 63) / 64)
  {
    std::ranges::copy(of, data());
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(lines.data()); }

  struct alignas(64) line {
    std::array<std::byte, 64> bytes;
  };
  std::vector<line> lines;
};

template <class T, std::size_t Lanes>
void expect_lanes_computed(std::int64_t longest)
{
  ballast::random_source random(7);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    random_program const program(random);
    std::vector<T> table(4 * program_groups * program_rows);
    for (T& time : table) { time = static_cast<T>(random.between(0, longest)); }
    std::vector<microbatch_id> orders(program_positions * Lanes);
    for (auto& microbatch : orders) {
      microbatch = ballast::to_id<microbatch_id>(random.below(program_rows));
    }
    std::vector<T> const before(program_slots * Lanes, 0);
    std::vector<T> expected = before;
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      run_lane(program, table, Lanes, lane, orders, expected);
    }
    for (simd_level const level : simd_levels()) {
      aligned_copy<T> times(table);
      aligned_copy<T> memory(before);
      detail::run_program<Lanes>(
          level, program.view(),
          detail::order_memory<T>{times.data(), memory.data(), orders.data(), program_positions});
      ASSERT_EQ(std::vector<T>(memory.data(), memory.data() + expected.size()), expected)
          << "level " << static_cast<int>(level);
    }
  }
}

TEST(OrderLanes, ComputeNarrowTimesUpToTheLargest)
{
  constexpr auto longest = std::numeric_limits<std::int32_t>::max() / (most_steps + 1) - 3;
  expect_lanes_computed<std::int32_t, 8>(longest);
  expect_lanes_computed<std::int32_t, 16>(longest);
}

TEST(OrderLanes, ComputeWideTimesUpToTheLargest)
{
  constexpr auto longest = std::numeric_limits<std::int64_t>::max() / (most_steps + 1) - 3;
  expect_lanes_computed<std::int64_t, 8>(longest);
  expect_lanes_computed<std::int64_t, 16>(longest);
}

TEST(OrderLanes, RunNothing)
{
  detail::run_program<8>(detail::best_simd_level(), {}, detail::order_memory<std::int32_t>{});
}

}  // namespace
