// SPDX-License-Identifier: Apache-2.0
// Every process runs every test; rank 0 reports, the others only what fails.

#include <mpi.h>

#include "../support/test.hpp"

#include <cstdio>

namespace {

class failures_with_rank : public testing::EmptyTestEventListener {
 public:
  explicit failures_with_rank(int rank) : rank_(rank) {}

  void OnTestPartResult(testing::TestPartResult const& part) override
  {
    if (!part.failed()) { return; }
    char const* const file = part.file_name() != nullptr ? part.file_name() : "unknown file";
    std::printf("%s:%d: on rank %d: %s\n", file, part.line_number(), rank_, part.message());
    std::fflush(stdout);
  }

 private:
  int rank_;
};

}  // namespace

int main(int argc, char** argv)
{
  testing::InitGoogleTest(&argc, argv);
  // MPI has locks only for the tests that call it from several threads.
  bool const threaded = testing::GTEST_FLAG(filter) == "MpiThreads.*";
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new failures_with_rank(rank));
  }
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
