// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "mpi_world.hpp"

#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>

namespace {

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
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) { GTEST_SKIP() << "MPI serves a single thread here"; }
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
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) { GTEST_SKIP() << "MPI serves a single thread here"; }
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

}  // namespace
