// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_EVALUATE_ORDERS_HPP
#define BALLAST_PIPELINE_EVALUATE_ORDERS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/evaluation/order_lanes.hpp>
#include <ballast/pipeline/detail/evaluation/order_program.hpp>
#include <ballast/pipeline/detail/evaluation/order_program_writer.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// A time that no order exceeds, whichever microbatches it names: every task takes as long as for
/// the microbatch that it takes longest for. 2^62 stands for all times above. O(tasks + waits).
[[nodiscard]] inline time_units longest_makespan(compiled_schedule const& schedule,
                                                 pipeline_times const& times,
                                                 workspace::frame& scratch)
{
  auto const longest = scratch.take<stage_time>(times.stages);
  std::fill(longest.begin(), longest.end(), stage_time{});
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    stage_time& of_stage = longest[row % times.stages];
    of_stage.forward = std::max(of_stage.forward, times.rows[row].forward);
    of_stage.backward = std::max(of_stage.backward, times.rows[row].backward);
  }
  constexpr time_units most = time_units{1} << 62;
  std::span<pipeline_task const> const tasks = schedule.tasks();
  std::span<time_units> const end = scratch.take<time_units>(tasks.size());
  time_units makespan = 0;
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    time_units start = 0;
    for (auto const& [other, transfer] : schedule.waits_for(task)) {
      start = std::max(start, end[other] + transfer);
    }
    stage_time const& duration = longest[to_index(tasks[task].stage)];
    end[task] = std::min(
        most, start + (tasks[task].pass == pass::forward ? duration.forward : duration.backward));
    makespan = std::max(makespan, end[task]);
  }
  return makespan;
}

}  // namespace detail

/// Computes how long orders take, many at once: for searches that try order after order.
///
/// The schedule is translated once into an order_program, which is then run for 8 or 16 orders at a
/// time with vector instructions where the machine has them. Where no order can take 2^31 units or
/// more, which the constructor finds out, times are added in 32 bits, else in 64. The makespans are
/// the same in both cases.
///
/// Shapes      orders[k x l], one order of l microbatches after the other; makespans[k]; k, l >= 0.
/// Expects     check_times() finds no fault. An order is a permutation, or any other l
///             microbatches; microbatch_id{l} stands for no microbatch and takes no time on any
///             stage.
/// Ensures     (1) makespans[i] is makespan_of() the i-th order
///             (2) evaluate_into() allocates nothing
/// Complexity  construction: O(tasks + waits), as long as about a hundred evaluations, and about 80
///             bytes of scratch per task. evaluate_into: O(k x (tasks + waits)).
class order_evaluator {
 public:
  /// How many orders are evaluated at once. Half as many, or fewer, take about half as long.
  static constexpr std::size_t at_once = 16;

  /// Reads the schedule and the times here only; what it keeps of them lives in `scratch`.
  order_evaluator(compiled_schedule const& schedule, pipeline_times const& times,
                  workspace::frame& scratch, detail::simd_level level = detail::best_simd_level())
      : positions_(schedule.microbatches()),
        level_(level),
        program_(detail::order_program_writer(schedule, times, scratch)()),
        filled_up_(scratch.take<microbatch_id>(positions_ * at_once))
  {
    constexpr time_units most = std::numeric_limits<std::int32_t>::max();
    is_narrow_ = detail::longest_makespan(schedule, times, scratch) <= most;
    if (is_narrow_) {
      narrow_ = lay_out<std::int32_t>(times, scratch);
    } else {
      wide_ = lay_out<std::int64_t>(times, scratch);
    }
  }

  void evaluate_into(std::span<time_units> makespans, std::span<microbatch_id const> orders)
  {
    BALLAST_EXPECTS(orders.size() == makespans.size() * positions_, "`orders` has ",
                    detail::counted(orders.size(), "entry"), " for ",
                    detail::counted(makespans.size(), "order"), " of ",
                    detail::counted(positions_, "microbatch"));
    for (std::size_t left = makespans.size(); left > 0; left = makespans.size()) {
      std::size_t const count = std::min(left, is_narrow_ ? at_once : at_once / 2);
      auto const some = orders.first(count * positions_);
      if (!is_narrow_) {
        run_into<at_once / 2>(makespans.first(count), wide_, some);
      } else if (count > at_once / 2) {
        run_into<at_once>(makespans.first(count), narrow_, some);
      } else {
        run_into<at_once / 2>(makespans.first(count), narrow_, some);
      }
      orders = orders.subspan(some.size());
      makespans = makespans.subspan(count);
    }
  }

 private:
  // An array that begins with a cache line.
  template <class T>
  [[nodiscard]] static T* take_aligned(std::size_t count, workspace::frame& scratch)
  {
    constexpr std::size_t line = 64;
    std::span<T> const taken = scratch.take<T>(count + line / sizeof(T));
    void* begin = taken.data();
    std::size_t bytes = taken.size_bytes();
    return static_cast<T*>(std::align(line, count * sizeof(T), begin, bytes));
  }

  template <class T>
  [[nodiscard]] detail::order_memory<T> lay_out(pipeline_times const& times,
                                                workspace::frame& scratch) const
  {
    constexpr std::size_t width = detail::columns_per_load;
    std::size_t const count = width * program_.groups * (positions_ + 1);
    T* const table = take_aligned<T>(count, scratch);
    std::fill_n(table, count, T{0});
    auto const put = [=, this](std::uint32_t column, std::size_t microbatch, time_units time) {
      if (column == detail::no_column) { return; }
      std::size_t const row = column / width * (positions_ + 1) + microbatch;
      table[width * row + column % width] = static_cast<T>(time);
    };
    for (std::size_t at = 0; at < times.rows.size(); ++at) {
      std::size_t const stage = at % times.stages;
      put(program_.columns[2 * stage], at / times.stages, times.rows[at].forward);
      put(program_.columns[2 * stage + 1], at / times.stages, times.rows[at].backward);
    }
    return {table, take_aligned<T>(program_.slots * (at_once / detail::fewest_lanes), scratch),
            nullptr, positions_};
  }

  template <std::size_t Lanes, class T>
  void run_into(std::span<time_units> makespans, detail::order_memory<T>& memory,
                std::span<microbatch_id const> orders)
  {
    BALLAST_AUDIT(std::all_of(orders.begin(), orders.end(),
                              [this](microbatch_id microbatch) {
                                return to_index(microbatch) <= positions_;
                              }),
                  "an order has microbatches that a schedule of ", positions_, " does not have");
    memory.orders = orders.data();
    if (makespans.size() < Lanes) {  // the lanes that are left repeat the last order
      auto end = std::copy(orders.begin(), orders.end(), filled_up_.begin());
      for (std::size_t lane = makespans.size(); lane < Lanes; ++lane) {
        end = std::copy(orders.end() - static_cast<std::ptrdiff_t>(positions_), orders.end(), end);
      }
      memory.orders = filled_up_.data();
    }
    std::fill_n(memory.slots, Lanes, T{0});  // no_time
    detail::run_program<Lanes>(level_, program_, memory);
    T const* const last = memory.slots + program_.makespan * (Lanes / detail::fewest_lanes);
    for (std::size_t order = 0; order < makespans.size(); ++order) {
      makespans[order] = last[order];
    }
  }

  std::size_t positions_;
  detail::simd_level level_;
  detail::order_program program_;
  std::span<microbatch_id> filled_up_;  // orders that are fewer than lanes
  bool is_narrow_ = false;
  detail::order_memory<std::int32_t> narrow_;
  detail::order_memory<std::int64_t> wide_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_EVALUATE_ORDERS_HPP
