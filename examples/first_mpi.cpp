// SPDX-License-Identifier: Apache-2.0
// mpirun -np 4 first_mpi [seconds]: a step over MPI, and what to do when a rank does not come. With
// seconds, the last rank comes that much later.

#include <ballast/ballast.hpp>
#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

namespace {

using namespace ballast;

// [first_mpi]
result<tokens> tokens_to_compute(mpi_communicator& comm, std::vector<tokens> const& read)
{
  auto const all = gather_samples(comm, read);
  if (!all) { return tl::unexpected(all.error()); }
  auto const bags = one_gpu_bags(comm.size());
  auto const plan = ballast::partition(all->samples, bags, quadratic_cost{.linear = 1}, {},
                                       longest_processing_time{});
  if (!plan) { return tl::unexpected(plan.error()); }
  if (auto same = agree(comm, plan->digest(), "the plan"); !same) {
    return tl::unexpected(same.error());
  }
  return place(*plan, bags).map([&](placement const& computed) {
    return computed.rows(comm.rank());
  });
}

constexpr std::chrono::milliseconds deadline = std::chrono::seconds(2);

// After a failure no rank calls MPI_Finalize, and one alone calls MPI_Abort: mpirun itself may hang
// or crash otherwise. It is the first rank that the error does not name; the others abort only if
// that one does not.
[[noreturn]] void give_up(rank_id self, error const& why)
{
  std::fprintf(stderr, "%s: %s\n", name_of(why.code), why.message.c_str());
  std::size_t first = 0;
  while (std::ranges::count(why.ranks, to_id<rank_id>(first)) > 0) { ++first; }
  bool const is_cause = std::ranges::count(why.ranks, self) > 0;  // others learn that later
  int const halves = to_index(self) == first ? 1 : is_cause ? 4 : 2;
  std::this_thread::sleep_for(halves * deadline / 2);  // others print theirs
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}
// [first_mpi]

void train(rank_id self, std::vector<tokens> const& read, std::chrono::seconds late)
try {
  auto comm = mpi_communicator::over(MPI_COMM_WORLD, {.deadline = deadline});
  std::this_thread::sleep_for(late);
  auto const step =
      comm ? tokens_to_compute(*comm, read) : result<tokens>(tl::unexpected(comm.error()));
  if (!step) { give_up(self, step.error()); }
  std::printf("%ld tokens to compute\n", *step);
  if (auto all_done = comm->barrier(); !all_done) { give_up(self, all_done.error()); }
} catch (std::exception const& thrown) {
  give_up(self, {error_code::peer_lost, 0, thrown.what(), {self}});
}

}  // namespace

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::chrono::seconds const late(argc > 1 && rank == ranks - 1 ? std::atoi(argv[1]) : 0);
  std::vector<tokens> const read(static_cast<std::size_t>(rank), 100 * (rank + 1));
  train(to_id<rank_id>(static_cast<std::size_t>(rank)), read, late);
  MPI_Finalize();
}
