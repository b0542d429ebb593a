// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/test.hpp"
#include "step_arrays.hpp"  // defines: ballast_test::{step_arrays, byte_array}

#include <ballast/comm/communicator.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/unit_exchange.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/topology/process_grid.hpp>

namespace ballast_test {

/// A batch that goes from one module of a job to the next, and what all ranks have before and
/// after.
struct unit_step {
  std::vector<ballast::rank_id> senders;
  std::vector<ballast::rank_id> receivers;
  std::size_t ranks = 0;
  std::vector<ballast::tokens> lengths;
  ballast::placement from;
  ballast::placement to;

  /// Two modules of these sizes, which exchange a batch of samples of these lengths, in a job of at
  /// least `least` ranks.
  unit_step(ballast::unit_sizes one, ballast::unit_sizes other,
            std::vector<ballast::tokens> samples, std::size_t least = 0)
      : lengths(std::move(samples))
  {
    std::vector<ballast::unit_sizes> const modules{one, other};
    auto const grid = ballast::process_grid::make(modules).value();
    senders = grid.data_ranks(0, one.pipeline - 1);
    receivers = grid.data_ranks(1);
    ranks = std::max(grid.ranks(), least);
    ballast::workspace memory;
    assign_unit(from, memory, lengths, senders, units().groups(), ranks);
    assign_unit(to, memory, lengths, receivers, units().groups(), ranks);
  }

  [[nodiscard]] ballast::unit_pair units() const { return {senders, receivers}; }
};

/// Random modules that together have at most `most` ranks, and a batch: none, fewer samples than
/// ranks, samples of no tokens.
inline unit_step random_unit_step(ballast::random_source& random, std::size_t most,
                                  std::size_t least = 0)
{
  auto const size = [&](std::size_t below) {
    return static_cast<std::uint32_t>(1 + random.below(below));
  };
  for (;;) {
    bool const wide = random.below(3) > 0;
    ballast::unit_sizes const one{size(most), wide ? 1 : size(3), wide ? 1 : size(3)};
    ballast::unit_sizes const other{size(most), wide ? 1 : size(3), wide ? 1 : size(3)};
    auto const ranks_of = [](ballast::unit_sizes each) {
      return std::size_t{each.data} * each.pipeline * each.tensor;
    };
    if (ranks_of(one) + ranks_of(other) > most) { continue; }
    std::vector<ballast::tokens> lengths(random.below(4) == 0 ? random.below(3) : random.below(30));
    for (ballast::tokens& each : lengths) {
      each = random.below(5) == 0 ? 0 : static_cast<ballast::tokens>(random.below(40));
    }
    return {one, other, lengths, least};
  }
}

/// One rank's part: forward by every strategy, and back. Compares every byte.
template <ballast::point_to_point C, class Exchange>
void expect_unit_exchange(C& comm, unit_step const& step, step_arrays const& arrays,
                          Exchange& exchange)
{
  std::size_t const self = to_index(comm.rank());
  ballast::unit_plan plan;
  ballast::workspace memory;
  for (ballast::unit_strategy const strategy : ballast::unit_plan::strategies) {
    SCOPED_TRACE(testing::Message() << name_of(strategy) << ", rank " << self);
    plan_units(plan, memory, step.from, step.to, step.units(), strategy, comm.rank());
    auto there = arrays.unwritten(self);
    auto const out = arrays.between(arrays.before(self), there);
    auto done = exchange.forward(comm, plan, out[0], out[1]);
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_TRUE(there == arrays.after(self));
    auto back = arrays.unwritten_before(self);
    auto const home = arrays.between(there, back);
    done = exchange.backward(comm, plan, home[0], home[1]);
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_TRUE(back == arrays.before(self));
  }
  auto const done = exchange.finish(comm);
  EXPECT_TRUE(done) << done.error().message;
}

}  // namespace ballast_test
