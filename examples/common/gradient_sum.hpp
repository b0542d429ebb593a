// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

#include <bit>
#include <cstdio>

namespace block {

/// Sums over all ranks, in rank order: the same bits on every rank and by every communicator, which
/// an MPI_Allreduce does not promise.
template <ballast::communicator C>
values sum_over_ranks(C& comm, in own)
{
  values all(own.size() * comm.size());
  or_throw(comm.all_gather(std::as_bytes(own), std::as_writable_bytes(std::span(all))));
  or_throw(comm.wait());
  values sum(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    sum[i] = all[i];
    for (std::size_t rank = 1; rank < comm.size(); ++rank) { sum[i] += all[rank * own.size() + i]; }
  }
  return sum;
}

/// A line that is another one if a bit of loss or gradients is.
inline void print_step(std::size_t step, double loss, in gradients)
{
  ballast::digest bits;
  for (double const each : gradients) { bits.add(std::bit_cast<std::uint64_t>(each)); }
  std::printf("step %zu: loss %.17g, bits of the gradients %016llx\n", step, loss,
              static_cast<unsigned long long>(bits.value()));
}

}  // namespace block
