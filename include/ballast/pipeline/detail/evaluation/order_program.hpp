// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_PROGRAM_HPP
#define BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_PROGRAM_HPP

#include <ballast/core/quantities.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// A schedule as straight-line code that computes how long an order takes; with several lanes in a
/// slot, it does so for several orders at once.
namespace ballast::inline v0::detail {

/// A slot has as many lanes or a multiple.
inline constexpr std::uint32_t fewest_lanes = 8;

/// Where a time is kept, one per lane: how many times lie before it where a slot has the fewest
/// lanes, so that an address takes no shift. no_time always holds 0.
using time_slot = std::uint32_t;
inline constexpr time_slot no_time = 0;

/// Slot `end` becomes max(slot `first`, slot `second` + its transfer) + slot `duration`.
struct order_step {
  time_slot first = no_time;
  time_slot second = no_time;
  time_slot duration = no_time;
  time_slot end = no_time;
};

/// Durations are loaded four columns at once. A column is a pass on a stage, or passes on stages
/// that take equally long for every microbatch.
inline constexpr std::size_t columns_per_load = 4;

/// Columns 4 x group + i of the microbatch at `position` go to slots `to[i]`. The last group may
/// have fewer than four columns; what is loaded for the others is 0 and goes to no_time.
struct order_load {
  std::uint32_t position = 0;
  std::uint32_t group = 0;
  std::array<time_slot, columns_per_load> to{};
};

/// Where the loads and the steps of a beat end, among all; its loads come before its steps.
struct order_beat {
  std::size_t loads = 0;
  std::size_t steps = 0;
};

/// The code, sorted into beats by the number of tasks on the longest path to a task, so that few
/// steps wait for one of their neighbours, and a processor can overlap them.
struct order_program {
  std::span<order_beat const> beats;
  std::span<order_load const> loads;
  std::span<order_step const> steps;
  std::span<time_units const> transfers;   ///< of the steps; empty where all are 0
  std::span<std::uint32_t const> columns;  ///< of stage s: forward at 2 s, backward at 2 s + 1
  std::size_t groups = 0;                  ///< of four columns
  std::size_t slots = fewest_lanes;        ///< times kept where a slot has the fewest lanes
  time_slot makespan = no_time;            ///< holds the makespan in the end
};

/// In order_program::columns: the stage has no such pass.
inline constexpr std::uint32_t no_column = std::numeric_limits<std::uint32_t>::max();

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_PROGRAM_HPP
