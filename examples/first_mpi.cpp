// SPDX-License-Identifier: Apache-2.0
// mpirun -np 4 first_mpi [seconds]: a step over MPI, and what to do when a rank does not come. With
// seconds, the last rank comes that much later.

#include <ballast/ballast.hpp>
#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using namespace ballast;

// [first_mpi]
result<tokens> tokens_to_compute(mpi_communicator& comm, std::vector<tokens> const& read)
{
  gathered_samples<tokens> all;
  if (auto done = gather_samples_into(all, comm, read, /*capacity=*/64); !done) {
    return tl::unexpected(done.error());
  }
  auto const bags = one_gpu_bags(comm.size());
  auto const plan =
      ballast::partition(all.samples, bags, longest_processing_time{}, quadratic_cost{.linear = 1});
  if (!plan) { return tl::unexpected(plan.error()); }
  if (auto same = agree(comm, plan->digest(), "the plan"); !same) {
    return tl::unexpected(same.error());
  }
  placement computed;
  if (auto placed = computed.assign_chunks(all.samples, *plan, bags); !placed) {
    return tl::unexpected(placed.error());
  }
  return computed.rows(comm.rank());
}

int train(std::vector<tokens> const& read, std::chrono::seconds late)
{
  auto comm = mpi_communicator::over(MPI_COMM_WORLD, {.deadline = std::chrono::seconds(2)});
  std::this_thread::sleep_for(late);
  auto const step =
      comm ? tokens_to_compute(*comm, read) : result<tokens>(tl::unexpected(comm.error()));
  if (!step) {
    std::fprintf(stderr, "%s: %s\n", name_of(step.error().code), step.error().message.c_str());
    return 1;
  }
  std::printf("%ld tokens to compute\n", *step);
  return 0;
}
// [first_mpi]

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
  if (train(read, late) != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(5));  // others have something to say as well
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
