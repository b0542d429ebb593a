// SPDX-License-Identifier: Apache-2.0
// mpirun -np 4 process_gpus_mpi: processes of two GPUs, each of which is planned for. Threads stand
// in for the GPUs; what they compute comes home in the order in which it was read.

#include "common/step_reader.hpp"  // defines: block::step_reader

#include <ballast/ballast.hpp>
#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/runtime.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace {

using namespace ballast;

constexpr std::uint32_t gpus = 2;  // of each process

void compute(std::span<double const> x, std::span<double> y)
{
  for (std::size_t row = 0; row < x.size(); ++row) { y[row] = 2 * x[row] + 1; }
}

// Computes x on the GPUs of all processes; what comes back is as x is.
template <class Balancer>
std::vector<double> step(Balancer& balancer, std::vector<double> const& x)
{
  std::vector<double> y(x.size()), x_there(balancer.rows_computed()), y_there(x_there.size());
  or_throw(balancer.route(rows_of(x, x_there, 1)));  // between processes, for all GPUs at once
  std::vector<std::jthread> running;
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {  // balancer.lengths(gpu) are its sequences
    auto const [first, rows] = balancer.rows_of_gpu(gpu);
    auto const begin = static_cast<std::size_t>(first);
    auto const count = static_cast<std::size_t>(rows);
    running.emplace_back(compute, std::span(x_there).subspan(begin, count),
                         std::span(y_there).subspan(begin, count));
  }
  running.clear();  // joins them
  or_throw(balancer.reverse_route(rows_of(y_there, y, 1)));
  return y;
}

bool train(mpi_communicator& comm, std::size_t steps)
{
  step_balancer balancer(comm, one_gpu_bags(comm.size() * gpus), quadratic_cost{.linear = 1024},
                         refine{}, {.gpus_per_rank = gpus});
  std::vector<block::step_reader> readers;  // a process reads for its GPUs
  for (std::size_t gpu = gpus * to_index(comm.rank()); readers.size() < gpus; ++gpu) {
    readers.emplace_back(comm.size() * gpus, to_id<rank_id>(gpu));
  }
  bool same = true;
  for (std::size_t number = 1; number <= steps; ++number) {
    std::vector<tokens> read;
    for (block::step_reader& reader : readers) {
      auto const own = reader.next();
      read.insert(read.end(), own.begin(), own.end());
    }
    or_throw(balancer.plan(read));
    std::vector<double> x(balancer.rows_read());
    std::iota(x.begin(), x.end(), 1000.0 * static_cast<double>(to_index(comm.rank())));
    auto const y = step(balancer, x);
    for (std::size_t row = 0; row < x.size(); ++row) { same = same && y[row] == 2 * x[row] + 1; }
    if (comm.rank() == rank_id{0}) {
      std::printf("step %zu: %zu samples on %zu GPUs, the busiest %.2f %% above the bound\n",
                  number, balancer.samples().samples.size(), balancer.bags().gpus(),
                  100 * balancer.planned().gap());
    }
  }
  return same;
}

}  // namespace

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  bool same = false;
  try {
    auto comm = mpi_communicator::over(MPI_COMM_WORLD).value();
    same = train(comm, 3);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "process_gpus_mpi: %s\n", problem.what());
    MPI_Abort(MPI_COMM_WORLD, 1);  // others may be waiting for this rank
  }
  MPI_Finalize();
  return same ? 0 : 1;
}
