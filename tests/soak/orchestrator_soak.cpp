// SPDX-License-Identifier: Apache-2.0
// orchestrator_soak threads|mpi STEPS [SEED]: multimodal steps at random of one, three or four
// encoders, on four threads or on the processes of mpirun. Every row is compared with what a naive
// rearrangement makes of the same plan, there and back; fails if one differs.

#include "../support/orchestrated_steps.hpp"

#include <ballast/comm/thread_communicator.hpp>
#ifdef SOAK_WITH_MPI
#include <ballast/comm/mpi_communicator.hpp>
#endif

#ifdef SOAK_WITH_MPI
#include <mpi.h>
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>

namespace {

constexpr int steps_of_job = 50;

struct chosen {
  int jobs = 0;
  std::uint64_t seed = 1;
};

template <class C>
std::size_t run(C& comm, chosen const& what)
{
  return ballast_test::wrong_arrays_of_jobs(comm, what.seed, what.jobs, steps_of_job);
}

// Prints the figures; returns the program's exit code.
int report(std::size_t wrong, std::size_t ranks, chosen const& what,
           std::chrono::steady_clock::time_point start)
{
  std::printf(
      "{\"ranks\": %zu, \"steps\": %d, \"seed\": %llu, \"seconds\": %.1f, "
      "\"wrong_arrays\": %zu}\n",
      ranks, what.jobs * steps_of_job, static_cast<unsigned long long>(what.seed),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), wrong);
  return wrong == 0 ? 0 : 1;
}

int on_threads(chosen const& what)
{
  constexpr std::size_t ranks = 4;
  auto const start = std::chrono::steady_clock::now();
  auto const wrong = ballast::run_ranks(
      ranks, [&](ballast::thread_communicator& comm) { return run(comm, what); });
  return report(std::reduce(wrong.begin(), wrong.end()), ranks, what, start);
}

#ifdef SOAK_WITH_MPI
int on_processes(chosen const& what)
{
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  int code = level < MPI_THREAD_MULTIPLE ? 1 : 0;
  if (code == 0) {
    auto const start = std::chrono::steady_clock::now();
    auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD).value();
    unsigned long long wrong = run(comm, what);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    code = wrong == 0 ? 0 : 1;
    if (comm.rank() == ballast::rank_id{0}) { code = report(wrong, comm.size(), what, start); }
  }
  MPI_Finalize();
  return code;
}
#endif

}  // namespace

int main(int argc, char** argv)
{
  std::string_view const where = argc > 1 ? argv[1] : "";
  chosen what;
  if (argc > 2) { what.jobs = std::atoi(argv[2]) / steps_of_job; }
  if (argc > 3) { what.seed = std::strtoull(argv[3], nullptr, 10); }
  if (what.jobs > 0 && where == "threads") { return on_threads(what); }
#ifdef SOAK_WITH_MPI
  if (what.jobs > 0 && where == "mpi") { return on_processes(what); }
#endif
  std::fprintf(stderr,
               "usage: orchestrator_soak threads STEPS [SEED], or mpirun -np 4 orchestrator_soak "
               "mpi STEPS [SEED]\n");
  return 2;
}
