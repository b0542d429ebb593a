// mpirun -np 8 ballast_mpi_bench: a route against what it cannot do without, a bare MPI_Alltoallv
// of the same counts and two memcpy of the same bytes, turn by turn in one run.

#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace {

using ballast::placement;
using ballast::rank_id;
using ballast::tokens;

// Seconds from when all ranks are there to when the last is done, the same on every rank.
template <class Work>
double job_seconds(Work const& work)
{
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = MPI_Wtime();
  work();
  double seconds = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double median(std::vector<double> values)
{
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct alltoallv_counts {
  std::vector<int> bytes;
  std::vector<int> begins;

  alltoallv_counts(std::span<tokens const> rows, tokens own, std::size_t self,
                   std::size_t row_bytes)
  {
    for (std::size_t peer = 0; peer < rows.size(); ++peer) {
      bytes.push_back(
          static_cast<int>((peer == self ? own : rows[peer]) * static_cast<tokens>(row_bytes)));
    }
    begins.resize(bytes.size());
    std::exclusive_scan(bytes.begin(), bytes.end(), begins.begin(), 0);
  }
};

void mpi_route(benchmark::State& state)
{
  auto const row_bytes = static_cast<std::size_t>(state.range(0));
  bool const verify = state.range(1) != 0;
  auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD, {.verify = verify}).value();
  std::size_t const ranks = comm.size();
  std::size_t const self = to_index(comm.rank());

  auto const lengths = bench::lognormal_lengths(8 * ranks, 1.0, /*seed=*/42);
  std::vector<rank_id> source;
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    source.push_back(ballast::to_id<rank_id>(sample / 8));
  }
  auto const bags = ballast::one_gpu_bags(ranks);
  auto const plan = ballast::partition(lengths, bags, bench::transformer_cost(), {},
                                       ballast::longest_processing_time{})
                        .value();
  auto const read = ballast::place(lengths, source, ranks);
  auto const computed = ballast::place(plan, bags).value();
  auto const to_compute = ballast::plan_route(read, computed, comm.rank());

  std::vector<std::byte> before(static_cast<std::size_t>(to_compute.rows_before) * row_bytes,
                                std::byte{1});
  std::vector<std::byte> after(static_cast<std::size_t>(to_compute.rows_after) * row_bytes,
                               std::byte{2});
  ballast::row_array const array{before, after, row_bytes};
  ballast::workspace memory;

  tokens kept = 0;
  for (ballast::route_plan::kept_rows const each : to_compute.kept) { kept += each.count; }
  alltoallv_counts const sent(to_compute.sent.rows(), kept, self, row_bytes);
  alltoallv_counts const received(to_compute.received.rows(), kept, self, row_bytes);
  std::vector<std::byte> outgoing(before.size(), std::byte{3});
  std::vector<std::byte> incoming(after.size(), std::byte{4});

  std::vector<double> ours;
  std::vector<double> bare;
  for (auto _ : state) {
    bool moved = true;
    ours.push_back(
        job_seconds([&] { moved = ballast::route(comm, to_compute, memory, array).has_value(); }));
    if (!moved) { state.SkipWithError("the route failed"); }
    bare.push_back(job_seconds([&] {
      std::memcpy(outgoing.data(), before.data(), before.size());
      MPI_Alltoallv(outgoing.data(), sent.bytes.data(), sent.begins.data(), MPI_BYTE,
                    incoming.data(), received.bytes.data(), received.begins.data(), MPI_BYTE,
                    MPI_COMM_WORLD);
      std::memcpy(after.data(), incoming.data(), incoming.size());
    }));
    state.SetIterationTime(ours.back());
  }
  state.counters["MB_per_rank"] = static_cast<double>(before.size()) / 1e6;
  state.counters["bare_ms"] = median(bare) * 1e3;
  state.counters["route_ms"] = median(ours) * 1e3;
  state.counters["route_of_bare"] = median(ours) / median(bare);
}

// Every rank runs every iteration, so that their number is fixed.
BENCHMARK(mpi_route)
    ->ArgNames({"row_bytes", "verify"})
    ->ArgsProduct({{64, 512, 2048}, {1, 0}})
    ->Iterations(31)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

struct silent : benchmark::BenchmarkReporter {
  bool ReportContext(Context const&) override { return true; }
  void ReportRuns(std::vector<Run> const&) override {}
};

}  // namespace

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  benchmark::Initialize(&argc, argv);
  if (rank == 0) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    silent nothing;
    benchmark::RunSpecifiedBenchmarks(&nothing);
  }
  MPI_Finalize();
}
