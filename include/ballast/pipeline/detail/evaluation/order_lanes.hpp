// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_LANES_HPP
#define BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_LANES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/detail/evaluation/order_program.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

/// Runs an order_program for several orders at once, each in a lane of its own.
///
/// Steps are plain loops over lanes, which g++ and clang turn into vector instructions from -O2 on.
/// Loads transpose: a row of the table is what one microbatch takes, and a slot wants one column of
/// the rows that the orders name at a position. Vectors of 512 bits are not used: a slot that is
/// read soon after it was written is read faster in two halves.
namespace ballast::inline v0::detail {

/// What instructions to use. All levels compute the same.
enum class simd_level : std::uint8_t { portable, avx2 };

[[nodiscard]] inline simd_level best_simd_level() noexcept
{
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) { return simd_level::avx2; }
#endif
  return simd_level::portable;
}

/// What a program works on. The table and the slots are aligned to 64 bytes.
template <class T>
struct order_memory {
  T const* table = nullptr;  ///< for each group, four times of each microbatch and of none
  T* slots = nullptr;        ///< each has a T per lane; those of no_time are 0
  microbatch_id const* orders = nullptr;  ///< one per lane, one after the other
  std::size_t positions = 0;              ///< of an order
};

template <class T>
using column_slots = std::array<T*, columns_per_load>;

/// Loads four columns of eight lanes: the row of `orders[lane x positions]` goes to
/// `to[column][lane]`.
struct portable_loads {
  static void load(std::int32_t const* table, microbatch_id const* orders, std::size_t positions,
                   column_slots<std::int32_t> const& to)
  {
    using four [[gnu::vector_size(16), gnu::may_alias]] = std::int32_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<four const*>(table) + to_index(orders[lane * positions]);
    };
    for (std::size_t lane = 0; lane < 8; lane += 4) {
      four const row0 = *row(lane);
      four const row1 = *row(lane + 1);
      four const row2 = *row(lane + 2);
      four const row3 = *row(lane + 3);
      four const low01 = __builtin_shufflevector(row0, row1, 0, 4, 1, 5);
      four const low23 = __builtin_shufflevector(row2, row3, 0, 4, 1, 5);
      four const high01 = __builtin_shufflevector(row0, row1, 2, 6, 3, 7);
      four const high23 = __builtin_shufflevector(row2, row3, 2, 6, 3, 7);
      *reinterpret_cast<four*>(to[0] + lane) = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[1] + lane) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      *reinterpret_cast<four*>(to[2] + lane) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[3] + lane) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
  }

  static void load(std::int64_t const* table, microbatch_id const* orders, std::size_t positions,
                   column_slots<std::int64_t> const& to)
  {
    using two [[gnu::vector_size(16), gnu::may_alias]] = std::int64_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<two const*>(table) + 2 * to_index(orders[lane * positions]);
    };
    for (std::size_t lane = 0; lane < 8; lane += 2) {
      auto const* const row0 = row(lane);
      auto const* const row1 = row(lane + 1);
      *reinterpret_cast<two*>(to[0] + lane) = __builtin_shufflevector(row0[0], row1[0], 0, 2);
      *reinterpret_cast<two*>(to[1] + lane) = __builtin_shufflevector(row0[0], row1[0], 1, 3);
      *reinterpret_cast<two*>(to[2] + lane) = __builtin_shufflevector(row0[1], row1[1], 0, 2);
      *reinterpret_cast<two*>(to[3] + lane) = __builtin_shufflevector(row0[1], row1[1], 1, 3);
    }
  }
};

#ifdef __x86_64__
struct avx2_loads {
  [[gnu::target("avx2")]] static void load(std::int32_t const* table, microbatch_id const* orders,
                                           std::size_t positions,
                                           column_slots<std::int32_t> const& to)
  {
    using four [[gnu::vector_size(16), gnu::may_alias]] = std::int32_t;
    using eight [[gnu::vector_size(32), gnu::may_alias]] = std::int32_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<four const*>(table) + to_index(orders[lane * positions]);
    };
    eight const row04 = __builtin_shufflevector(*row(0), *row(4), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const row15 = __builtin_shufflevector(*row(1), *row(5), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const row26 = __builtin_shufflevector(*row(2), *row(6), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const row37 = __builtin_shufflevector(*row(3), *row(7), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const low01 = __builtin_shufflevector(row04, row15, 0, 8, 1, 9, 4, 12, 5, 13);
    eight const low23 = __builtin_shufflevector(row26, row37, 0, 8, 1, 9, 4, 12, 5, 13);
    eight const high01 = __builtin_shufflevector(row04, row15, 2, 10, 3, 11, 6, 14, 7, 15);
    eight const high23 = __builtin_shufflevector(row26, row37, 2, 10, 3, 11, 6, 14, 7, 15);
    *reinterpret_cast<eight*>(to[0]) =
        __builtin_shufflevector(low01, low23, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<eight*>(to[1]) =
        __builtin_shufflevector(low01, low23, 2, 3, 10, 11, 6, 7, 14, 15);
    *reinterpret_cast<eight*>(to[2]) =
        __builtin_shufflevector(high01, high23, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<eight*>(to[3]) =
        __builtin_shufflevector(high01, high23, 2, 3, 10, 11, 6, 7, 14, 15);
  }

  [[gnu::target("avx2")]] static void load(std::int64_t const* table, microbatch_id const* orders,
                                           std::size_t positions,
                                           column_slots<std::int64_t> const& to)
  {
    using four [[gnu::vector_size(32), gnu::may_alias]] = std::int64_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<four const*>(table) + to_index(orders[lane * positions]);
    };
    for (std::size_t lane = 0; lane < 8; lane += 4) {
      four const even01 = __builtin_shufflevector(*row(lane), *row(lane + 1), 0, 4, 2, 6);
      four const odd01 = __builtin_shufflevector(*row(lane), *row(lane + 1), 1, 5, 3, 7);
      four const even23 = __builtin_shufflevector(*row(lane + 2), *row(lane + 3), 0, 4, 2, 6);
      four const odd23 = __builtin_shufflevector(*row(lane + 2), *row(lane + 3), 1, 5, 3, 7);
      *reinterpret_cast<four*>(to[0] + lane) = __builtin_shufflevector(even01, even23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[1] + lane) = __builtin_shufflevector(odd01, odd23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[2] + lane) = __builtin_shufflevector(even01, even23, 2, 3, 6, 7);
      *reinterpret_cast<four*>(to[3] + lane) = __builtin_shufflevector(odd01, odd23, 2, 3, 6, 7);
    }
  }
};
#endif

/// One step. A step writes no slot that it reads.
template <std::size_t Lanes, class T>
[[gnu::always_inline]] inline void do_step(T const* __restrict first, T const* __restrict second,
                                           T transfer, T const* __restrict duration,
                                           T* __restrict end)
{
  for (std::size_t lane = 0; lane < Lanes; ++lane) {
    T const arrival = second[lane] + transfer;
    end[lane] = (first[lane] > arrival ? first[lane] : arrival) + duration[lane];
  }
}

template <class Loads, std::size_t Lanes, bool Transfers, class T>
[[gnu::always_inline]] inline void run_program_with(order_program const& program,
                                                    order_memory<T> const& memory)
{
  auto const [table, slots, orders, positions] = memory;
  auto const at = [base = slots](time_slot slot) {
    return base + std::size_t{slot} * (Lanes / fewest_lanes);
  };
  std::size_t const group = columns_per_load * (positions + 1);
  order_load const* load = program.loads.data();
  order_step const* step = program.steps.data();
  time_units const* transfer = program.transfers.data();
  for (order_beat const& beat : program.beats) {
    for (auto const* const end = program.loads.data() + beat.loads; load != end; ++load) {
      auto const& to = load->to;
      for (std::size_t lane = 0; lane < Lanes; lane += fewest_lanes) {
        Loads::load(table + group * load->group, orders + lane * positions + load->position,
                    positions,
                    {at(to[0]) + lane, at(to[1]) + lane, at(to[2]) + lane, at(to[3]) + lane});
      }
    }
    for (auto const* const end = program.steps.data() + beat.steps; step != end; ++step) {
      do_step<Lanes>(at(step->first), at(step->second),
                     Transfers ? static_cast<T>(*transfer++) : T{0}, at(step->duration),
                     at(step->end));
    }
  }
}

template <class Loads, std::size_t Lanes, class T>
[[gnu::always_inline]] inline void run_program_with(order_program const& program,
                                                    order_memory<T> const& memory)
{
  if (program.transfers.empty()) { return run_program_with<Loads, Lanes, false>(program, memory); }
  run_program_with<Loads, Lanes, true>(program, memory);
}

#ifdef __x86_64__
template <std::size_t Lanes, class T>
[[gnu::target("avx2")]] void run_program_with_avx2(order_program const& program,
                                                   order_memory<T> const& memory)
{
  run_program_with<avx2_loads, Lanes>(program, memory);
}
#endif

/// Runs all of a program. Expects no time above what T holds.
template <std::size_t Lanes, class T>
  requires(Lanes % fewest_lanes == 0)
void run_program(simd_level level, order_program const& program, order_memory<T> const& memory)
{
#ifdef __x86_64__
  if (level == simd_level::avx2) { return run_program_with_avx2<Lanes>(program, memory); }
#endif
  BALLAST_EXPECTS(level == simd_level::portable);
  run_program_with<portable_loads, Lanes>(program, memory);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_LANES_HPP
