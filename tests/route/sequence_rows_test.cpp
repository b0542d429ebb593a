// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/row_array.hpp>

#include "../support/test.hpp"
#include "instances.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/route/route.hpp>

namespace {

using ballast::rows_of;
using ballast::thread_communicator;

// Every GPU of a bag gets the rows of its sequences; the reader gets the sum of what all send back.
TEST(SequenceRows, ReachEveryGpuOfTheBagAndTheirGradientsTheReader)
{
  constexpr std::size_t width = 2;
  ballast::random_source random(20240607);
  for (std::size_t const ranks : {1U, 3U, 6U}) {
    auto const bags = ballast_test::random_bags(ranks, random);
    ballast_test::random_step const step(20, bags, random);
    ballast::run_ranks(ranks, [&](thread_communicator& comm) {
      std::vector<std::int64_t> rows;   // sequence and ten times it
      std::vector<std::int64_t> there;  // of the rank's bag
      std::vector<std::int64_t> gradients;
      auto const own = ballast::to_index(comm.rank());
      for (std::size_t sequence = 0; sequence < step.source.size(); ++sequence) {
        auto const number = static_cast<std::int64_t>(sequence);
        auto const& bag = bags[step.owner[sequence]];
        auto const first = ballast::to_index(bag.first);
        if (first <= own && own < first + bag.gpus) {
          there.insert(there.end(), {number, 10 * number});
        }
        if (step.source[sequence] != comm.rank()) { continue; }
        rows.insert(rows.end(), {number, 10 * number});
        std::int64_t ranks_of_bag = 0;
        for (std::size_t gpu = first; gpu < first + bag.gpus; ++gpu) {
          ranks_of_bag += static_cast<std::int64_t>(gpu);
        }
        gradients.insert(gradients.end(), {ranks_of_bag, bag.gpus});
      }
      ballast::workspace memory;
      auto const& source = step.source;
      auto const& owner = step.owner;
      std::vector<std::int64_t> drows(rows.size());
      auto const beside = ballast::plan_sequence_rows(source, owner, bags, comm.rank());
      std::vector<std::int64_t> repeated(width *
                                         static_cast<std::size_t>(beside.route.rows_before));
      std::vector<std::int64_t> found(width * static_cast<std::size_t>(beside.route.rows_after));
      ballast::repeat_rows<std::int64_t>(beside.copies, rows, repeated);
      auto const sent =  // row i of `found` is of sequence i of the rank's bag
          ballast::route(comm, beside.route, memory, rows_of(repeated, found, width));
      EXPECT_TRUE(sent);
      EXPECT_EQ(found, there);
      // Each rank's gradient is its number, and 1.
      for (std::size_t at = 0; at < found.size(); at += width) {
        found[at] = static_cast<std::int64_t>(own);
        found[at + 1] = 1;
      }
      EXPECT_TRUE(
          ballast::reverse_route(comm, beside.route, memory, rows_of(found, repeated, width)));
      ballast::sum_rows<std::int64_t>(beside.copies, repeated, drows);
      EXPECT_EQ(drows, gradients);
    });
  }
}

TEST(SequenceRowsDeathTest, RejectWhatDoesNotFit)
{
  std::vector<ballast::tokens> const copies{2, 1};
  std::vector<int> const rows{1, 2};
  std::vector<int> repeated(4);
  EXPECT_DEATH(ballast::repeat_rows<int>(copies, rows, repeated), "3 elements");
}

}  // namespace
