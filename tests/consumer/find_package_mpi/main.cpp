// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/mpi_communicator.hpp>

#include <cstddef>
#include <vector>

// Every process learns the first byte of every other; one process is enough to build, link and
// start.
int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  bool told = false;
  {
    auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD);
    if (comm) {
      std::vector<std::byte> const send{static_cast<std::byte>(to_index(comm->rank()))};
      std::vector<std::byte> receive(comm->size());
      told = comm->all_gather(send, receive) && receive[to_index(comm->rank())] == send[0];
    }
  }
  MPI_Finalize();
  return told ? 0 : 1;
}
