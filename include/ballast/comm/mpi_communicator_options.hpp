// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_MPI_COMMUNICATOR_OPTIONS_HPP
#define BALLAST_COMM_MPI_COMMUNICATOR_OPTIONS_HPP

#include <ballast/comm/deadline.hpp>

#include <chrono>
#include <cstddef>

namespace ballast::inline v0 {

/// How an mpi_communicator behaves. Every rank gives the same options, which are compared.
struct mpi_communicator_options {
  /// How long a rank waits without any message arriving, above zero. A call in which messages keep
  /// arriving may take longer.
  std::chrono::milliseconds deadline = default_deadline;
  /// Whether the ranks compare operations and sizes before bytes move: 8 bytes of each rank, a
  /// call. Turn it off only for plans that the ranks have compared already. Then sizes that differ
  /// are a mismatch on the ranks that receive such a message, and on others a deadline that passes
  /// or bytes that never arrive. barrier and split always compare.
  bool verify = true;
  /// Bytes; MPI's own limit is 2^31 - 1. A transfer is cut into parts of this size and a shorter
  /// one.
  std::size_t largest_message = std::size_t{1} << 30U;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_MPI_COMMUNICATOR_OPTIONS_HPP
