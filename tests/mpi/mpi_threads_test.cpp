// SPDX-License-Identifier: Apache-2.0
#include "../support/orchestrated_steps.hpp"
#include "../support/test.hpp"
#include "mpi_world.hpp"

#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <mpi.h>

namespace {

using ballast::operator""_cost;
using ballast::tokens;
using ballast_test::world_rank;

char const* const alone = "MPI serves a single thread here";

// What a rank holds after some all-gathers of its number plus `first`.
std::uint64_t gather_numbers(ballast::mpi_communicator& comm, std::uint64_t first)
{
  std::uint64_t sum = 0;
  std::uint64_t const own = first + to_index(comm.rank());
  std::vector<std::uint64_t> all(comm.size());
  for (int call = 0; call < 20; ++call) {
    auto const done =
        comm.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
    if (!done) { return 0; }
    sum = std::accumulate(all.begin(), all.end(), sum);
  }
  return sum;
}

TEST(MpiThreads, MayHaveACommunicatorEach)
{
  if (!ballast::mpi_communicator::serves_threads()) { GTEST_SKIP() << alone; }
  auto comm = ballast_test::over_world();
  auto other = comm.split(0).value();
  std::uint64_t of_other = 0;
  std::uint64_t of_first = 0;
  {
    std::jthread const second([&] { of_other = gather_numbers(other, 1000); });
    of_first = gather_numbers(comm, 0);
  }
  std::uint64_t const ranks = comm.size();
  EXPECT_EQ(of_first, 20 * (ranks * (ranks - 1) / 2));
  EXPECT_EQ(of_other, of_first + 20 * 1000 * ranks);
  ballast_test::world_barrier();
}

// Groups of one origin share MPI communicators and tags.
TEST(MpiThreads, MaySplitACommunicatorEach)
{
  if (!ballast::mpi_communicator::serves_threads()) { GTEST_SKIP() << alone; }
  auto comm = ballast_test::over_world();
  auto other = comm.split(0).value();
  auto const gather_in_parts = [](ballast::mpi_communicator& whole) {
    std::vector<ballast::mpi_communicator> kept;
    std::uint64_t sum = 0;
    for (std::uint64_t round = 0; round < 100; ++round) {
      auto part = whole.split(3);
      if (!part) { return std::uint64_t{0}; }
      sum += gather_numbers(*part, round);
      if (round % 3 == 0) { kept.push_back(*std::move(part)); }
    }
    return sum;
  };
  std::uint64_t of_other = 0;
  std::uint64_t of_first = 0;
  {
    std::jthread const second([&] { of_other = gather_in_parts(other); });
    of_first = gather_in_parts(comm);
  }
  std::uint64_t const ranks = comm.size();
  EXPECT_EQ(of_first, 20 * (100 * (ranks * (ranks - 1) / 2) + ranks * (100 * 99 / 2)));
  EXPECT_EQ(of_other, of_first);
  ballast_test::world_barrier();
}

TEST(MpiThreads, MayPlanTheNextStepOfABalancer)
{
  auto comm = ballast_test::over_world();
  if (!comm.serves_threads()) { GTEST_SKIP() << alone; }
  auto const bags = ballast::one_gpu_bags(ballast_test::world_size());
  constexpr auto cost = "transformer:d=16"_cost;
  ballast::step_balancer direct(comm, bags, cost);
  ballast::step_balancer ahead(comm, bags, cost);
  auto const read = [](std::size_t step) {  // now and then more than ever before
    return std::vector<tokens>(step * step * (1 + world_rank()), tokens(8 + step % 7));
  };
  ASSERT_TRUE(ahead.submit(read(0)));
  for (std::size_t step = 0; step < 12; ++step) {
    ASSERT_TRUE(ahead.next());
    ASSERT_TRUE(ahead.submit(read(step + 1)));
    ASSERT_TRUE(direct.plan(read(step)));
    EXPECT_EQ(ahead.samples(), direct.samples());
    EXPECT_EQ(ahead.planned().digest(), direct.planned().digest());
  }
  ASSERT_TRUE(ahead.next());
  ballast_test::world_barrier();
}

// The phases of multimodal steps, planned in a thread of each process.
TEST(MpiThreads, MayPlanTheNextStepOfAnOrchestrator)
{
  auto comm = ballast_test::over_world();
  if (!comm.serves_threads()) { GTEST_SKIP() << alone; }
  EXPECT_EQ(ballast_test::wrong_arrays_of_jobs(comm, /*seed=*/20240607, /*jobs=*/4, /*steps=*/25),
            0U);
  ballast_test::world_barrier();
}

}  // namespace
